//! What is bought of some trees against every choice of their nodes.

use proptest::prelude::*;
use proptest::test_runner::RngSeed;
use spectrie_trie::{DraftNode, DraftTree};
use spectrie_types::Source;

use super::super::bid::{Bid, bids, sort};
use super::super::budget::{BaseRows, HURDLE, purchase};
use crate::costs::{CostCurve, CostShape, ForwardSize};

fn rows(rows: usize) -> ForwardSize {
    ForwardSize::of_tree(0, rows, 1)
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
        CostCurve::new(&[1, 2, 4, 8, 12, 32], &milliseconds, CostShape::default()).unwrap()
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
        let base = BaseRows { decoding: trees.len(), trees: rows(trees.len()), chunk: rows(chunk), left };
        let mut offered: Vec<Bid> = Vec::new();
        for (offer, tree) in trees.iter().enumerate() {
            offered.extend(bids(offer, tree, 0, 99, 1.0));
        }
        sort(&mut offered);
        let count = purchase(&offered, base, 0.0, &costs).nodes;
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
        let at = |count| costs.milliseconds(rows(count));
        let rate = |gain: f64, nodes: usize| {
            (decoding + gain) / at(trees.len() + nodes)
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
                let dearer = at(rows + nodes) - at(rows);
                gain - best * HURDLE * dearer
            };
            let most = fitting().map(|(gain, nodes)| profit(gain, nodes)).fold(0.0, f64::max);
            prop_assert!(profit(gain, count) >= most - 1e-5);
        }
    }
}
