//! The state machine behind an engine: which requests wait and run, and what a step computes.

use std::sync::Arc;

use spectrie_trie::DraftMemory;
use spectrie_types::FinishKind;

use super::admission::{Admission, Following};
use super::batch;
use super::composition::{Composer, Composition, Pacing, Prepared, candidates};
use super::end::{Cancel, End};
use super::flight::{Flight, OpenPlan};
use super::outbox::Outbox;
use super::priority::Awaited;
use super::running::{self, Running};
use super::step_times::StepTimes;
use crate::background::{Chore, ChoreQueue, Upkeep};
use crate::cache::Cache;
use crate::clock::Clock;
use crate::config::{EngineConfig, check};
use crate::costs::{CostCurve, ForwardSize};
use crate::error::EngineError;
use crate::output::{Finish, Load, RequestOutput, RequestStats};
use crate::plan::Plan;
use crate::plan::packing::{DeviceShape, PackedStep, TileRows};
use crate::request::Request;
use crate::request_key::RequestKey;
use crate::sequence::Sequence;
use crate::speculation::{SentTree, Speculator, Trial};

/// Single-threaded; every call that needs the time is given it.
#[derive(Debug)]
pub(crate) struct Scheduler {
    pub(super) cache: Cache,
    pub(super) admission: Admission,
    pub(super) running: Running,
    pub(super) pacing: Pacing,
    pub(super) speculator: Speculator,
    pub(super) flight: Flight,
    pub(super) chores: ChoreQueue<Sequence>,
    pub(super) upkeep: Upkeep,
    pub(super) outbox: Outbox,
    pub(super) step_times: StepTimes,
    /// The next step, while a drafter is asked.
    pub(super) prepared: Option<Prepared>,
}

impl Scheduler {
    /// `memory` is none where nothing may be kept or drafted. Durations are taken by `clock`.
    pub(crate) fn new(
        config: EngineConfig,
        memory: Option<Arc<DraftMemory>>,
        clock: Arc<dyn Clock>,
    ) -> Result<Self, EngineError> {
        check(&config)?;
        let config = Arc::new(config);
        Ok(Self {
            cache: Cache::new(config.num_pages, config.page_size),
            running: Running::new(),
            pacing: Pacing::new(&config),
            speculator: Speculator::new(Arc::clone(&config), memory),
            flight: Flight::new(config.vocabulary_size),
            chores: ChoreQueue::new(config.overlap, config.max_running),
            upkeep: Upkeep::new(clock),
            outbox: Outbox::default(),
            step_times: StepTimes::new(),
            prepared: None,
            admission: Admission::new(config),
        })
    }

    /// Takes a request in; one that can never run, or has nothing left to do, ends at once.
    pub(crate) fn submit(&mut self, request: Request, arrived_s: f64, now_s: f64) {
        if let Some(message) = request.refusal(self.admission.config()) {
            self.outbox.push(RequestOutput {
                handle: request.handle,
                finish: Some(Finish {
                    kind: FinishKind::Refused,
                    message: Some(message),
                    keep_tokens: None,
                    stats: RequestStats::default(),
                }),
                ..RequestOutput::default()
            });
            return;
        }
        let eos = &self.admission.config().eos_token_ids;
        let sequence = Box::new(Sequence::new(request, eos, &self.speculator, arrived_s));
        let stopped_at = sequence.stopped_at();
        let end = sequence
            .ending()
            .map(|kind| End::of(kind).keeping(stopped_at));
        let key = self.admission.enter(sequence);
        if let Some(end) = end {
            self.end(key, end, now_s);
        }
    }

    /// Ends a request; unknown handles are ones that already ended.
    pub(crate) fn cancel(&mut self, cancel: &Cancel, now_s: f64) {
        if let Some(key) = self.admission.key_of(cancel.handle) {
            let end = End {
                keep_tokens: cancel.keep_tokens,
                learns: cancel.finished,
                ..End::of(FinishKind::Cancelled)
            };
            self.end(key, end, now_s);
        }
    }

    /// Drops the kept pages of a namespace and hides those of its requests.
    pub(crate) fn forget(&mut self, namespace: &str) {
        self.cache.forget(namespace);
        self.admission.forget(namespace);
        let members = self.running.values_mut();
        for sequence in members.filter(|one| **one.table.namespace() == *namespace) {
            sequence.table.forget();
        }
    }

    /// Replaces what forwards are thought to cost.
    pub(crate) fn set_costs(&mut self, costs: CostCurve) {
        self.speculator.set_costs(costs);
    }

    /// Up to `count` pages that hold nothing until the next plan.
    pub(crate) fn scratch(&mut self, count: usize) -> Result<Vec<u32>, EngineError> {
        self.flight.check_closed()?;
        self.check_answered()?;
        Ok(self.cache.scratch(count))
    }

