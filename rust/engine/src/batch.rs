//! Builds plans: decode rows first, then chunks of prompts, then drafts in what is left.

use crate::error::EngineError;
use crate::plan::{Plan, Row, RowKind};
use crate::scheduler::{InFlight, Part, Scheduler, Work};
use crate::sequence::{OrderKey, Sequence};
use crate::tree::SentTree;

/// Moves of keys and values between slots, kept apart by request until it is known who runs.
type SlotMoves = Vec<(OrderKey, i32, i32)>;

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
        let (trees, preempted) = self.secure_decoding();
        if !preempted {
            self.admit(now_s);
        }
        let chunks = self.choose_chunks(trees.len());
        let num_base_rows = trees.len() + chunks.iter().map(|&(_, rows)| rows).sum::<usize>();
        if num_base_rows == 0 {
            return Ok(None);
        }
        let has_chunks = !chunks.is_empty();
        let (trees, trial) = self.draft(&trees, num_base_rows - trees.len());
        let (plan, parts) = self.assemble(trees, chunks, &moves);
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

    /// Turns accepted rows that are out of place into slot moves, and frees the pages only drafts
    /// needed.
    fn settle(&mut self) -> SlotMoves {
        let mut moves = SlotMoves::new();
        for (&key, sequence) in &mut self.running {
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

    /// Gives every decoding request a slot for its last token, preempting from the back when pages
    /// run out.
    fn secure_decoding(&mut self) -> (Vec<OrderKey>, bool) {
        let keys: Vec<OrderKey> = self
            .running
            .iter()
            .filter(|(_, one)| one.decoding)
            .map(|(&key, _)| key)
            .collect();
        let mut secured = Vec::with_capacity(keys.len());
        let mut preempted = false;
        for key in keys {
            while let Some(sequence) = self.running.get_mut(&key) {
                if self.pool.grow(&mut sequence.pages, sequence.kv_len + 1) {
                    secured.push(key);
                    break;
                }
                preempted = true;
                self.preempt_last();
            }
        }
        (secured, preempted)
    }

    /// Takes the pages of the request that would go last; it waits and is computed again.
    fn preempt_last(&mut self) {
        if let Some((key, mut sequence)) = self.running.pop_last() {
            self.pool.shrink(&mut sequence.pages, 0);
            sequence.restart();
            self.totals.preemptions += 1;
            self.waiting.insert(key, sequence);
        }
    }

    /// Lets waiting requests in, in order, while their tokens fit and each running request keeps a
    /// page to grow into.
    fn admit(&mut self, now_s: f64) {
        while self.running.len() < self.config.max_running {
            let Some(mut entry) = self.waiting.first_entry() else {
                return;
            };
            let sequence = entry.get_mut();
            let headroom = self.running.len();
            let needed = self.pool.pages_for(sequence.tokens.len());
            if needed + headroom > self.pool.num_free()
                || !self.pool.grow(&mut sequence.pages, sequence.tokens.len())
            {
                return;
            }
            sequence.note_admission(now_s);
            let (key, sequence) = entry.remove_entry();
            self.running.insert(key, sequence);
        }
    }

    /// How many prompt tokens of which requests this step computes.
    fn choose_chunks(&self, num_trees: usize) -> Vec<(OrderKey, usize)> {
        let mut left = self
            .config
            .chunk_tokens
            .min(self.config.max_batch_rows - num_trees);
        let mut chunks = Vec::new();
        for (&key, sequence) in self.running.iter().filter(|(_, one)| !one.decoding) {
            let rows = sequence.num_missing().min(left);
            if rows == 0 {
                break;
            }
            left -= rows;
            chunks.push((key, rows));
        }
        chunks
    }

    fn assemble(
        &mut self,
        trees: Vec<(OrderKey, SentTree)>,
        chunks: Vec<(OrderKey, usize)>,
        moves: &SlotMoves,
    ) -> (Plan, Vec<Part>) {
        self.last_plan_id += 1;
        let mut plan = Plan::new(self.last_plan_id);
        let mut parts: Vec<Part> = Vec::with_capacity(trees.len() + chunks.len());
        for (key, tree) in trees {
            let (first_sample, first_top) = (plan.num_samples(), plan.num_tops());
            if let Some(sequence) = self.running.get(&key) {
                self.push_tree(&mut plan, sequence, &tree);
            }
            parts.push(Part {
                key,
                first_sample,
                tops: first_top..plan.num_tops(),
                work: Work::Tree(tree),
            });
        }
        for (key, rows) in chunks {
            let (first_sample, first_top) = (plan.num_samples(), plan.num_tops());
            if let Some(sequence) = self.running.get(&key) {
                self.push_chunk(&mut plan, sequence, rows);
            }
            parts.push(Part {
                key,
                first_sample,
                tops: first_top..plan.num_tops(),
                work: Work::Chunk(rows),
            });
        }
        for &(_, from, to) in moves
            .iter()
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
        let is_last = rows == sequence.num_missing();
        plan.is_greedy &= !is_last || sequence.is_plain_greedy();
        let first_top = sequence.drafting.first_top();
        plan.open(RowKind::Chunk, kv_len);
        for row in 0..rows {
            plan.push_row(Row {
                token: sequence.tokens[kv_len + row],
                position: kv_len + row,
                slot: self.pool.slot(&sequence.pages, kv_len + row),
                parent: row as i32 - 1,
                ancestors: 0,
                sampled: is_last && row + 1 == rows,
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
