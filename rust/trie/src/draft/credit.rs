//! Credit for what the model accepted.

use crate::DraftTree;
use crate::draft::drafter::Drafter;
use crate::draft::tree_builder::ROOT;
use crate::sources::all::{AllSources, SHARED};
use crate::sources::recycled::answer::Answer;
use crate::store::view::block_of;

impl Drafter {
    /// Records which nodes of the last draft the model accepted: `accepted` holds their indices in
    /// `tree`, from the root down.
    ///
    /// Credits the corpora that the nodes came from and, if it contributes, the shared text, which keeps
    /// that from being evicted. [`Drafter::push_output`] trains the scores. `tree` may be a part of the
    /// draft; indices outside it end the path.
    pub fn observe(&mut self, tree: &DraftTree, accepted: &[u32]) {
        let contributes = self.contributes;
        let shared = self.shared.as_ref().filter(|_| contributes);
        let mut node = ROOT;
        for &index in accepted {
            let Some(drafted) = tree.nodes.get(index as usize) else {
                return;
            };
            let Some(child) = self.builder.child(node, drafted.token) else {
                return;
            };
            let origin = self.builder.nodes[child as usize].origin;
            if let Some(index) = AllSources::corpus_index(origin) {
                self.corpus_order.credit(index);
            } else if let Some(shared) = shared {
                if origin == SHARED
                    && let Some(position) = self.builder.newest_place(node, drafted.token, SHARED)
                {
                    shared.credit(self.first_block + u64::from(block_of(position)), 1);
                } else if AllSources::is_recycled(origin) && !self.knows(node, child) {
                    shared.credit_recycled(1);
                }
            }
            node = child;
        }
    }

    /// Whether the request's own answers name the token of `node` after that of `parent`.
    fn knows(&self, parent: u32, node: u32) -> bool {
        let last = match parent {
            ROOT => self.request.tokens().last().copied(),
            _ => Some(self.builder.nodes[parent as usize].token),
        };
        let (Some(last), Some(table)) = (last, self.recycled.table()) else {
            return false;
        };
        let token = self.builder.nodes[node as usize].token;
        let answers = table.get(self.builder.before(parent), last);
        let mut named = answers.iter().flatten().flat_map(Answer::tokens);
        named.any(|&(named, _)| named == token)
    }
}
