//! The draft budget of one request alone: the part of a tree that is worth its rows.

use crate::DraftTree;

/// The part of `tree` that promises the most tokens per time: its likeliest nodes, as many as pay.
///
/// `costs` holds the time of a forward of 1, 2 ... rows in any unit; beyond its end rows are not
/// bought.
pub(super) fn worthwhile(tree: DraftTree, costs: &[f64]) -> DraftTree {
    let mut order: Vec<usize> = (0..tree.len()).collect();
    // A node's value never exceeds its parent's, and the sort is stable: parents come first.
    order.sort_by(|&a, &b| tree.nodes[b].value.total_cmp(&tree.nodes[a].value));
    let mut expected = 1.0;
    let mut best = (costs.first().map_or(0.0, |&cost| expected / cost), 0);
    for (bought, (&index, &cost)) in order.iter().zip(costs.iter().skip(1)).enumerate() {
        expected += f64::from(tree.nodes[index].value);
        if expected / cost > best.0 {
            best = (expected / cost, bought + 1);
        }
    }
    let mut kept = vec![false; tree.len()];
    for &index in &order[..best.1] {
        kept[index] = true;
    }
    keep(tree, &kept)
}

/// The nodes that are kept, in their order; with a node its parent is kept.
fn keep(mut tree: DraftTree, kept: &[bool]) -> DraftTree {
    let mut renumbered = Vec::with_capacity(kept.len());
    let mut next = 0;
    for &kept in kept {
        renumbered.push(next);
        next += u32::from(kept);
    }
    let mut index = 0;
    tree.nodes.retain_mut(|node| {
        node.parent = node.parent.map(|parent| renumbered[parent as usize]);
        index += 1;
        kept[index - 1]
    });
    tree
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::DraftNode;

    fn tree(nodes: &[(u32, Option<u32>, f32)]) -> DraftTree {
        let node = |&(token, parent, value)| DraftNode::own(token, parent, 1, value);
        DraftTree {
            nodes: nodes.iter().map(node).collect(),
        }
    }

    #[test]
    fn nodes_are_bought_while_they_raise_the_tokens_per_time() {
        let drafted = tree(&[
            (7, None, 0.2),
            (8, Some(0), 0.1),
            (9, None, 0.8),
            (10, Some(2), 0.6),
        ]);
        // (1 + 0.8) / 1.1 and (1 + 0.8 + 0.6) / 1.5 beat 1; the third node for 2 does not pay.
        let bought = worthwhile(drafted.clone(), &[1.0, 1.1, 1.3, 2.0, 2.0]);
        assert_eq!(bought, tree(&[(9, None, 0.8), (10, Some(0), 0.6)]));
        // Equal costs buy all there is, costs that grow in proportion nothing.
        assert_eq!(worthwhile(drafted.clone(), &[1.0; 5]), drafted);
        assert!(worthwhile(drafted.clone(), &[1.0, 2.0, 3.0, 4.0, 5.0]).is_empty());
        assert_eq!(worthwhile(drafted, &[1.0, 1.0]), tree(&[(9, None, 0.8)]));
    }
}
