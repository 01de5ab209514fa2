//! Keys that a drafter without features makes up before it is asked: what they cost, and how many in a step.

use super::level_costs::LevelCosts;
use super::wish::{Missing, Wish};

/// Keys of tokens from before the last step are an investment, which pays off over so many steps.
const PAYS_OFF_STEPS: f64 = 64.0;

/// Tokens that may be made up in a step, however long that takes.
const LEAST_TOKENS: usize = 16;

/// More than any context.
const MOST_TOKENS: usize = 1 << 24;

/// Keys of a request that are made up, the first ones first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Fill {
    /// Index of the request among those that decode.
    pub(crate) candidate: usize,
    /// How many at most, more or less.
    pub(crate) most: usize,
}

/// What is asked and made up in a step.
#[derive(Debug, Default)]
pub(super) struct Parts {
    pub(super) wishes: Vec<Wish>,
    pub(super) fills: Vec<Fill>,
}

impl LevelCosts {
    /// What keys must be worth in each step for which they are there.
    pub(super) fn fill_share_ms(&self, missing: Missing) -> f64 {
        let fresh_ms = self.fill_ms(missing.fresh.min(missing.total));
        let rest_ms = (self.fill_ms(missing.total) - fresh_ms).max(0.0);
        fresh_ms + rest_ms / PAYS_OFF_STEPS
    }

    /// Tokens whose keys may be made up in a step that takes `step_ms` without drafts: as many as double it.
    pub(super) fn most_fills(&self, step_ms: f64) -> usize {
        let mut most = LEAST_TOKENS;
        while most < MOST_TOKENS && self.fill_ms(2 * most) <= step_ms {
            most *= 2;
        }
        most
    }
}

impl Parts {
    /// Of wishes, the best first, those whose requests lack no more than `most` keys in all are asked. What is left
    /// of that goes to the next one, which is asked when it has all keys.
    pub(super) fn of(wishes: Vec<Wish>, mut most: usize) -> Self {
        let mut parts = Self::default();
        for wish in wishes {
            let total = wish.missing.total;
            if total > 0 && most > 0 {
                parts.fills.push(Fill {
                    candidate: wish.candidate,
                    most: total.min(most),
                });
            }
            if total <= most {
                most -= total;
                parts.wishes.push(wish);
            } else {
                most = 0;
            }
        }
        parts
    }
}

#[cfg(test)]
mod tests {
    use spectrie_trie::Inquiry;
    use spectrie_types::Source;

    use super::super::info::DrafterInfo;
    use super::*;

    fn costs() -> LevelCosts {
        LevelCosts::new(&DrafterInfo {
            source: Source::DraftModel,
            needs_features: false,
            max_levels: 4,
            max_rows: 64,
            rows: vec![1, 64],
            first_ms: vec![1.0, 2.0],
            later_ms: vec![1.0, 2.0],
            // A tenth of a millisecond for each.
            fill_ms: vec![0.1, 6.4],
            namespaces: None,
        })
    }

    #[test]
    fn what_was_missed_in_a_long_sleep_counts_little_in_each_step_that_it_serves() {
        let share = |total, fresh| costs().fill_share_ms(Missing { total, fresh });
        assert!((share(3, 3) - 0.3).abs() < 1e-9);
        assert!((share(643, 3) - (0.3 + 1.0)).abs() < 1e-9);
        assert!(share(0, 3) <= 0.0);
    }

    #[test]
    fn keys_double_a_step_at_most_and_a_request_is_asked_when_it_has_all() {
        let most = costs().most_fills(10.0);
        assert_eq!(most, 64);
        assert_eq!(costs().most_fills(0.01), LEAST_TOKENS);
        let wishes = [10, 200, 5, 0].map(|total| Wish {
            candidate: total,
            missing: Missing { total, fresh: 1 },
            inquiry: Inquiry {
                parent: None,
                token: 1,
                depth: 0,
                gain: 0.5,
                before: 0.1,
                price: 0.0,
                surplus: 0.1,
                named: Vec::new(),
            },
        });
        let parts = Parts::of(wishes.into(), most);
        let asked = parts.wishes.iter().map(|wish| wish.candidate);
        assert_eq!(asked.collect::<Vec<_>>(), [10, 0]);
        let fills = parts.fills.iter().map(|fill| (fill.candidate, fill.most));
        assert_eq!(fills.collect::<Vec<_>>(), [(10, 10), (200, 54)]);
    }
}
