//! The order in which attention adds a row's keys: of the row's position and the model, nothing else.
//!
//! The same as `KeyOrder` of `spectrie_kernels`; kernels/DESIGN.md says why.

/// Keys of a unit: neighbouring positions that begin at a multiple of this.
pub(super) const UNIT: usize = 64;

/// Splits times key-value heads make about one wave of programs for one row on the largest devices.
const PROGRAMS: usize = 132;
const MAX_SPLITS: usize = 32;

/// How the keys that a row sees are added: those of its prefix in splits, then those of its tail.
#[derive(Debug, Clone, Copy)]
pub(super) struct KeyOrder {
    max_splits: usize,
    window: Option<usize>,
}

/// Where a row's keys are cut; multiples of [`UNIT`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct KeySpans {
    /// First key of the prefix.
    pub(super) begin: usize,
    /// End of the prefix and first key of the tail, which ends with the row itself.
    pub(super) end: usize,
    /// Keys of a split; splits begin at its multiples.
    pub(super) split: usize,
}

impl KeyOrder {
    /// The order for a model with so many key-value heads, before ranks share them.
    pub(super) fn new(kv_heads: usize, window: Option<usize>) -> Self {
        Self {
            max_splits: (PROGRAMS / kv_heads).clamp(1, MAX_SPLITS),
            window,
        }
    }

    /// Where the keys of a row at `position` are cut; all rows of its unit are cut alike.
    pub(super) fn spans(&self, position: usize) -> KeySpans {
        let unit = position / UNIT;
        let end = UNIT * unit.saturating_sub(1);
        let begin = self.window.map_or(0, |window| {
            let first_seen = (UNIT * unit + 1).saturating_sub(window);
            end.min(first_seen / UNIT * UNIT)
        });
        let units = (end - begin) / UNIT;
        KeySpans {
            begin,
            end,
            split: UNIT * units.div_ceil(self.max_splits).max(1),
        }
    }
}

impl KeySpans {
    /// Number of its first split, by its multiple.
    pub(super) fn first_split(&self) -> usize {
        self.begin / self.split
    }

    /// How many splits the prefix has: none where it is empty.
    pub(super) fn num_splits(&self) -> usize {
        if self.end == self.begin {
            return 0;
        }
        self.end.div_ceil(self.split) - self.first_split()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn the_prefix_ends_a_unit_before_the_row_and_has_few_splits(
            kv_heads in 1_usize..200,
            window in prop::option::of(1_usize..10_000),
            position in 0_usize..200_000,
        ) {
            let order = KeyOrder::new(kv_heads, window);
            let spans = order.spans(position);
            prop_assert_eq!(spans, order.spans(position / UNIT * UNIT));
            prop_assert!(spans.begin <= spans.end && spans.end <= position);
            prop_assert!(position - spans.end < 2 * UNIT);
            prop_assert!([spans.begin, spans.end, spans.split].iter().all(|key| key % UNIT == 0));
            prop_assert!(spans.num_splits() <= order.max_splits + usize::from(window.is_some()));
            // No key that a row of the unit sees lies before the prefix.
            let first_seen = window.map_or(0, |window| (position / UNIT * UNIT + 1).saturating_sub(window));
            prop_assert!(spans.begin <= first_seen);
        }
    }
}
