//! The draft tree that the model verifies.

use spectrie_types::Source;

use crate::TokenId;

/// One drafted token.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct DraftNode {
    /// The token.
    pub token: TokenId,
    /// Index of the parent in [`DraftTree::nodes`]; `None` = the root, the last pushed token.
    pub parent: Option<u32>,
    /// Distance from the root: 1 for the root's children.
    pub depth: u16,
    /// Probability, 0 to 1, that the model accepts the whole path to this node.
    pub value: f32,
    /// The source the token is credited to.
    pub source: Source,
}

/// Likely continuations of a request's text. The root, the last pushed token, is not a node.
///
/// Nodes are in depth-first order, the likeliest child first, so a parent comes before its
/// children and the likeliest path is contiguous. Siblings differ in their tokens, and no node's
/// value exceeds its parent's.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct DraftTree {
    /// The nodes in order.
    pub nodes: Vec<DraftNode>,
}

impl DraftTree {
    /// Returns the number of draft nodes.
    pub fn len(&self) -> usize {
        self.nodes.len()
    }

    /// Returns true if nothing is drafted.
    pub fn is_empty(&self) -> bool {
        self.nodes.is_empty()
    }

    /// Returns the expected number of accepted tokens: the sum of the values.
    pub fn expected_accepted(&self) -> f32 {
        self.nodes.iter().map(|node| node.value).sum()
    }

    /// Returns the index of the child of `parent` (`None` = the root) that carries `token`.
    ///
    /// Takes one pass over the nodes after the parent.
    pub fn child(&self, parent: Option<u32>, token: TokenId) -> Option<u32> {
        let first = parent.map_or(0, |index| index as usize + 1);
        let nodes = self.nodes.get(first..)?;
        let offset = nodes
            .iter()
            .position(|node| node.parent == parent && node.token == token)?;
        Some((first + offset) as u32)
    }

    /// Returns the indices of the longest path from the root that spells a prefix of `tokens`.
    pub fn walk(&self, tokens: &[TokenId]) -> Vec<u32> {
        let mut path = Vec::new();
        let mut parent = None;
        for &token in tokens {
            let Some(child) = self.child(parent, token) else {
                break;
            };
            path.push(child);
            parent = Some(child);
        }
        path
    }

    /// Returns the tokens from the root to `index`, `index` included; empty if it does not exist.
    pub fn path_tokens(&self, index: u32) -> Vec<TokenId> {
        let mut tokens = Vec::new();
        let mut next = Some(index);
        while let Some(node) = next.and_then(|index| self.nodes.get(index as usize)) {
            tokens.push(node.token);
            next = node.parent;
        }
        tokens.reverse();
        tokens
    }
}

#[cfg(test)]
impl DraftNode {
    /// A node from the request's own text.
    pub(crate) fn own(token: TokenId, parent: Option<u32>, depth: u16, value: f32) -> Self {
        Self {
            token,
            parent,
            depth,
            value,
            source: Source::Request,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn walk_follows_tokens_as_far_as_the_tree_goes() {
        let tree = DraftTree {
            nodes: vec![
                DraftNode::own(7, None, 1, 0.5),
                DraftNode::own(8, Some(0), 2, 0.25),
                DraftNode::own(9, None, 1, 0.25),
                DraftNode::own(8, Some(2), 2, 0.125),
            ],
        };
        assert_eq!(tree.walk(&[7, 8, 9]), vec![0, 1]);
        assert_eq!(tree.walk(&[9, 8]), vec![2, 3]);
        assert_eq!(tree.walk(&[8]), Vec::<u32>::new());
        assert_eq!(tree.path_tokens(3), vec![9, 8]);
        assert_eq!(tree.path_tokens(4), Vec::<TokenId>::new());
        assert!((tree.expected_accepted() - 1.125).abs() < 1e-6);
    }
}