    /// Whether a plan waits for its results.
    pub(crate) fn is_in_flight(&self) -> bool {
        self.flight.is_open()
    }

    /// Notes that a call that began at `began_s`, by the clock, has the scheduler now.
    pub(crate) fn enter(&mut self, began_s: f64) {
        self.upkeep.enter(began_s);
    }

    /// The next forward; `None` when nothing is held.
    pub(crate) fn plan(&mut self, now_s: f64) -> Result<Option<Plan>, EngineError> {
        self.flight.check_closed()?;
        self.check_answered()?;
        let prepared = self.prepared.take().or_else(|| self.prepare(now_s));
        Ok(prepared.map(|prepared| self.finish(prepared)))
    }

    /// All of the next step but its drafts; `None` when nothing is held.
    pub(super) fn prepare(&mut self, now_s: f64) -> Option<Prepared> {
        self.upkeep.begin_step();
        let began_s = self.upkeep.begin_call();
        self.catch_up();
        self.expire(now_s);
        for (key, one) in &mut self.running {
            let owner = key.arrival();
            self.cache
                .settle(owner, &mut one.table, &one.tokens, one.decoding);
        }
        let (running, cache) = (&mut self.running, &mut self.cache);
        let mut following = Following::new(&self.speculator);
        following.update(running, cache);
        let (decoding, preempted) = self.admission.secure_decoding(running, cache, now_s);
        let awaited = if preempted {
            Awaited::new()
        } else {
            self.admission.admit(running, cache, &mut following, now_s)
        };
        let prefilling = self.admission.prefill_order(running, &awaited, now_s);
        // Some may have been sent back, and even admitted anew.
        let decoding = decoding.into_iter();
        let decoding = decoding.filter(|key| running.get(key).is_some_and(|one| one.decoding));
        let decoding = running::parties(running, decoding.collect());
        self.pacing.begin_step(now_s);
        let composer = Composer {
            running,
            config: self.admission.config(),
            costs: self.speculator.costs(),
            flying: &[],
        };
        let Composition {
            chunks,
            decoding,
            paced,
            limit_ms,
        } = composer.compose(&prefilling, decoding, &mut self.pacing, now_s);
        for (key, _) in &chunks.parts {
            if let Some(sequence) = running.get_mut(key) {
                sequence.timeline.wait_from(now_s);
            }
        }
        if decoding.len() + chunks.size.rows == 0 {
            return None;
        }
        Some(Prepared {
            now_s,
            began_s,
            chunks,
            decoding,
            paced,
            limit_ms,
            questions: None,
            fills: Vec::new(),
            num_filled: 0,
        })
    }

    /// Adds drafts to a step, and opens its plan.
    fn finish(&mut self, mut prepared: Prepared) -> Plan {
        let (trees, trial) = self.draft(&mut prepared);
        let Prepared { chunks, paced, .. } = prepared;
        let has_chunks = !chunks.parts.is_empty();
        let plan_id = self.flight.number();
        let (running, cache) = (&self.running, &mut self.cache);
        let (plan, parts) = batch::assemble(plan_id, trees, chunks.parts, running, cache);
        self.flight.open(OpenPlan {
            plan_id,
            num_rows: plan.num_rows(),
            num_samples: plan.num_samples(),
            num_logits: plan.logit_samples.len(),
            num_tops: plan.num_tops(),
            trial: trial.filter(|_| !has_chunks),
            planned_s: prepared.now_s,
            plan_ms: (self.upkeep.now_s() - prepared.began_s) * 1e3,
            upkeep_ms: self.upkeep.step_ms(),
            paced,
            parts,
            was_early: false,
        });
        plan
    }

    /// Writes the open plan to `out`, as a device reads it.
    pub(crate) fn pack(
        &mut self,
        plan: &Plan,
        shape: &DeviceShape,
        tiles: TileRows,
        out: &mut [i32],
    ) -> Result<PackedStep, EngineError> {
        self.flight.pack(plan, &mut self.running, shape, tiles, out)
    }

    /// The trees of the requests that decode, as far as free pages can hold them.
    fn draft(&mut self, prepared: &mut Prepared) -> (Vec<(RequestKey, SentTree)>, Option<Trial>) {
        let (decoding, limit_ms) = (&prepared.decoding, prepared.limit_ms);
        let mut candidates = candidates(&mut self.running, decoding, &self.pacing);
        let speculator = &mut self.speculator;
        let drafts = if let Some(questions) = prepared.questions.take() {
            speculator.end_questions(questions, &mut candidates, limit_ms)
        } else {
            let (step, chunk) = (self.flight.last_plan_id(), prepared.chunks.size);
            speculator.draft(step, &mut candidates, chunk, limit_ms, self.upkeep.clock())
        };
        let mut trees = Vec::with_capacity(decoding.len());
        for (&key, offer) in decoding.iter().zip(drafts.offers) {
            let mut count = offer.num_bought();
            if let Some(sequence) = self.running.get_mut(&key) {
                // The free pages are room of others for drafts.
                count = if sequence.is_guest {
                    0
                } else {
                    self.cache.grow_for_drafts(&mut sequence.table, count)
                };
            }
            trees.push((key, offer.send(count)));
        }
        (trees, drafts.trial)
    }

