//! Where a token came from.

use std::fmt;

use crate::TrieError;

/// The source a drafted (or emitted) token is credited to.
///
/// The numbers are those of `Source` in `proto/spectrie/v1/inference.proto`. Credit is exclusive:
/// a token that several sources proposed belongs to the first of prediction, request, shared,
/// corpus, recycled.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
pub enum Source {
    /// The model alone: no draft carried the token.
    Model = 1,
    /// The caller's `prediction`.
    Prediction = 2,
    /// The request's own prompt and output.
    Request = 3,
    /// What the namespace learnt from other requests.
    Shared = 4,
    /// A corpus the operator loaded.
    Corpus = 5,
    /// The model's own earlier runner-up tokens.
    Recycled = 6,
    /// Tokens a grammar forces.
    Grammar = 7,
}

impl Source {
    /// Every source, in the order of the numbers.
    pub const ALL: [Self; 7] = [
        Self::Model,
        Self::Prediction,
        Self::Request,
        Self::Shared,
        Self::Corpus,
        Self::Recycled,
        Self::Grammar,
    ];

    /// The name used on the wire, in metrics and in the demo.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Model => "model",
            Self::Prediction => "prediction",
            Self::Request => "request",
            Self::Shared => "shared",
            Self::Corpus => "corpus",
            Self::Recycled => "recycled",
            Self::Grammar => "grammar",
        }
    }
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl TryFrom<u8> for Source {
    type Error = TrieError;

    fn try_from(number: u8) -> Result<Self, TrieError> {
        Self::ALL
            .into_iter()
            .find(|source| *source as u8 == number)
            .ok_or(TrieError::UnknownSource { given: number })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_and_sources_map_both_ways() {
        for source in Source::ALL {
            assert_eq!(Source::try_from(source as u8), Ok(source));
        }
        assert_eq!(
            Source::try_from(0),
            Err(TrieError::UnknownSource { given: 0 })
        );
        assert_eq!(
            Source::try_from(8),
            Err(TrieError::UnknownSource { given: 8 })
        );
    }
}
