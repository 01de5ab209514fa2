//! How many draft nodes a step buys.
//!
//! A node's value is the probability that the model takes its whole path, so the sum of values is
//! the expected number of accepted tokens. The step buys the likeliest nodes of all requests, as
//! many as maximise the expected tokens per second: (requests + sum of values) / T(rows). Zero is a
//! number.

use spectrie_trie::DraftTree;

use crate::cost::CostCurve;

/// Drafts must promise this factor over none: below it the promise is within the error of the cost
/// curve.
const HURDLE: f64 = 1.01;

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
    /// Prompt rows.
    pub(crate) chunk: usize,
    /// Draft rows of fixed modes, not up for choice.
    pub(crate) fixed: usize,
    /// Rows that may be added.
    pub(crate) left: usize,
}

/// A node up for choice.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Bid {
    /// Never above its parent's.
    pub(crate) value: f32,
    pub(crate) offer: usize,
    pub(crate) node: usize,
}

/// The nodes of a tree as bids; those deeper than `max_depth` are left out.
pub(crate) fn bids(offer: usize, tree: &DraftTree, max_depth: usize) -> Vec<Bid> {
    let mut values: Vec<f32> = Vec::with_capacity(tree.nodes.len());
    for node in &tree.nodes {
        let most = node.parent.map_or(1.0, |parent| values[parent as usize]);
        values.push(node.value.min(most));
    }
    let nodes = values.into_iter().enumerate().zip(&tree.nodes);
    let shallow = nodes.filter(|(_, node)| usize::from(node.depth) <= max_depth);
    shallow
        .map(|((node, value), _)| Bid { value, offer, node })
        .collect()
}

/// Sorts bids so that every head of the list holds the parents of its nodes, the likeliest first.
pub(crate) fn sort(bids: &mut [Bid]) {
    bids.sort_by(|a, b| {
        b.value
            .total_cmp(&a.value)
            .then(a.offer.cmp(&b.offer))
            .then(a.node.cmp(&b.node))
    });
}

/// How many of the sorted `bids` to buy.
pub(crate) fn num_bought(bids: &[Bid], base: BaseRows, costs: &CostCurve) -> usize {
    let most = bids.len().min(base.left);
    let mut gains = vec![0.0; most + 1];
    for (index, bid) in bids[..most].iter().enumerate() {
        gains[index + 1] = gains[index] + f64::from(bid.value.max(0.0));
    }
    let decoding = base.decoding as f64;
    let alone = base.decoding + base.fixed;
    // What a millisecond is worth: the best rate of these requests without company.
    let rate = |nodes: usize| (decoding + gains[nodes]) / costs.milliseconds(alone + nodes);
    let (_, worth) = best(most, rate);
    if base.chunk == 0 {
        let (nodes, best_rate) = best(most, rate);
        return if best_rate >= HURDLE * rate(0) {
            nodes
        } else {
            0
        };
    }
    let rows = alone + base.chunk;
    let none = costs.milliseconds(rows);
    let profit =
        |nodes: usize| gains[nodes] - worth * HURDLE * (costs.milliseconds(rows + nodes) - none);
    best(most, profit).0
}

