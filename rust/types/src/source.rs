//! Where a token came from.

use std::fmt;

/// Numbers of sources, 0 (unspecified) included: the length of a table that is indexed by them.
pub const NUM_SOURCES: usize = 8;

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
    /// What the namespace learned from other requests.
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
    pub const ALL: [Self; NUM_SOURCES - 1] = [
        Self::Model,
        Self::Prediction,
        Self::Request,
        Self::Shared,
        Self::Corpus,
        Self::Recycled,
        Self::Grammar,
    ];

    /// The name used in JSON, metrics and the demo.
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

    /// The number on the wire.
    #[must_use]
    pub const fn number(self) -> u8 {
        self as u8
    }

    /// The source of a number; `None` for 0 and above 7.
    #[must_use]
    pub fn from_number(number: u8) -> Option<Self> {
        let index = usize::from(number).checked_sub(1)?;
        Self::ALL.get(index).copied()
    }
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_map_both_ways() {
        for (index, source) in Source::ALL.into_iter().enumerate() {
            assert_eq!(usize::from(source.number()), index + 1);
            assert_eq!(Source::from_number(source.number()), Some(source));
        }
        assert_eq!(Source::from_number(0), None);
        assert_eq!(Source::from_number(NUM_SOURCES as u8), None);
    }
}
