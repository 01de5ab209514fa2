//! Plans whose forward begins before the results of the one before are known.

use super::end::Cancel;
use super::flight::{EarlyPlan, OpenPlan, Work};
use super::scheduler::Scheduler;
use super::{batch, running};
use crate::plan::Plan;
use crate::request_key::RequestKey;
use crate::speculation::Candidate;

impl Scheduler {
    /// The plan behind the open one, whose rows' tokens that one's forward draws; `None` where the step
    /// must wait for them.
    ///
    /// It computes one row of each request that the open plan gives a token, but for those that this token
    /// ends in any case.
    pub(crate) fn plan_early(&mut self, now_s: f64) -> Option<Plan> {
        self.upkeep.begin_call();
        self.catch_up();
        let rows = self.early_rows()?;
        let is_wanted = |key: &RequestKey| rows.binary_search_by_key(key, |row| row.0).is_ok();
        let members = self.running.iter_mut();
        let members = members.filter(|(key, _)| is_wanted(key));
        let candidates = members.map(|(_, one)| {
            let one = one.candidate(false);
            Candidate {
                kv_len: one.kv_len + 1,
                num_left: one.num_left - 1,
                ..one
            }
        });
        let mut candidates: Vec<Candidate<'_>> = candidates.collect();
        let step = self.flight.last_plan_id();
        let plain = self.speculator.plain_step(step, &mut candidates)?;
        let members = self.running.iter_mut();
        let members = members.filter(|(key, _)| is_wanted(key));
        let tables = members.map(|(_, one)| &mut one.table);
        if !self.cache.grow_for_two(tables) {
            return None;
        }
        self.pacing.begin_step(now_s);
        self.pacing.serve_others(plain.milliseconds(), 0, now_s);
        self.pacing.forgo();
        let plan_id = self.flight.number();
        for (key, _) in &rows {
            if let Some(one) = self.running.get(key) {
                self.cache
                    .hold_written(plan_id, &one.table, one.kv_len() + 1);
            }
        }
        let (plan, parts) = batch::assemble_early(plan_id, &rows, &self.running, &self.cache);
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
        });
        Some(plan)
    }

    /// The rows of an early plan: whose they are, and which sampled row of the open plan gives their
    /// token. `None` where the step must wait: it may compute anything else, or its draws depend on tokens.
    fn early_rows(&self) -> Option<Vec<(RequestKey, usize)>> {
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
        for part in &open.parts {
            let is_plain = matches!(&part.work, Work::Tree(tree) if tree.num_nodes() == 0);
            // Those that ended since then have no further rows.
            let Some(one) = self.running.get(&part.key) else {
                continue;
            };
            let draws = &one.draws;
            let is_ready = is_plain
                && draws.is_known_ahead()
                && (self.flight.can_draw() || draws.is_plain_greedy())
                && !self.pacing.is_ahead(&one.tenant);
            if !is_ready {
                return None;
            }
            num_known += 1;
            if one.num_left() > 1 {
                rows.push((part.key, part.first_sample));
            }
        }
        (num_known == self.running.len() && !rows.is_empty()).then_some(rows)
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
