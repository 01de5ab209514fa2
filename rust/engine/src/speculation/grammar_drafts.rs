//! Drafts under a grammar: what it does not allow is left out, what it forces is put in.

use spectrie_sampling::{AllowedTokens, Grammar, GrammarCursor};
use spectrie_trie::{DraftNode, DraftTree};
use spectrie_types::Source;

use super::tree::SentTree;

/// Paths less likely than this are not followed to what the grammar forces after them.
const MIN_FORCED_VALUE: f32 = 0.25;

/// How often the model spells forced text in the longest tokens where it is free to do otherwise:
/// where a token could also spell what follows.
const OPEN_END_VALUE: f32 = 0.9;

/// Shapes the drafts of one answer.
#[derive(Debug)]
pub(crate) struct GrammarDrafts {
    cursor: GrammarCursor,
    /// Tokens of the answer that the cursor has yet to take.
    pending: Vec<u32>,
    /// Whether the cursor can still be asked; without it drafts stay as they are.
    works: bool,
}

impl GrammarDrafts {
    /// For an answer that begins with `output`.
    pub(crate) fn new(grammar: &Grammar, output: &[u32]) -> Self {
        Self {
            cursor: grammar.cursor(),
            pending: output.to_vec(),
            works: true,
        }
    }

    /// Notes the next tokens of the answer.
    pub(crate) fn push(&mut self, tokens: &[u32]) {
        if self.works {
            self.pending.extend_from_slice(tokens);
        }
    }

    /// Takes the tokens that the cursor lacks; says whether it can be asked.
    fn catch_up(&mut self) -> bool {
        let mut pending = std::mem::take(&mut self.pending).into_iter();
        self.works &= pending.all(|token| self.cursor.push(token).is_ok());
        self.works
    }

    /// What the answer may draw after each node of `tree`, where `root` is what it may draw before them;
    /// nothing after a node that it cannot come to, or where it is over. `None` where that cannot be
    /// found out. It `heeds_eos` if tokens of this kind end it.
    pub(crate) fn allowed(
        &mut self,
        tree: &SentTree,
        root: &[u32],
        heeds_eos: bool,
    ) -> Option<Vec<Option<AllowedTokens>>> {
        if !self.catch_up() {
            return None;
        }
        let found = node_masks(&mut self.cursor, tree, root, heeds_eos);
        self.works = found.is_ok();
        found.ok()
    }

    /// `tree` without what the grammar does not allow and, if it `forces`, with what it forces, at
    /// most `most` nodes of that.
    pub(crate) fn shape(&mut self, tree: DraftTree, most: usize, forces: bool) -> DraftTree {
        if !self.catch_up() {
            return tree;
        }
        let mut walk = Walk {
            cursor: &mut self.cursor,
            children: children(&tree),
            offered: &tree,
            shaped: Vec::with_capacity(tree.len() + most),
            num_left: if forces { most } else { 0 },
        };
        let root = Place {
            offered: None,
            shaped: None,
            depth: 0,
            value: 1.0,
        };
        if walk.visit(root, &[]).is_ok() {
            return DraftTree { nodes: walk.shaped };
        }
        // The cursor is lost somewhere inside the tree.
        self.works = false;
        tree
    }
}

/// Children of the root, then of each node, in their order.
fn children(tree: &DraftTree) -> Vec<Vec<u32>> {
    let mut children = vec![Vec::new(); tree.len() + 1];
    for (index, node) in (0..).zip(&tree.nodes) {
        let parent = node.parent.map_or(0, |parent| parent as usize + 1);
        children[parent].push(index);
    }
    children
}

/// A node that is being visited, or the root.
#[derive(Clone, Copy)]
struct Place {
    /// Its index among the offered nodes; `None` for the root and for nodes that were not offered.
    offered: Option<u32>,
    /// Its index among the shaped nodes; `None` for the root.
    shaped: Option<u32>,
    depth: u16,
    value: f32,
}

/// A token that the grammar forces, and how likely it is spelt so.
type Forced = (u32, f32);

/// One pass over a tree, depth first. The cursor stands where the pass is.
struct Walk<'a> {
    cursor: &'a mut GrammarCursor,
    offered: &'a DraftTree,
    children: Vec<Vec<u32>>,
    shaped: Vec<DraftNode>,
    /// Forced nodes that may still be added.
    num_left: usize,
}

