//! Where a token came from.

/// Numbers of sources, 0 (unspecified) included: the length of a table that is indexed by them.
pub const NUM_SOURCES: usize = 10;

crate::named::named! {
    /// The source a drafted (or emitted) token is credited to.
    ///
    /// The numbers are those of `Source` in `proto/spectrie/v1/inference.proto`. Credit is
    /// exclusive: a token that several sources proposed belongs to the first of prediction,
    /// request, shared, corpus, recycled, head, draft model.
    #[derive(PartialOrd, Ord)]
    pub enum Source: u8 {
        /// The model alone: no draft carried the token.
        Model = 1 => "model",
        /// The caller's `prediction`.
        Prediction = 2 => "prediction",
        /// The request's own prompt and output.
        Request = 3 => "request",
        /// What the namespace learned from other requests.
        Shared = 4 => "shared",
        /// A corpus the operator loaded.
        Corpus = 5 => "corpus",
        /// The model's own earlier runner-up tokens.
        Recycled = 6 => "recycled",
        /// Tokens a grammar forces.
        Grammar = 7 => "grammar",
        /// A head that drafts from the model's features.
        Head = 8 => "head",
        /// A smaller model.
        DraftModel = 9 => "draft_model",
    }
}

impl Source {
    /// The source of a number; `None` for 0 and above 9.
    #[must_use]
    pub fn from_number(number: u8) -> Option<Self> {
        let index = usize::from(number).checked_sub(1)?;
        Self::ALL.get(index).copied()
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
