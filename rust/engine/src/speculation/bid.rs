//! A draft node up for choice.

use spectrie_trie::DraftTree;

use crate::costs::ForwardSize;

/// A node up for choice.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Bid {
    /// Never above its parent's.
    pub(crate) value: f32,
    /// What its row adds to the forward.
    pub(crate) added: ForwardSize,
    pub(crate) offer: usize,
    pub(crate) node: usize,
}

impl Bid {
    /// Its place among bids: the likeliest first, then by offer and node. One number, because a step
    /// sorts some hundred of them between two forwards.
    fn rank(&self) -> u128 {
        let bits = self.value.to_bits();
        // The order of `f32::total_cmp`, turned around.
        let descending = if self.value.is_sign_negative() {
            bits
        } else {
            !bits ^ (1 << 31)
        };
        u128::from(descending) << 96 | (self.offer as u128) << 48 | self.node as u128
    }
}

/// The nodes of a tree as bids, of a request with `kv_len` cached tokens; those deeper than `max_depth`
/// are left out. Promises count `trust` times, but for certain ones. Each row counts as the first of a
/// tile: which of them is, is known when they are bought.
pub(crate) fn bids(
    offer: usize,
    tree: &DraftTree,
    kv_len: usize,
    max_depth: usize,
    trust: f32,
) -> Vec<Bid> {
    let mut values: Vec<f32> = Vec::with_capacity(tree.nodes.len());
    for node in &tree.nodes {
        let most = node.parent.map_or(1.0, |parent| values[parent as usize]);
        values.push(node.value.min(most));
    }
    let nodes = values.into_iter().enumerate().zip(&tree.nodes);
    let shallow = nodes.filter(|(_, node)| usize::from(node.depth) <= max_depth);
    shallow
        .map(|((node, value), _)| Bid {
            value: if value < 1.0 { value * trust } else { value },
            added: ForwardSize::of_tree(kv_len, 1, 1),
            offer,
            node,
        })
        .collect()
}

/// Sorts bids so that every head of the list holds the parents of its nodes, the likeliest first.
pub(crate) fn sort(bids: &mut [Bid]) {
    bids.sort_unstable_by_key(Bid::rank);
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use proptest::test_runner::RngSeed;
    use spectrie_trie::DraftNode;
    use spectrie_types::Source;

    use super::*;

    #[test]
    fn promises_count_as_much_as_they_are_trusted() {
        let tree = DraftTree {
            nodes: vec![DraftNode {
                token: 1,
                parent: None,
                depth: 1,
                value: 0.5,
                source: Source::Request,
            }],
        };
        let bought = bids(0, &tree, 7, 1, 0.5);
        assert_eq!((bought[0].value, bought[0].added.kv_tokens), (0.25, 7));
        let mut certain = tree;
        certain.nodes[0].value = 1.0;
        assert!(bids(0, &certain, 7, 1, 0.5)[0].value > 0.99);
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 200, rng_seed: RngSeed::Fixed(7), failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn bids_are_sorted_by_value_then_by_offer_and_node(
            drawn in prop::collection::vec((any::<f32>(), 0_usize..3, 0_usize..3), 0..40),
        ) {
            let bid = |(value, offer, node)| Bid { value, added: ForwardSize::default(), offer, node };
            let mut bids: Vec<Bid> = drawn.into_iter().map(bid).collect();
            sort(&mut bids);
            for pair in bids.windows(2) {
                let (a, b) = (pair[0], pair[1]);
                let order = b.value.total_cmp(&a.value).then((a.offer, a.node).cmp(&(b.offer, b.node)));
                prop_assert!(order.is_le(), "{a:?} before {b:?}");
            }
        }
    }
}