impl Walk<'_> {
    /// Shapes what follows `place`. `run` is what is known to be forced there.
    fn visit(&mut self, place: Place, run: &[Forced]) -> Result<(), String> {
        let found = if run.is_empty() {
            self.run(place)?
        } else {
            Vec::new()
        };
        let run = if run.is_empty() { &found[..] } else { run };
        let index = match (place.offered, place.shaped) {
            (Some(index), _) => Some(index as usize + 1),
            (None, None) => Some(0),
            (None, Some(_)) => None,
        };
        let offered =
            index.map_or_else(Vec::new, |index| std::mem::take(&mut self.children[index]));
        let first = run.first().map(|&(token, _)| token);
        if let Some((&(token, share), rest)) = run.split_first() {
            let known = offered
                .iter()
                .copied()
                .find(|&child| self.offered.nodes[child as usize].token == token);
            if known.is_some() || self.num_left > 0 {
                self.num_left -= usize::from(known.is_none());
                let promised = known.map_or(0.0, |child| self.offered.nodes[child as usize].value);
                let node = DraftNode {
                    token,
                    parent: place.shaped,
                    depth: place.depth + 1,
                    value: promised.max(share * place.value).min(place.value),
                    source: known.map_or(Source::Grammar, |child| {
                        self.offered.nodes[child as usize].source
                    }),
                };
                self.enter(node, known, rest)?;
            }
        }
        for child in offered {
            let node = self.offered.nodes[child as usize];
            if Some(node.token) != first && self.cursor.allows(node.token)? {
                let node = DraftNode {
                    parent: place.shaped,
                    value: node.value.min(place.value),
                    ..node
                };
                self.enter(node, Some(child), &[])?;
            }
        }
        Ok(())
    }

    /// Takes a node that the grammar allows, and shapes what follows it.
    fn enter(
        &mut self,
        node: DraftNode,
        offered: Option<u32>,
        run: &[Forced],
    ) -> Result<(), String> {
        let place = Place {
            offered,
            shaped: Some(self.shaped.len() as u32),
            depth: node.depth,
            value: node.value,
        };
        self.shaped.push(node);
        let is_leaf = offered.is_none_or(|index| self.children[index as usize + 1].is_empty());
        if is_leaf && run.is_empty() && !self.may_force(node.value) {
            return Ok(());
        }
        self.cursor.step(node.token)?;
        self.visit(place, run)?;
        self.cursor.step_back()
    }

    fn may_force(&self, value: f32) -> bool {
        self.num_left > 0 && value >= MIN_FORCED_VALUE
    }

    /// What the grammar forces at `place`.
    fn run(&mut self, place: Place) -> Result<Vec<Forced>, String> {
        if !self.may_force(place.value) {
            return Ok(Vec::new());
        }
        let forced = self.cursor.forced()?;
        let certain = forced.certain.into_iter().map(|token| (token, 1.0));
        let open_end = forced.open_end.into_iter();
        let run: Vec<Forced> = certain
            .chain(open_end.map(|token| (token, OPEN_END_VALUE)))
            .collect();
        Ok(run)
    }
}

/// What may be drawn after each node of `tree`, from its row 1 on; the cursor is at the root, where
/// `root` may be drawn, and comes back to it. Nothing after nodes that no answer comes to.
///
/// # Errors
/// What the grammar library says; the cursor is lost.
fn node_masks(
    cursor: &mut GrammarCursor,
    tree: &SentTree,
    root: &[u32],
    heeds_eos: bool,
) -> Result<Vec<Option<AllowedTokens>>, String> {
    let mut masks: Vec<Option<AllowedTokens>> = Vec::with_capacity(tree.num_nodes());
    // Rows from below the root to where the cursor is.
    let mut trail = Vec::new();
    for row in 1..=tree.num_nodes() {
        let (parent, token) = (tree.parent(row), tree.node(row).token);
        let before = match parent {
            0 => Some(root),
            parent => masks[parent - 1].as_ref().map(AllowedTokens::words),
        };
        // An answer is over with such a token.
        if !before.is_some_and(|words| contains(words, token)) || cursor.is_eos(token) {
            masks.push(None);
            continue;
        }
        go_to(cursor, tree, parent, &mut trail)?;
        cursor.step(token)?;
        trail.push(row);
        masks.push(cursor.allowed(heeds_eos)?);
    }
    while trail.pop().is_some() {
        cursor.step_back()?;
    }
    Ok(masks)
}

/// Moves the cursor to a row.
fn go_to(
    cursor: &mut GrammarCursor,
    tree: &SentTree,
    row: usize,
    trail: &mut Vec<usize>,
) -> Result<(), String> {
    let mut path: Vec<usize> = tree.path_up(row).collect();
    path.reverse();
    let num_common = path.iter().zip(&*trail).take_while(|(a, b)| a == b).count();
    while trail.len() > num_common {
        cursor.step_back()?;
        trail.pop();
    }
    for &row in &path[num_common..] {
        cursor.step(tree.node(row).token)?;
        trail.push(row);
    }
    Ok(())
}

fn contains(words: &[u32], token: u32) -> bool {
    let word = words.get(token as usize / 32);
    word.is_some_and(|word| word >> (token % 32) & 1 == 1)
}