/// The least value worth offering in a step before `most` draft rows; `None` when not even certain
/// drafts would pay, so that nothing is drafted only to be dropped.
pub(crate) fn min_value(base: BaseRows, most: usize, costs: &CostCurve) -> Option<f32> {
    let certain = Bid {
        value: 1.0,
        offer: 0,
        node: 0,
    };
    let most = most.min(base.left);
    if base.decoding == 0 || num_bought(&vec![certain; most], base, costs) == 0 {
        return None;
    }
    let rows = base.decoding + base.chunk;
    let slope = (costs.milliseconds(rows + most) - costs.milliseconds(rows)) / most as f64;
    let rate = base.decoding as f64 / costs.milliseconds(base.decoding);
    Some((OFFER_SHARE * slope * rate).clamp(MIN_OFFER, MAX_OFFER) as f32)
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
    use proptest::prelude::*;
    use proptest::test_runner::RngSeed;
    use spectrie_trie::{DraftNode, Source};

    fn some_bids(values: &[f32]) -> Vec<Bid> {
        values
            .iter()
            .enumerate()
            .map(|(node, &value)| Bid {
                value,
                offer: 0,
                node,
            })
            .collect()
    }

    fn base(decoding: usize) -> BaseRows {
        BaseRows {
            decoding,
            chunk: 0,
            fixed: 0,
            left: 100,
        }
    }

    #[test]
    fn free_rows_are_all_bought_and_dear_rows_are_not() {
        let bids = some_bids(&[0.9, 0.5, 0.2, 0.05]);
        let flat = CostCurve::new(&[1, 64], &[10.0, 10.0]).unwrap();
        assert_eq!(num_bought(&bids, base(1), &flat), 4);
        let proportional = CostCurve::new(&[1, 64], &[10.0, 640.0]).unwrap();
        assert_eq!(num_bought(&bids, base(1), &proportional), 0);
        let sloped = CostCurve::new(&[1, 2], &[10.0, 14.0]).unwrap();
        assert_eq!(num_bought(&bids, base(1), &sloped), 1);
    }

    #[test]
    fn buying_crosses_a_stair_only_when_what_lies_behind_it_pays() {
        let stairs = CostCurve::new(&[1, 4, 5, 8], &[10.0, 10.0, 16.0, 16.0]).unwrap();
        assert_eq!(num_bought(&some_bids(&[0.25; 7]), base(1), &stairs), 3);
        assert_eq!(num_bought(&some_bids(&[0.9; 7]), base(1), &stairs), 7);
        assert_eq!(num_bought(&some_bids(&[0.9; 4]), base(1), &stairs), 3);
    }

    #[test]
    fn more_requests_make_rows_dearer() {
        let curve = CostCurve::new(&[1, 8, 64], &[10.0, 10.5, 80.0]).unwrap();
        let bids = some_bids(&[0.6, 0.5, 0.4, 0.3]);
        assert_eq!(num_bought(&bids, base(1), &curve), 4);
        assert_eq!(num_bought(&bids, base(32), &curve), 0);
    }

    #[test]
    fn company_of_a_chunk_does_not_make_bad_drafts_good() {
        let curve = CostCurve::new(&[1, 2, 300], &[10.0, 15.0, 1500.0]).unwrap();
        let with_chunk = BaseRows {
            chunk: 256,
            ..base(1)
        };
        assert_eq!(num_bought(&some_bids(&[0.3, 0.2]), with_chunk, &curve), 0);
        assert_eq!(num_bought(&some_bids(&[0.9, 0.2]), with_chunk, &curve), 1);
    }

    #[test]
    fn nothing_is_offered_where_certainty_would_not_pay() {
        let flat = CostCurve::new(&[1, 64], &[10.0, 10.0]).unwrap();
        let steep = CostCurve::new(&[1, 2], &[10.0, 21.0]).unwrap();
        let sloped = CostCurve::new(&[1, 2], &[10.0, 11.0]).unwrap();
        assert_eq!(min_value(base(1), 16, &flat), Some(0.01));
        assert_eq!(min_value(base(1), 16, &steep), None);
        assert_eq!(min_value(base(1), 0, &flat), None);
        let price = min_value(base(1), 16, &sloped).unwrap();
        assert!((price - 0.05).abs() < 1e-4, "{price}");
    }

    /// Trees of up to four nodes each, by the parent and the conditional probability of each.
    fn some_trees() -> impl Strategy<Value = Vec<DraftTree>> {
        let node = (any::<prop::sample::Index>(), 0.02_f32..1.0);
        let tree = prop::collection::vec(node, 0..5).prop_map(|nodes| {
            let mut tree = DraftTree::default();
            for (token, (parent, probability)) in (0..).zip(nodes) {
                // Index 0 stands for the root.
                let parent = parent.index(tree.nodes.len() + 1).checked_sub(1);
                let (depth, value) = parent.map_or((1, 1.0), |index| {
                    let above: &DraftNode = &tree.nodes[index];
                    (above.depth + 1, above.value)
                });
                tree.nodes.push(DraftNode {
                    token,
                    parent: parent.map(|index| index as u32),
                    depth,
                    value: value * probability,
                    source: Source::Request,
                });
            }
            tree
        });
        prop::collection::vec(tree, 1..4)
    }

    fn some_costs() -> impl Strategy<Value = CostCurve> {
        prop::collection::vec(0.0_f64..4.0, 5).prop_map(|rises| {
            let mut milliseconds = vec![10.0];
            milliseconds.extend(rises.iter().scan(10.0, |sum, rise| {
                *sum += rise;
                Some(*sum)
            }));
            CostCurve::new(&[1, 2, 4, 8, 12, 32], &milliseconds).unwrap()
        })
    }

    /// Expected accepted tokens and number of every choice of nodes that holds all parents.
    fn choices(trees: &[DraftTree]) -> Vec<(f64, usize)> {
        let nodes: Vec<(usize, &DraftNode)> = trees
            .iter()
            .enumerate()
            .flat_map(|(tree, one)| one.nodes.iter().map(move |node| (tree, node)))
            .collect();
        let place = |tree: usize, node: u32| {
            let before: usize = trees[..tree].iter().map(DraftTree::len).sum();
            before + node as usize
        };
        let whole = (0..1_u32 << nodes.len()).filter(|set| {
            nodes.iter().enumerate().all(|(at, &(tree, node))| {
                set >> at & 1 == 0
                    || node
                        .parent
                        .is_none_or(|parent| set >> place(tree, parent) & 1 == 1)
            })
        });
        whole
            .map(|set| {
                let taken = nodes
                    .iter()
                    .enumerate()
                    .filter(|(at, _)| set >> at & 1 == 1);
                let sum = taken.map(|(_, (_, node))| f64::from(node.value)).sum();
                (sum, set.count_ones() as usize)
            })
            .collect()
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 200, rng_seed: RngSeed::Fixed(7), failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn no_choice_of_nodes_promises_more_tokens_a_millisecond(
            trees in some_trees(),
            costs in some_costs(),
            left in 0_usize..14,
            chunk in prop_oneof![Just(0_usize), 1_usize..20],
        ) {
            let base = BaseRows { decoding: trees.len(), chunk, fixed: 0, left };
            let mut offered: Vec<Bid> = Vec::new();
            for (offer, tree) in trees.iter().enumerate() {
                offered.extend(bids(offer, tree, 99));
            }
            sort(&mut offered);
            let count = num_bought(&offered, base, &costs);
            prop_assert!(count <= left);
            let bought = &offered[..count];
            for bid in bought {
                let parent = trees[bid.offer].nodes[bid.node].parent;
                let held = parent.is_none_or(|parent| {
                    bought.iter().any(|one| (one.offer, one.node) == (bid.offer, parent as usize))
                });
                prop_assert!(held, "a node was bought without its parent");
            }
            let gain: f64 = bought.iter().map(|bid| f64::from(bid.value)).sum();
            let decoding = trees.len() as f64;
            let rate = |gain: f64, nodes: usize| {
                (decoding + gain) / costs.milliseconds(trees.len() + nodes)
            };
            let fitting = || choices(&trees).into_iter().filter(|&(_, nodes)| nodes <= left);
            let best = fitting().map(|(gain, nodes)| rate(gain, nodes)).fold(0.0, f64::max);
            if chunk == 0 {
                prop_assert!(rate(gain, count) * HURDLE >= best * (1.0 - 1e-6));
                prop_assert!(count == 0 || rate(gain, count) >= HURDLE * rate(0.0, 0));
            } else {
                // Beside a chunk, what milliseconds could emit elsewhere is their price.
                let rows = trees.len() + chunk;
                let profit = |gain: f64, nodes: usize| {
                    let dearer = costs.milliseconds(rows + nodes) - costs.milliseconds(rows);
                    gain - best * HURDLE * dearer
                };
                let most = fitting().map(|(gain, nodes)| profit(gain, nodes)).fold(0.0, f64::max);
                prop_assert!(profit(gain, count) >= most - 1e-5);
            }
        }
    }

    #[test]
    fn limits_on_rows_hold() {
        let flat = CostCurve::new(&[1, 64], &[10.0, 10.0]).unwrap();
        let base = BaseRows { left: 2, ..base(1) };
        assert_eq!(num_bought(&some_bids(&[0.9; 5]), base, &flat), 2);
        assert_eq!(num_bought(&[], base, &flat), 0);
    }
}
