//! Sections of a step as a device reads it.

crate::named::named! {
    /// What a section of a packed step holds: R rows of the forward, S sampled rows, T top rows, M
    /// moves, Q requests with sampled rows; `i32`, or the bits of an `f32` where a number is one.
    ///
    /// What the sections from `seed` to `allowed` mean, `DrawRows` of `spectrie_kernels` says.
    pub enum PackedSection: u8 {
        /// Token of each row, \[R\].
        RowToken = 0 => "row_token",
        /// Position of each row, \[R\].
        RowPosition = 1 => "row_position",
        /// Slot that takes each row's key and value, \[R\].
        RowSlot = 2 => "row_slot",
        /// Rows whose logits are needed, \[S\].
        SampleRows = 3 => "sample_rows",
        /// Rows whose likeliest tokens are wanted, \[T\].
        TopRows = 4 => "top_rows",
        /// Slots to copy from and to, in order, before the forward, \[M, 2\].
        Moves = 5 => "moves",
        /// Pages of all requests, one after another.
        PageIds = 6 => "page_ids",
        /// Slots of each tree row's ancestors in this step, from the root to itself.
        PathSlots = 7 => "path_slots",
        /// Low and high word of each choice's seed, \[S, 2\].
        Seed = 8 => "seed",
        /// Index of the drawn token in prompt ++ output, \[S\].
        Position = 9 => "position",
        /// Index of the request among those with sampled rows, \[S\].
        Request = 10 => "request",
        /// \[S\] floats, like those up to `presence` but `top_k`.
        Temperature = 11 => "temperature",
        /// \[S\].
        TopK = 12 => "top_k",
        /// \[S\].
        TopP = 13 => "top_p",
        /// \[S\].
        MinP = 14 => "min_p",
        /// \[S\].
        TypicalP = 15 => "typical_p",
        /// \[S\].
        Repetition = 16 => "repetition",
        /// \[S\].
        Frequency = 17 => "frequency",
        /// \[S\].
        Presence = 18 => "presence",
        /// Where each request's entries begin in the next two, \[Q + 1\].
        BiasStart = 19 => "bias_start",
        /// Tokens with a bias.
        BiasToken = 20 => "bias_token",
        /// Their biases, floats.
        BiasValue = 21 => "bias_value",
        /// Where each request's entries begin in the next two, \[Q + 1\].
        SeenStart = 22 => "seen_start",
        /// Each token of prompt and output once; none without penalties.
        SeenToken = 23 => "seen_token",
        /// Its occurrences in the output.
        SeenCount = 24 => "seen_count",
        /// Where each row's entries begin in the next one, \[S + 1\].
        PathStart = 25 => "path_start",
        /// The drafts up to the row, its own token included; none without penalties.
        PathToken = 26 => "path_token",
        /// Where each row's entries begin in the next one, \[S + 1\].
        MaskedStart = 27 => "masked_start",
        /// Tokens that may not be drawn.
        MaskedToken = 28 => "masked_token",
        /// Mask of each row, below 0 where all tokens may be drawn, \[S\].
        AllowedRow = 29 => "allowed_row",
        /// Masks, each of a word for every 32 tokens of the vocabulary, rounded up.
        Allowed = 30 => "allowed",
        /// Row of its request that each row follows, -1 for a root, \[R\].
        RowParent = 31 => "row_parent",
        /// Trees with drafts whose tokens tell where their answers go: first row, rows, index of the first
        /// of their sampled rows, 0, \[trees, 4\].
        Walks = 32 => "walks",
    }
}

crate::named::named! {
    /// The lists of attention's work for one window: `AttentionWork` of `spectrie_kernels`, `i32`.
    pub enum PackedWork: u8 {
        /// Splits of prefixes, then tails, of requests of at most 64 rows, \[items, 8\].
        PartItems = 0 => "part_items",
        /// How their parts are added, \[rows, 4\].
        Combined = 1 => "combined",
        /// Tiles of longer requests, \[items, 8\].
        PromptItems = 2 => "prompt_items",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sections_are_in_the_order_of_their_numbers() {
        let numbers = PackedSection::ALL.map(|section| usize::from(section.number()));
        assert!(numbers.into_iter().eq(0..PackedSection::ALL.len()));
        let numbers = PackedWork::ALL.map(|list| usize::from(list.number()));
        assert!(numbers.into_iter().eq(0..PackedWork::ALL.len()));
    }
}