    /// Ends every request whose deadline passed.
    pub(super) fn expire(&mut self, now_s: f64) {
        let running = self.running.iter().map(|(&key, one)| (key, &**one));
        let late = running.chain(self.admission.due(now_s));
        let late = late.filter(|(_, one)| one.is_overdue(now_s));
        let late: Vec<RequestKey> = late.map(|(key, _)| key).collect();
        for key in late {
            self.end(key, End::of(FinishKind::Deadline), now_s);
        }
    }

    /// Ends a request between steps.
    fn end(&mut self, key: RequestKey, end: End, now_s: f64) {
        let running = self.running.remove(&key);
        if let Some(sequence) = running.or_else(|| self.admission.withdraw(key)) {
            let output = self.release(key, sequence, end, now_s);
            self.outbox.push(output);
        }
    }

    /// Learns from a request, gives its pages back and sums it up; the caller has taken it out of
    /// those that run or wait.
    pub(super) fn release(
        &mut self,
        key: RequestKey,
        mut sequence: Box<Sequence>,
        end: End,
        now_s: f64,
    ) -> RequestOutput {
        let num_kept = sequence.num_kept(end.keep_tokens);
        let (owner, kept) = (key.arrival(), &sequence.tokens[..num_kept]);
        self.cache.close(owner, &mut sequence.table, kept);
        self.admission.leave(&sequence);
        // The work of guests is not known, and who gave up waiting says nothing of what is usual.
        if !sequence.is_guest && sequence.num_emitted() > 0 {
            self.pacing.note_request(&sequence.tenant, sequence.work_ms);
        }
        let num_kept = end.learns.then_some(num_kept);
        let output = RequestOutput {
            handle: sequence.request.handle,
            finish: Some(sequence.finish(end.kind, end.message, end.keep_tokens, now_s)),
            ..RequestOutput::default()
        };
        self.put_off(Chore::End(sequence, num_kept));
        output
    }

    /// Does a chore later if there is an overlap to do it in, else now. Gives the milliseconds
    /// that it took of this thread.
    pub(super) fn put_off(&mut self, chore: Chore<Sequence>) -> f64 {
        self.chores.push(chore);
        if self.chores.puts_off() {
            return 0.0;
        }
        self.catch_up()
    }

    /// Does the oldest piece of background work; false when there was none.
    pub(crate) fn do_chore(&mut self) -> bool {
        let running = &mut self.running;
        self.chores
            .do_one(|key| running.get_mut(&key).map(|one| &mut **one))
    }

    /// Whether background work waits.
    pub(crate) fn has_chores(&self) -> bool {
        !self.chores.is_empty()
    }

    /// Does overdue chores, so that those of a few steps wait at most. Gives the milliseconds.
    pub(super) fn catch_up(&mut self) -> f64 {
        let began_s = self.upkeep.now_s();
        for _ in 0..self.chores.num_overdue() {
            self.do_chore();
        }
        self.upkeep.note(began_s)
    }

    /// Ends that no step produced: refusals, cancellations, deadlines.
    pub(crate) fn take_outputs(&mut self) -> Vec<RequestOutput> {
        self.outbox.take()
    }

    /// How busy it is.
    pub(crate) fn load(&self) -> Load {
        let pages = self.cache.occupancy();
        let mut load = Load {
            running: self.running.len(),
            pages_used: pages.held,
            pages_cached: pages.idle,
            pages_total: pages.total,
            steps: self.flight.num_committed(),
            ..Load::default()
        };
        self.admission.report(&mut load);
        self.speculator.report(&mut load);
        self.outbox.report(&mut load);
        self.step_times.report(&mut load);
        load.learn_seconds = self.upkeep.total_seconds();
        load.longest_step_ms = self.longest_step_ms();
        load
    }

    /// The step that takes longest of those that are ever made, but for drafts.
    fn longest_step_ms(&self) -> f64 {
        let (config, costs) = (self.admission.config(), self.speculator.costs());
        let cached = config.num_pages * config.page_size;
        let decoding = ForwardSize {
            rows: config.max_running,
            kv_tokens: cached,
            kv_reads: cached,
        };
        let rows_left = config.max_batch_rows.saturating_sub(config.max_running);
        let context = config.max_context.min(cached);
        let chunk = costs.chunk(context, config.chunk_tokens.min(rows_left));
        costs.milliseconds(decoding + chunk)
    }
}
