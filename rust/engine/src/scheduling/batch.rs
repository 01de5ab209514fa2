//! Builds plans: decode rows first, then chunks of prompts, then drafts in what is left.

use crate::cache::reuse::share_filled;
use crate::error::EngineError;
use crate::plan::{Plan, Row, RowKind};
use crate::request_key::RequestKey;
use crate::scheduling::admission::Awaited;
use crate::scheduling::scheduler::{InFlight, Part, Scheduler, SlotMove, Work};
use crate::sequence::sequence::Sequence;
use crate::speculation::forward_size::ForwardSize;
use crate::speculation::tree::SentTree;

impl Scheduler {
    /// The next forward; `None` when nothing is held.
    pub(crate) fn plan(&mut self, now_s: f64) -> Result<Option<Plan>, EngineError> {
        if let Some(open) = &self.in_flight {
            return Err(EngineError::PlanInFlight {
                plan_id: open.plan_id,
            });
        }
        self.expire(now_s);
        let moves = self.settle();
        let (trees, preempted) = self.secure_decoding(now_s);
        let awaited = if preempted {
            Awaited::new()
        } else {
            self.admit(now_s)
        };
        let chunks = self.choose_chunks(&trees, &awaited, now_s);
        let chunk = self.size_of_chunks(&chunks);
        if trees.len() + chunk.rows == 0 {
            return Ok(None);
        }
        let has_chunks = !chunks.is_empty();
        let (trees, trial) = self.draft(&trees, chunk);
        let (plan, parts) = self.assemble(trees, chunks, &moves);
        self.unpin();
        self.in_flight = Some(InFlight {
            plan_id: plan.plan_id,
            num_rows: plan.num_rows(),
            num_samples: plan.num_samples(),
            num_tops: plan.num_tops(),
            trial: trial.filter(|_| !has_chunks),
            planned_s: now_s,
            parts,
        });
        Ok(Some(plan))
    }

    /// Shares the pages that are full, turns accepted rows that are out of place into slot moves,
    /// and frees the pages only drafts needed.
    fn settle(&mut self) -> Vec<SlotMove> {
        let mut moves = Vec::new();
        for (&key, sequence) in &mut self.running {
            // Before the moves: pages they write to are shared when they have been done.
            share_filled(&mut self.pool, sequence);
            for (from, to) in sequence.moves.drain(..) {
                moves.push((
                    key,
                    self.pool.slot(&sequence.pages, from),
                    self.pool.slot(&sequence.pages, to),
                ));
            }
            if sequence.decoding {
                self.pool.shrink(&mut sequence.pages, sequence.kv_len + 1);
            }
        }
        moves
    }

    fn size_of_chunks(&self, chunks: &[(RequestKey, usize)]) -> ForwardSize {
        let sizes = chunks.iter().map(|(key, rows)| {
            let kv_len = self.running.get(key).map_or(0, |sequence| sequence.kv_len);
            (kv_len, *rows)
        });
        sizes.fold(ForwardSize::default(), |size, (kv_len, rows)| {
            size.with_chunk(kv_len, rows)
        })
    }

    fn assemble(
        &mut self,
        trees: Vec<(RequestKey, SentTree)>,
        chunks: Vec<(RequestKey, usize)>,
        moves: &[SlotMove],
    ) -> (Plan, Vec<Part>) {
        self.last_plan_id += 1;
        let of_trees = trees.iter().map(|(key, tree)| (key, 1 + tree.num_nodes()));
        let of_chunks = chunks.iter().map(|(key, rows)| (key, *rows));
        let (mut num_rows, mut num_pages) = (0, 0);
        for (key, rows) in of_trees.chain(of_chunks) {
            num_rows += rows;
            let kv_len = self.running.get(key).map_or(0, |one| one.kv_len);
            num_pages += self.pool.pages_for(kv_len + rows);
        }
        let num_requests = trees.len() + chunks.len();
        let mut plan = Plan::new(self.last_plan_id, num_rows, num_requests, num_pages);
        let mut parts: Vec<Part> = Vec::with_capacity(num_requests);
        let trees = trees.into_iter().map(|(key, tree)| (key, Work::Tree(tree)));
        let chunks = chunks
            .into_iter()
            .map(|(key, rows)| (key, Work::Chunk(rows)));
        for (key, work) in trees.chain(chunks) {
            let (first_sample, first_top) = (plan.num_samples(), plan.num_tops());
            if let Some(sequence) = self.running.get(&key) {
                match &work {
                    Work::Tree(tree) => self.push_tree(&mut plan, sequence, tree),
                    Work::Chunk(rows) => self.push_chunk(&mut plan, sequence, *rows),
                }
            }
            parts.push(Part {
                key,
                first_sample,
                tops: first_top..plan.num_tops(),
                work,
            });
        }
        // Moves first: what is copied may just have been put in place.
        let copies = std::mem::take(&mut self.copies);
        for &(_, from, to) in moves
            .iter()
            .chain(&copies)
            .filter(|(key, ..)| self.running.contains_key(key))
        {
            plan.kv_move_src.push(from);
            plan.kv_move_dst.push(to);
        }
        if !self.running.values().any(|one| one.drafting.recycles()) {
            // Nobody would read them.
            plan.top_rows.clear();
            for part in &mut parts {
                part.tops = 0..0;
            }
        }
        (plan, parts)
    }

    fn push_tree(&self, plan: &mut Plan, sequence: &Sequence, tree: &SentTree) {
        let kv_len = sequence.kv_len;
        plan.is_greedy &= sequence.is_plain_greedy();
        plan.open(RowKind::Tree, kv_len);
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
                token,
                position: kv_len + depth,
                slot: self.pool.slot(&sequence.pages, kv_len + row),
                parent: parent.map_or(-1, |parent| parent as i32),
                ancestors: ancestors[row],
                sampled: true,
                top: true,
            });
        }
        self.close(plan, sequence, 1 + tree.num_nodes());
    }

    fn push_chunk(&self, plan: &mut Plan, sequence: &Sequence, rows: usize) {
        let kv_len = sequence.kv_len;
        let sampled = sequence.sampled_indices(rows);
        plan.is_greedy &= sampled.is_empty() || sequence.is_plain_greedy();
        let first_top = sequence.drafting.first_top();
        plan.open(RowKind::Chunk, kv_len);
        for row in 0..rows {
            plan.push_row(Row {
                token: sequence.tokens[kv_len + row],
                position: kv_len + row,
                slot: self.pool.slot(&sequence.pages, kv_len + row),
                parent: row as i32 - 1,
                ancestors: 0,
                sampled: sampled.contains(&(kv_len + row)),
                top: first_top.is_some_and(|first| kv_len + row >= first),
            });
        }
        self.close(plan, sequence, rows);
    }

    fn close(&self, plan: &mut Plan, sequence: &Sequence, rows: usize) {
        let covered = self.pool.pages_for(sequence.kv_len + rows);
        plan.close(&sequence.pages[..covered]);
    }
}
