//! Why draft memory dropped text.

use std::fmt;

/// Number of reasons: the length of a table that is indexed by them.
pub const NUM_DROP_REASONS: usize = 6;

/// Why draft memory dropped tokens, or did not take them.
///
/// The numbers are places in `dropped_tokens` of `proto/spectrie/worker/v1/worker.proto`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum DropReason {
    /// Older text of a namespace made room for newer text of its own.
    Share = 0,
    /// A namespace had more than its share, and one that had less needed the room.
    Fairness = 1,
    /// A namespace that nobody had used for long gave its room to others.
    Idle = 2,
    /// An operator forgot the namespace.
    Forgotten = 3,
    /// There was no room: the text was never stored.
    NoRoom = 4,
    /// A snapshot was damaged where it held the text.
    Damaged = 5,
}

impl DropReason {
    /// Every reason, in the order of the numbers.
    pub const ALL: [Self; NUM_DROP_REASONS] = [
        Self::Share,
        Self::Fairness,
        Self::Idle,
        Self::Forgotten,
        Self::NoRoom,
        Self::Damaged,
    ];

    /// The name used in metrics.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Share => "share",
            Self::Fairness => "fairness",
            Self::Idle => "idle",
            Self::Forgotten => "forgotten",
            Self::NoRoom => "no_room",
            Self::Damaged => "damaged",
        }
    }

    /// Its place in a table of all reasons.
    #[must_use]
    pub const fn index(self) -> usize {
        self as usize
    }

    /// Whether the text was there and made room for other text.
    #[must_use]
    pub const fn is_eviction(self) -> bool {
        matches!(self, Self::Share | Self::Fairness | Self::Idle)
    }
}

impl fmt::Display for DropReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reasons_are_in_the_order_of_their_numbers_and_have_a_name_each() {
        let mut names = std::collections::BTreeSet::new();
        for (index, reason) in DropReason::ALL.into_iter().enumerate() {
            assert_eq!(reason.index(), index);
            assert!(names.insert(reason.name()));
        }
    }
}
