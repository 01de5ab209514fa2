//! How many draft nodes a step buys.
//!
//! A node's value is the probability that the model takes its whole path, so the sum of values is
//! the expected number of accepted tokens. The step buys the likeliest nodes of all requests, as
//! many as maximise the expected tokens per second: (requests + sum of values) / T(rows). Zero is a
//! number.

use super::bid::Bid;
use crate::costs::{CostCurve, ForwardSize};

/// Drafts must promise this factor over none: below it the promise is within the error of the cost
/// curve.
pub(super) const HURDLE: f64 = 1.01;

/// Nodes of at least this many times the average price of a row are worth offering.
const OFFER_SHARE: f64 = 0.5;

/// Nodes below this value are never worth their bookkeeping.
const MIN_OFFER: f64 = 0.01;

/// Nodes of this value are always offered: the average price overstates that of the first rows.
const MAX_OFFER: f64 = 0.5;

/// The rows of a step before drafts.
#[derive(Debug, Clone, Copy)]
pub(crate) struct BaseRows {
    /// Requests that decode, one row each.
    pub(crate) decoding: usize,
    /// Their rows, and the draft rows of fixed modes, which are not up for choice.
    pub(crate) trees: ForwardSize,
    /// Prompt rows.
    pub(crate) chunk: ForwardSize,
    /// Rows that may be added.
    pub(crate) left: usize,
}

impl BaseRows {
    /// All of the forward before drafts.
    pub(super) fn whole(&self) -> ForwardSize {
        self.trees + self.chunk
    }

    /// So many draft rows, spread evenly over requests of the average context.
    fn spread(&self, most: usize, tile_rows: usize) -> impl Iterator<Item = ForwardSize> + Clone {
        let (decoding, rows) = (self.decoding.max(1), self.trees.rows.max(1));
        let kv_tokens = self.trees.kv_tokens / rows;
        (0..most).map(move |index| {
            // Rows of its request before it, the one of the last token included.
            let before = 1 + index / decoding;
            ForwardSize {
                rows: 1,
                kv_tokens,
                kv_reads: if before % tile_rows == 0 {
                    kv_tokens
                } else {
                    0
                },
            }
        })
    }
}

/// What a step buys.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Purchase {
    /// Nodes, from the head of the sorted bids.
    pub(crate) nodes: usize,
    /// What a token costs without drafts.
    pub(crate) ms_per_token: f64,
    /// What a bought node adds to the forward, on average; 0 when none is.
    pub(crate) ms_per_node: f64,
}

/// How many of the sorted `bids` to buy in a step in which asking for them took `asked_ms`.
///
/// That time is spent whatever is bought, so it is part of the step with and without drafts;
/// whether it was worth it decides what is asked in later steps.
pub(crate) fn purchase(bids: &[Bid], base: BaseRows, asked_ms: f64, costs: &CostCurve) -> Purchase {
    let most = bids.len().min(base.left);
    let bids = &bids[..most];
    let mut gains = vec![0.0; most + 1];
    for (index, bid) in bids.iter().enumerate() {
        gains[index + 1] = gains[index] + f64::from(bid.value.max(0.0));
    }
    let decoding = base.decoding as f64;
    let added = || bids.iter().map(|bid| bid.added);
    // What a millisecond is worth: the best rate of these requests without prompt rows.
    let alone = costs.milliseconds_with(base.trees, added());
    let rate = |nodes: usize| (decoding + gains[nodes]) / (alone[nodes] + asked_ms);
    let (nodes, worth) = best(most, rate);
    let of = |nodes: usize, times: &[f64]| Purchase {
        nodes,
        ms_per_token: alone[0] / decoding.max(1.0),
        ms_per_node: (times[nodes] - times[0]) / nodes.max(1) as f64,
    };
    if base.chunk.rows == 0 {
        let pays = worth >= HURDLE * rate(0);
        return of(if pays { nodes } else { 0 }, &alone);
    }
    let whole = costs.milliseconds_with(base.whole(), added());
    let profit = |nodes: usize| gains[nodes] - worth * HURDLE * (whole[nodes] - whole[0]);
    of(best(most, profit).0, &whole)
}

/// The least value worth offering in a step before `most` draft rows, where asking for drafts
/// takes `asking_ms`; `None` when not even certain drafts would pay: none is drafted to be dropped.
pub(crate) fn min_value(
    base: BaseRows,
    most: usize,
    asking_ms: f64,
    costs: &CostCurve,
) -> Option<f32> {
    let most = most.min(base.left);
    if base.decoding == 0 || most == 0 {
        return None;
    }
    let spread = base.spread(most, costs.tile_rows());
    let alone = costs.milliseconds_with(base.trees, spread.clone());
    let decoding = base.decoding as f64;
    let plain_rate = decoding / alone[0];
    let rate = |nodes: usize| (decoding + nodes as f64) / (alone[nodes] + asking_ms);
    if best(most, rate).1 < HURDLE * plain_rate {
        return None;
    }
    let slope = if base.chunk.rows == 0 {
        (alone[most] - alone[0]) / most as f64
    } else {
        let grown = base.whole() + spread.sum();
        (costs.milliseconds(grown) - costs.milliseconds(base.whole())) / most as f64
    };
    Some((OFFER_SHARE * slope * plain_rate).clamp(MIN_OFFER, MAX_OFFER) as f32)
}

