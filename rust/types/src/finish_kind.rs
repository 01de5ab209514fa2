//! Why a choice ended.

/// Why a choice ended; the numbers are those of `FinishKind` in
/// `proto/spectrie/worker/v1/worker.proto`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum FinishKind {
    /// An end-of-sequence token.
    Eos = 1,
    /// A token of `stop_token_ids`.
    StopToken = 2,
    /// `max_tokens`.
    Length = 3,
    /// Cancelled by the caller.
    Cancelled = 4,
    /// The deadline passed.
    Deadline = 5,
    /// Can never run; the message says why.
    Refused = 6,
    /// Failed inside the worker; the message says why.
    Failed = 7,
    /// The grammar leaves nothing that may follow: an end without an end token.
    Complete = 9,
}

impl FinishKind {
    /// Every kind, in the order of the numbers.
    pub const ALL: [Self; 8] = [
        Self::Eos,
        Self::StopToken,
        Self::Length,
        Self::Cancelled,
        Self::Deadline,
        Self::Refused,
        Self::Failed,
        Self::Complete,
    ];

    /// The name, as Python writes it in upper case.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Eos => "eos",
            Self::StopToken => "stop_token",
            Self::Length => "length",
            Self::Cancelled => "cancelled",
            Self::Deadline => "deadline",
            Self::Refused => "refused",
            Self::Failed => "failed",
            Self::Complete => "complete",
        }
    }

    /// The number on the wire.
    #[must_use]
    pub const fn number(self) -> u8 {
        self as u8
    }

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
