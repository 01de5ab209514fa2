//! The rows of a plan: decode rows with their drafts first, then chunks of prompts.

use std::ops::Range;

use super::flight::{Part, Work};
use super::running::Running;
use crate::cache::Cache;
use crate::plan::{Plan, Row, RowKind, drawn_token};
use crate::request_key::RequestKey;
use crate::sequence::Sequence;
use crate::speculation::SentTree;

/// Builds the plan that computes `trees` and `chunks`, and what each of its parts is for. All slots
/// they need are there; the copies that the cache has ordered go into it.
pub(crate) fn assemble(
    plan_id: u64,
    trees: Vec<(RequestKey, SentTree)>,
    chunks: Vec<(RequestKey, usize)>,
    running: &Running,
    cache: &mut Cache,
) -> (Plan, Vec<Part>) {
    let of_trees = trees.iter().map(|(key, tree)| (key, 1 + tree.num_nodes()));
    let of_chunks = chunks.iter().map(|(key, rows)| (key, *rows));
    let (mut num_rows, mut num_pages) = (0, 0);
    for (key, rows) in of_trees.chain(of_chunks) {
        num_rows += rows;
        let kv_len = running.get(key).map_or(0, |one| one.kv_len());
        num_pages += cache.pages_for(kv_len + rows);
    }
    let num_requests = trees.len() + chunks.len();
    let mut plan = Plan::new(plan_id, num_rows, num_requests, num_pages);
    let mut parts: Vec<Part> = Vec::with_capacity(num_requests);
    let trees = trees.into_iter().map(|(key, tree)| (key, Work::Tree(tree)));
    let chunks = chunks
        .into_iter()
        .map(|(key, rows)| (key, Work::Chunk(rows)));
    for (key, work) in trees.chain(chunks) {
        let first_row = plan.num_rows();
        let (first_sample, first_top) = (plan.num_samples(), plan.num_tops());
        let mut first_logits = None;
        if let Some(sequence) = running.get(&key) {
            match &work {
                Work::Tree(tree) => push_tree(&mut plan, cache, sequence, tree),
                Work::Chunk(rows) => push_chunk(&mut plan, cache, sequence, *rows),
            }
            let samples = first_sample as i32..plan.num_samples() as i32;
            if !sequence.draws.is_drawable() && !samples.is_empty() {
                first_logits = Some(plan.logit_samples.len());
                plan.logit_samples.extend(samples);
            }
        }
        parts.push(Part {
            key,
            first_row,
            first_sample,
            first_logits,
            tops: first_top..plan.num_tops(),
            work,
            is_root_alone: false,
        });
    }
    (plan.kv_move_src, plan.kv_move_dst) = cache.take_copies();
    let features = cache.take_feature_copies();
    (plan.feature_moves, plan.feature_copies) = (features.moves, features.copies);
    if !running.values().any(|one| one.drafting.recycles()) {
        // They would not be read.
        plan.top_rows.clear();
        for part in &mut parts {
            part.tops = 0..0;
        }
    }
    (plan, parts)
}

/// A row of a request whose token the plan before it gives.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RowAhead {
    pub(crate) key: RequestKey,
    /// Which sampled row of the plan before gives its token.
    pub(crate) drawn: usize,
    /// Cached tokens before it, by then.
    pub(crate) kv_len: usize,
}

/// Further rows of a prompt, some of which the plan before computes.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ChunkAhead {
    pub(crate) key: RequestKey,
    pub(crate) rows: usize,
    /// Cached tokens before them, by then.
    pub(crate) kv_len: usize,
}