/// The least argument in `0..=most` of the greatest value, and that value.
fn best(most: usize, value: impl Fn(usize) -> f64) -> (usize, f64) {
    (0..=most).fold((0, f64::NEG_INFINITY), |(at, best), next| {
        let candidate = value(next);
        if candidate > best {
            (next, candidate)
        } else {
            (at, best)
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::costs::CostShape;

    fn some_bids(values: &[f32]) -> Vec<Bid> {
        values
            .iter()
            .enumerate()
            .map(|(node, &value)| Bid {
                value,
                added: ForwardSize::of_tree(0, 1, 1),
                offer: 0,
                node,
            })
            .collect()
    }

    fn rows(rows: usize) -> ForwardSize {
        ForwardSize::of_tree(0, rows, 1)
    }

    fn base(decoding: usize) -> BaseRows {
        BaseRows {
            decoding,
            trees: rows(decoding),
            chunk: rows(0),
            left: 100,
        }
    }

    fn curve(rows: &[usize], milliseconds: &[f64]) -> CostCurve {
        CostCurve::new(rows, milliseconds, CostShape::default()).unwrap()
    }

    fn num_bought(bids: &[Bid], base: BaseRows, costs: &CostCurve) -> usize {
        purchase(bids, base, 0.0, costs).nodes
    }

    #[test]
    fn free_rows_are_all_bought_and_dear_rows_are_not() {
        let bids = some_bids(&[0.9, 0.5, 0.2, 0.05]);
        let flat = curve(&[1, 64], &[10.0, 10.0]);
        assert_eq!(num_bought(&bids, base(1), &flat), 4);
        let proportional = curve(&[1, 64], &[10.0, 640.0]);
        assert_eq!(num_bought(&bids, base(1), &proportional), 0);
        let sloped = curve(&[1, 2], &[10.0, 14.0]);
        assert_eq!(num_bought(&bids, base(1), &sloped), 1);
    }

    #[test]
    fn buying_crosses_a_stair_only_when_what_lies_behind_it_pays() {
        let stairs = curve(&[1, 4, 5, 8], &[10.0, 10.0, 16.0, 16.0]);
        assert_eq!(num_bought(&some_bids(&[0.25; 7]), base(1), &stairs), 3);
        assert_eq!(num_bought(&some_bids(&[0.9; 7]), base(1), &stairs), 7);
        assert_eq!(num_bought(&some_bids(&[0.9; 4]), base(1), &stairs), 3);
    }

    #[test]
    fn more_requests_make_rows_dearer() {
        let costs = curve(&[1, 8, 64], &[10.0, 10.5, 80.0]);
        let bids = some_bids(&[0.6, 0.5, 0.4, 0.3]);
        assert_eq!(num_bought(&bids, base(1), &costs), 4);
        assert_eq!(num_bought(&bids, base(32), &costs), 0);
    }

    #[test]
    fn long_contexts_make_rows_dearer() {
        let shape = CostShape {
            ms_per_key: 0.001,
            ..CostShape::default()
        };
        let costs = CostCurve::new(&[1, 8], &[10.0, 10.7], shape).unwrap();
        let bids = |kv_tokens| {
            let mut bids = some_bids(&[0.6, 0.3, 0.2]);
            for bid in &mut bids {
                bid.added = ForwardSize::of_tree(kv_tokens, 1, 1);
            }
            bids
        };
        let with = |kv_tokens| BaseRows {
            trees: ForwardSize::of_tree(kv_tokens, 1, 1),
            ..base(1)
        };
        assert_eq!(num_bought(&bids(100), with(100), &costs), 3);
        assert_eq!(num_bought(&bids(8000), with(8000), &costs), 1);
        assert!(min_value(with(8000), 4, 0.0, &costs) > min_value(with(100), 4, 0.0, &costs));
    }

    #[test]
    fn a_chunk_in_the_step_does_not_make_bad_drafts_good() {
        let costs = curve(&[1, 2, 300], &[10.0, 15.0, 1500.0]);
        let with_chunk = BaseRows {
            chunk: rows(256),
            ..base(1)
        };
        assert_eq!(num_bought(&some_bids(&[0.3, 0.2]), with_chunk, &costs), 0);
        assert_eq!(num_bought(&some_bids(&[0.9, 0.2]), with_chunk, &costs), 1);
    }

    #[test]
    fn nothing_is_offered_where_certainty_would_not_pay() {
        let flat = curve(&[1, 64], &[10.0, 10.0]);
        let steep = curve(&[1, 2], &[10.0, 21.0]);
        let sloped = curve(&[1, 2], &[10.0, 11.0]);
        assert_eq!(min_value(base(1), 16, 0.0, &flat), Some(0.01));
        assert_eq!(min_value(base(1), 16, 0.0, &steep), None);
        assert_eq!(min_value(base(1), 0, 0.0, &flat), None);
        let price = min_value(base(1), 16, 0.0, &sloped).unwrap();
        assert!((price - 0.05).abs() < 1e-4, "{price}");
    }

    #[test]
    fn nothing_is_offered_where_asking_costs_more_than_certainty_saves() {
        let flat = curve(&[1, 64], &[10.0, 10.0]);
        // Sixteen certain nodes save 160 ms.
        assert!(min_value(base(1), 16, 150.0, &flat).is_some());
        assert_eq!(min_value(base(1), 16, 160.0, &flat), None);
    }

    #[test]
    fn what_asking_took_is_spent_and_keeps_no_good_draft_from_being_bought() {
        let flat = curve(&[1, 64], &[10.0, 10.0]);
        let bids = some_bids(&[0.3, 0.1]);
        assert_eq!(purchase(&bids, base(1), 4.0, &flat).nodes, 2);
    }

    #[test]
    fn limits_on_rows_hold() {
        let flat = curve(&[1, 64], &[10.0, 10.0]);
        let base = BaseRows { left: 2, ..base(1) };
        assert_eq!(num_bought(&some_bids(&[0.9; 5]), base, &flat), 2);
        assert_eq!(num_bought(&[], base, &flat), 0);
    }
}
