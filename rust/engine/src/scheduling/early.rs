//! Plans whose forward begins before the results of the one before are known.

use super::batch::{self, ChunkAhead, RowAhead};
use super::composition::Composer;
use super::end::Cancel;
use super::flight::{EarlyPlan, OpenPlan, Work};
use super::priority::Awaited;
use super::running;
use super::scheduler::Scheduler;
use crate::costs::ForwardSize;
use crate::plan::Plan;
use crate::request_key::RequestKey;
use crate::sequence::Sequence;
use crate::speculation::{Candidate, PlainStep};

/// What a step behind an open plan computes.
struct Ahead {
    rows: Vec<RowAhead>,
    chunks: Vec<ChunkAhead>,
    /// The forward of the chunks alone.
    chunk_size: ForwardSize,
}

impl Ahead {
    /// The row of a request, if it has one.
    fn row(&self, key: RequestKey) -> Option<&RowAhead> {
        let found = self.rows.binary_search_by_key(&key, |one| one.key);
        found.ok().map(|index| &self.rows[index])
    }

    /// The tokens of a request that are in the cache once this is computed; `None` where it has no rows.
    fn end(&self, key: RequestKey) -> Option<usize> {
        let chunk = self.chunks.iter().find(|one| one.key == key);
        let of_chunk = chunk.map(|one| one.kv_len + one.rows);
        of_chunk.or_else(|| self.row(key).map(|one| one.kv_len + 1))
    }
}

impl Scheduler {
    /// The plan behind the open one, whose rows' tokens that one's forward draws; `None` where the step
    /// must wait for them.
    ///
    /// It computes one row of each request that the open plan gives a token, but for those that this token
    /// ends in any case, and further rows of prompts of one tenant.
    pub(crate) fn plan_early(&mut self, now_s: f64) -> Option<Plan> {
        self.upkeep.begin_call();
        self.catch_up();
        let ahead = self.ahead(now_s)?;
        let plain = self.plain_step(&ahead)?;
        let members = self.running.iter_mut();
        let tables = members.filter_map(|(key, one)| Some((&mut one.table, ahead.end(*key)?)));
        if !self.cache.grow_all(tables) {
            return None;
        }
        self.pacing.begin_step(now_s);
        self.pacing.serve_others(plain.milliseconds, 0, now_s);
        self.pacing.forgo();
        let plan_id = self.flight.number();
        let rows = ahead.rows.iter().map(|one| (one.key, one.kv_len, 1));
        let chunks = ahead.chunks.iter();
        let chunks = chunks.map(|one| (one.key, one.kv_len, one.rows));
        for (key, kv_len, count) in rows.chain(chunks) {
            if let Some(one) = self.running.get(&key) {
                let written = kv_len..kv_len + count;
                self.cache.hold_written(plan_id, &one.table, written);
            }
        }
        let mut prompt_ends = Vec::new();
        for chunk in &ahead.chunks {
            if let Some(one) = self.running.get_mut(&chunk.key) {
                one.timeline.wait_from(now_s);
                if chunk.kv_len + chunk.rows == one.tokens.len() {
                    prompt_ends.push(chunk.key);
                }
            }
        }
        let Ahead { rows, chunks, .. } = &ahead;
        let (plan, parts) =
            batch::assemble_early(plan_id, rows, chunks, &self.running, &self.cache);
        self.flight.add_early(EarlyPlan {
            plan: OpenPlan {
                plan_id,
                num_rows: plan.num_rows(),
                num_samples: plan.num_samples(),
                num_logits: 0,
                num_tops: plan.num_tops(),
                trial: plain.trial,
                planned_s: now_s,
                plan_ms: 0.0,
                upkeep_ms: 0.0,
                paced: Vec::new(),
                parts,
                was_early: true,
            },
            step: plain,
            prompt_ends,
        });
        Some(plan)
    }

    /// The step, if nobody would be asked for drafts in it.
    fn plain_step(&mut self, ahead: &Ahead) -> Option<PlainStep> {
        let members = self.running.iter_mut();
        let candidates = members.filter_map(|(key, one)| {
            let row = ahead.row(*key)?;
            let one = one.candidate(false);
            Some(Candidate {
                kv_len: row.kv_len,
                num_left: one.num_left - 1,
                ..one
            })
        });
        let mut candidates: Vec<Candidate<'_>> = candidates.collect();
        let step = self.flight.last_plan_id();
        self.speculator
            .plain_step(step, &mut candidates, ahead.chunk_size)
    }

