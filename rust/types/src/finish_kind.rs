//! Why a choice ended.

crate::named::named! {
    /// Why a choice ended; the numbers are those of `FinishKind` in
    /// `proto/spectrie/worker/v1/worker.proto`.
    pub enum FinishKind: u8 {
        /// An end-of-sequence token.
        Eos = 1 => "eos",
        /// A token of `stop_token_ids`.
        StopToken = 2 => "stop_token",
        /// `max_tokens`.
        Length = 3 => "length",
        /// Cancelled by the caller.
        Cancelled = 4 => "cancelled",
        /// The deadline passed.
        Deadline = 5 => "deadline",
        /// Can never run to its end as it stands; the message says why.
        Refused = 6 => "refused",
        /// Failed inside the worker; the message says why.
        Failed = 7 => "failed",
        /// A stop text, or a grammar that leaves nothing that may follow: an end without an end
        /// token.
        Complete = 9 => "complete",
    }
}

impl FinishKind {
    /// Whether the model itself came to the end, so that the output is worth learning.
    #[must_use]
    pub const fn is_natural(self) -> bool {
        matches!(
            self,
            Self::Eos | Self::StopToken | Self::Length | Self::Complete
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_those_of_the_wire_where_8_is_nobodys() {
        let numbers: Vec<u8> = FinishKind::ALL.map(FinishKind::number).to_vec();
        assert_eq!(numbers, [1, 2, 3, 4, 5, 6, 7, 9]);
    }

    #[test]
    fn the_model_ends_four_ways_itself() {
        let natural = FinishKind::ALL.into_iter().filter(|kind| kind.is_natural());
        let numbers: Vec<u8> = natural.map(FinishKind::number).collect();
        assert_eq!(numbers, [1, 2, 3, 9]);
    }
}
