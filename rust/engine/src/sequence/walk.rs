//! Draws along a draft tree.

use spectrie_types::{FinishKind, Source};

use super::sampled_rows::{NotDrawn, SampledRows};
use super::sequence::Sequence;
use crate::speculation::SentTree;

/// A way through a tree.
#[derive(Debug)]
pub(crate) struct Walk {
    /// Accepted rows, from the root down.
    pub(crate) path: Vec<usize>,
    pub(crate) num_emitted: usize,
    /// Why the request ended, if it did.
    pub(crate) ended: Result<Option<FinishKind>, NotDrawn>,
}

/// Draws at each visited node as plain decoding would there, and follows the child that carries the
/// token.
///
/// The token that ends the request is the model's own even where a draft carried it: each forward
/// gives exactly one such token.
pub(crate) fn walk(
    sequence: &mut Sequence,
    tree: &SentTree,
    sampled: &mut SampledRows<'_>,
    now_s: f64,
) -> Walk {
    let mut path = Vec::new();
    let mut row = 0;
    loop {
        let drawn = match sampled.draw(sequence, row) {
            Ok(drawn) => drawn,
            Err(error) => {
                let num_emitted = path.len();
                accept(sequence, &path, sampled);
                // Each forward gives one token of the model's own: here it is the last one accepted.
                if path.pop().is_some() {
                    sequence.credit_last(Source::Model);
                }
                return Walk {
                    num_emitted,
                    path,
                    ended: Err(error),
                };
            }
        };
        let token = drawn.token;
        sequence.push(drawn, now_s);
        let ending = sequence.ending();
        let child = if ending.is_none() && sampled.has_nodes() {
            tree.child(row, token)
        } else {
            None
        };
        let Some(child) = child else {
            accept(sequence, &path, sampled);
            sequence.table.advance(1 + path.len());
            return Walk {
                num_emitted: path.len() + 1,
                path,
                ended: Ok(ending),
            };
        };
        sequence.credit_last(tree.node(child).source);
        path.push(child);
        row = child;
    }
}

/// Notes accepted rows, for those that are yet to be moved.
fn accept(sequence: &mut Sequence, path: &[usize], sampled: &SampledRows<'_>) {
    if !sampled.is_compacted {
        sequence.table.accept(path);
    }
}
