//! What decides the tokens of all sampled rows of a request, before anyone knows which of them its
//! answer goes through.

use spectrie_sampling::{AllowedTokens, Draw};

use super::draw_state::DrawState;
use super::sequence::Sequence;
use crate::plan::packing::DrawRows;
use crate::speculation::SentTree;

/// Nodes on the longest path of a tree.
const MAX_PATH: usize = 63;

impl Sequence {
    /// Adds what decides the token after its last one, and those after each draft node of `tree`: what
    /// a walk finds that comes there. Says whether all of that is known; if not, only the first token
    /// may be taken.
    pub(crate) fn list_draws(&mut self, tree: Option<&SentTree>, rows: &mut DrawRows) -> bool {
        // An answer that ends here ends whatever is drawn, once its walk asks for the same.
        drop(self.draws.prepare());
        let num_prompt = self.num_prompt();
        let root = self.draws.next_draw(self.tokens.len());
        rows.open(&root);
        rows.push(&root, &[]);
        let Some(tree) = tree.filter(|tree| tree.num_nodes() > 0) else {
            return true;
        };
        let allowed = match root.allowed {
            Some(allowed) => {
                let heeds_eos = !self.request.ignore_eos;
                self.drafting.allowed(tree, allowed, heeds_eos)
            }
            None => Some(Vec::new()),
        };
        let is_known = allowed.is_some();
        let allowed = allowed.unwrap_or_default();
        let mut nodes = NodeDraws::new(&self.draws, root, &self.tokens[num_prompt..]);
        for row in 1..=tree.num_nodes() {
            let allowed = allowed.get(row - 1).and_then(Option::as_ref);
            nodes.list(tree, row, allowed.map(AllowedTokens::words), rows);
        }
        is_known
    }

    /// Adds what decides the token after its next one, whatever that is; see
    /// [`DrawState::is_known_ahead`].
    pub(crate) fn list_draw_ahead(&self, rows: &mut DrawRows) {
        let masked = self.draws.masked_after(self.num_output() + 1, &[]);
        let masked: Vec<u32> = masked.collect();
        let draw = Draw {
            masked: &masked,
            ..self.draws.next_draw(self.tokens.len() + 1)
        };
        rows.open(&draw);
        rows.push(&draw, &[]);
    }
}

/// Lists the draws after the nodes of one tree.
struct NodeDraws<'a> {
    state: &'a DrawState,
    root: Draw<'a>,
    num_output: usize,
    /// The end of the output, as much of it as a bad word has, then the path to a node.
    ending: Vec<u32>,
    /// How much of that is output.
    num_kept: usize,
    masked: Vec<u32>,
}

impl<'a> NodeDraws<'a> {
    fn new(state: &'a DrawState, root: Draw<'a>, output: &[u32]) -> Self {
        let num_kept = state.num_decisive().min(output.len());
        Self {
            state,
            root,
            num_output: output.len(),
            ending: output[output.len() - num_kept..].to_vec(),
            num_kept,
            masked: Vec::new(),
        }
    }

    fn list(&mut self, tree: &SentTree, row: usize, allowed: Option<&[u32]>, rows: &mut DrawRows) {
        let mut path = [0; MAX_PATH];
        let mut begin = MAX_PATH;
        for (node, place) in tree.path_up(row).zip(path.iter_mut().rev()) {
            *place = tree.node(node).token;
            begin -= 1;
        }
        let path = &path[begin..];
        self.ending.truncate(self.num_kept);
        self.ending.extend_from_slice(path);
        self.masked.clear();
        let num_output = self.num_output + path.len();
        let masked = self.state.masked_after(num_output, &self.ending);
        self.masked.extend(masked);
        let draw = Draw {
            masked: &self.masked,
            allowed,
            position: self.root.position + path.len() as u32,
            ..self.root
        };
        rows.push(&draw, path);
    }
}