    /// What an early plan computes. `None` where the step must wait: it may compute anything else, or its
    /// draws depend on tokens.
    fn ahead(&self, now_s: f64) -> Option<Ahead> {
        let open = self.flight.open_alone()?;
        // A drafter is asked about tokens, and takes features of the forward before, once they are known.
        if self.has_drafter() {
            return None;
        }
        let is_waited_for = self.load().waiting > 0
            || !open.paced.is_empty()
            || running::guests(&self.running).next().is_some();
        if is_waited_for {
            return None;
        }
        let mut num_known = 0;
        let mut rows = Vec::with_capacity(open.parts.len());
        // Of prompts that the open plan does not end.
        let mut flying = Vec::new();
        for part in &open.parts {
            // Those that ended since then have no further rows.
            let Some(one) = self.running.get(&part.key) else {
                continue;
            };
            if self.pacing.is_ahead(&one.tenant) {
                return None;
            }
            num_known += 1;
            let num_rows = match &part.work {
                Work::Tree(tree) if tree.num_nodes() == 0 => 1,
                Work::Tree(_) => return None,
                Work::Chunk(num_rows) => *num_rows,
            };
            if num_rows < one.num_missing() {
                flying.push((part.key, num_rows));
                continue;
            }
            let draws = &one.draws;
            if !draws.is_known_ahead() || !(self.flight.can_draw() || draws.is_plain_greedy()) {
                return None;
            }
            if one.num_left() > 1 {
                rows.push(RowAhead {
                    key: part.key,
                    drawn: part.first_sample,
                    kv_len: one.kv_len() + num_rows,
                });
            }
        }
        if num_known < self.running.len() {
            return None;
        }
        // Requests whose prompts end stand behind those that decode.
        rows.sort_unstable_by_key(|one| one.key);
        flying.sort_unstable();
        let (chunks, chunk_size) = self.chunks_ahead(&rows, &flying, now_s)?;
        (rows.len() + chunks.len() > 0).then_some(Ahead {
            rows,
            chunks,
            chunk_size,
        })
    }

    /// Further rows of the prompts of `flying`, of which so many rows are on their way.
    fn chunks_ahead(
        &self,
        rows: &[RowAhead],
        flying: &[(RequestKey, usize)],
        now_s: f64,
    ) -> Option<(Vec<ChunkAhead>, ForwardSize)> {
        let prompts = flying.iter().filter_map(|(key, _)| self.running.get(key));
        let is_ready = |one: &Sequence| {
            one.draws.is_drawable()
                && (self.flight.can_draw() || one.draws.is_plain_greedy())
                // Likeliest tokens of prompts are read with the results.
                && one.drafting.first_top().is_none()
        };
        let mut tenants = prompts.clone().map(|one| &one.tenant);
        let first = tenants.next();
        // Which of several tenants has its turn depends on what the open plan is charged for.
        if !prompts.clone().all(|one| is_ready(one)) || !tenants.all(|one| Some(one) == first) {
            return None;
        }
        let order = self
            .admission
            .prefill_order(&self.running, &Awaited::new(), now_s);
        let is_flying = |key: &RequestKey| flying.binary_search_by_key(key, |one| one.0).is_ok();
        let mut order = order.regulars;
        order.retain(is_flying);
        let decoding: Vec<_> = rows.iter().map(|one| (one.key, one.kv_len)).collect();
        let composer = Composer {
            running: &self.running,
            config: self.admission.config(),
            costs: self.speculator.costs(),
            flying,
        };
        let chunks = composer.compose_ahead(&order, &decoding, &self.pacing)?;
        let parts = chunks.parts.iter().filter_map(|&(key, rows)| {
            let index = flying.binary_search_by_key(&key, |one| one.0).ok()?;
            let kv_len = self.running.get(&key)?.kv_len() + flying[index].1;
            Some(ChunkAhead { key, rows, kv_len })
        });
        Some((parts.collect(), chunks.size))
    }

    /// Ends requests between the results of a plan and those of an early one behind it, as the plan after
    /// them would: their rows there are of no use any more.
    pub(crate) fn end_meanwhile(&mut self, cancels: &[Cancel], now_s: f64) {
        for cancel in cancels {
            self.cancel(cancel, now_s);
        }
        self.expire(now_s);
    }

    /// Opens the plan that began early, once the one before it has ended.
    pub(super) fn open_early(&mut self, now_s: f64) {
        if let Some(step) = self.flight.open_early(now_s) {
            self.speculator.begin_plain(step);
            self.upkeep.begin_step();
        }
    }

    /// Whether it holds a request by this handle.
    pub(crate) fn holds(&self, handle: u64) -> bool {
        self.admission.key_of(handle).is_some()
    }
}