/// Builds the plan of these rows. The slots for them are there.
pub(crate) fn assemble_early(
    plan_id: u64,
    rows: &[RowAhead],
    chunks: &[ChunkAhead],
    running: &Running,
    cache: &Cache,
) -> (Plan, Vec<Part>) {
    let keys = rows.iter().map(|one| one.key);
    let keys = keys.chain(chunks.iter().map(|one| one.key));
    let num_pages = |key| running.get(&key).map_or(0, |one| one.table.pages().len());
    let num_pages = keys.map(num_pages).sum();
    let num_rows = rows.len() + chunks.iter().map(|one| one.rows).sum::<usize>();
    let num_requests = rows.len() + chunks.len();
    let mut plan = Plan::new(plan_id, num_rows, num_requests, num_pages);
    let mut parts = Vec::with_capacity(num_requests);
    for &RowAhead { key, drawn, kv_len } in rows {
        let Some(sequence) = running.get(&key) else {
            continue;
        };
        plan.is_greedy &= sequence.draws.is_plain_greedy();
        plan.open(sequence.request.handle, RowKind::Tree, kv_len);
        plan.push_row(Row {
            token: drawn_token(drawn),
            position: kv_len,
            slot: cache.slot(&sequence.table, kv_len),
            parent: -1,
            ancestors: 1,
            sampled: true,
            top: true,
        });
        plan.close(&sequence.table.pages()[..cache.pages_for(kv_len + 1)]);
        parts.push(Part {
            key,
            first_row: parts.len(),
            first_sample: parts.len(),
            first_logits: None,
            tops: 0..0,
            work: Work::Tree(SentTree::default()),
            is_root_alone: false,
        });
    }
    for &ChunkAhead { key, rows, kv_len } in chunks {
        let Some(sequence) = running.get(&key) else {
            continue;
        };
        let (first_row, first_sample) = (plan.num_rows(), plan.num_samples());
        let end = kv_len + rows;
        // Nobody wants to know more of a prompt than the token behind it.
        let sampled = end - usize::from(end == sequence.tokens.len())..end;
        push_rows_of_prompt(&mut plan, cache, sequence, kv_len..end, &sampled, None);
        parts.push(Part {
            key,
            first_row,
            first_sample,
            first_logits: None,
            tops: 0..0,
            work: Work::Chunk(rows),
            is_root_alone: false,
        });
    }
    // Nobody was asked for drafts, so nobody recycles.
    plan.top_rows.clear();
    (plan, parts)
}

fn push_tree(plan: &mut Plan, cache: &Cache, sequence: &Sequence, tree: &SentTree) {
    let kv_len = sequence.kv_len();
    plan.is_greedy &= sequence.draws.is_plain_greedy();
    plan.open(sequence.request.handle, RowKind::Tree, kv_len);
    let mut ancestors = [0_u64; 64];
    for row in 0..=tree.num_nodes() {
        let (token, depth, parent) = if row == 0 {
            (sequence.tokens[kv_len], 0, None)
        } else {
            let node = tree.node(row);
            (node.token, usize::from(node.depth), Some(tree.parent(row)))
        };
        ancestors[row] = parent.map_or(0, |parent| ancestors[parent]) | 1 << row;
        plan.push_row(Row {
            token: token as i32,
            position: kv_len + depth,
            slot: cache.slot(&sequence.table, kv_len + row),
            parent: parent.map_or(-1, |parent| parent as i32),
            ancestors: ancestors[row],
            sampled: true,
            top: true,
        });
    }
    close(plan, cache, sequence, kv_len + 1 + tree.num_nodes());
}

fn push_chunk(plan: &mut Plan, cache: &Cache, sequence: &Sequence, rows: usize) {
    let indices = sequence.kv_len()..sequence.kv_len() + rows;
    let sampled = sequence.sampled_indices(rows);
    let first_top = sequence.drafting.first_top();
    push_rows_of_prompt(plan, cache, sequence, indices, &sampled, first_top);
}

/// Adds the rows of the tokens at `indices`; the likeliest tokens of those from `first_top` on are wanted.
fn push_rows_of_prompt(
    plan: &mut Plan,
    cache: &Cache,
    sequence: &Sequence,
    indices: Range<usize>,
    sampled: &Range<usize>,
    first_top: Option<usize>,
) {
    let (kv_len, end) = (indices.start, indices.end);
    plan.is_greedy &= sampled.is_empty() || sequence.draws.is_plain_greedy();
    plan.open(sequence.request.handle, RowKind::Chunk, kv_len);
    for index in indices {
        plan.push_row(Row {
            token: sequence.tokens[index] as i32,
            position: index,
            slot: cache.slot(&sequence.table, index),
            parent: (index - kv_len) as i32 - 1,
            ancestors: 0,
            sampled: sampled.contains(&index),
            top: first_top.is_some_and(|first| index >= first),
        });
    }
    close(plan, cache, sequence, end);
}

/// Ends the rows of a request that will have so many tokens in the cache.
fn close(plan: &mut Plan, cache: &Cache, sequence: &Sequence, num_tokens: usize) {
    let covered = cache.pages_for(num_tokens);
    plan.close(&sequence.table.pages()[..covered]);
    plan.request_feature
        .extend(cache.feature_row(&sequence.table));
    let first = cache.first_entry(&sequence.table);
    plan.request_first.extend(first.map(|first| first as i32));
}
