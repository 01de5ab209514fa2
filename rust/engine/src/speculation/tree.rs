//! A draft tree as it goes through the model.

use spectrie_trie::{DraftNode, DraftTree};

/// The part of an offered tree that is sent. Row 0 is the last emitted token; the others are draft
/// nodes, depth first.
#[derive(Debug, Default)]
pub(crate) struct SentTree {
    offered: DraftTree,
    /// Index in `offered` of row j + 1.
    taken: Vec<u32>,
    /// Parent row of row j + 1.
    parents: Vec<usize>,
}

impl SentTree {
    /// Sends the nodes of `offered` that `keep` accepts and whose parent is sent.
    pub(crate) fn new(offered: DraftTree, keep: impl Fn(usize) -> bool) -> Self {
        let mut taken = Vec::new();
        let mut parents = Vec::new();
        let mut row_of = vec![None; offered.nodes.len()];
        for (index, node) in offered.nodes.iter().enumerate() {
            let parent = match node.parent {
                None => Some(0),
                Some(parent) => row_of[parent as usize],
            };
            if let Some(parent) = parent.filter(|_| keep(index)) {
                taken.push(index as u32);
                parents.push(parent);
                row_of[index] = Some(taken.len());
            }
        }
        Self {
            offered,
            taken,
            parents,
        }
    }

    /// Draft nodes sent.
    pub(crate) fn num_nodes(&self) -> usize {
        self.taken.len()
    }

    /// All that was offered, sent or not.
    pub(crate) fn offered(&self) -> &DraftTree {
        &self.offered
    }

    /// Index in the offered tree of a row; rows count from 1.
    pub(crate) fn offered_index(&self, row: usize) -> u32 {
        self.taken[row - 1]
    }

    /// Tokens that the sent nodes promise.
    pub(crate) fn promised(&self) -> f64 {
        let rows = 1..=self.num_nodes();
        rows.map(|row| f64::from(self.node(row).value)).sum()
    }

    /// The likeliest first token of what was offered, where nothing was sent.
    pub(crate) fn likeliest_unsent(&self) -> Option<u32> {
        let firsts = self
            .offered
            .nodes
            .iter()
            .filter(|node| node.parent.is_none());
        let likeliest = firsts.max_by(|a, b| a.value.total_cmp(&b.value));
        likeliest
            .filter(|_| self.taken.is_empty())
            .map(|node| node.token)
    }

    /// The draft node of a row; rows count from 1.
    pub(crate) fn node(&self, row: usize) -> &DraftNode {
        &self.offered.nodes[self.taken[row - 1] as usize]
    }

    /// The parent of a row; rows count from 1.
    pub(crate) fn parent(&self, row: usize) -> usize {
        self.parents[row - 1]
    }

    /// The rows of draft nodes from `row` up to a child of row 0; none for row 0.
    pub(crate) fn path_up(&self, row: usize) -> impl Iterator<Item = usize> {
        let is_node = |row: &usize| *row > 0;
        let above = move |row: &usize| Some(self.parent(*row)).filter(is_node);
        std::iter::successors(Some(row).filter(is_node), above)
    }

    /// The child of `row` that carries `token`.
    pub(crate) fn child(&self, row: usize, token: u32) -> Option<usize> {
        (row + 1..=self.num_nodes())
            .find(|&child| self.parent(child) == row && self.node(child).token == token)
    }
}
