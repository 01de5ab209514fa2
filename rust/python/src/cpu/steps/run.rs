//! Plan, forward and commit, again and again, with no call of Python.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::SyncSender;
use std::time::{Duration, Instant};

use spectrie_cpu::{CpuError, TOP_K};
use spectrie_engine::{
    DraftAnswers, DraftPlan, Engine, EngineError, LogitRows, Plan, RequestOutput, StepResults,
    TopTokens, Verdicts,
};

use super::gaps::Gaps;
use super::signals::Signals;
use crate::cpu::decoder::{CpuDecoder, Forward};
use crate::lock::lock;

/// What a step emitted.
pub(super) type Output = Vec<RequestOutput>;

/// The clock of a run, which continues its caller's.
#[derive(Debug, Clone, Copy)]
pub(super) struct Clock {
    began: Instant,
    began_s: f64,
}

impl Clock {
    /// A clock that is at `now_s` now.
    pub(super) fn at(now_s: f64) -> Self {
        Self {
            began: Instant::now(),
            began_s: now_s,
        }
    }

    fn read(&self, moment: Instant) -> f64 {
        self.began_s + moment.saturating_duration_since(self.began).as_secs_f64()
    }
}

/// Why a run ended.
#[derive(Debug)]
pub(super) enum RunEnd {
    /// There was nothing to do, or the run was asked to stop.
    Rested,
    /// A forward failed. Its plan is open.
    Failed { plan_id: u64, error: CpuError },
    /// A drafter failed, and was taken away. Steps go on without it.
    DrafterFailed { message: String },
}

/// What others may read while steps run.
#[derive(Debug, Default)]
pub(super) struct Board {
    pub(super) steps: AtomicU64,
    pub(super) busy: AtomicBool,
    pub(super) gaps: Mutex<Gaps>,
}

/// The way of outputs to their receiver.
#[derive(Debug)]
pub(super) struct Outbox {
    /// What the last step emitted.
    last: Option<Output>,
    /// `None` once closed.
    queue: Option<SyncSender<Output>>,
}

impl Outbox {
    pub(super) fn new(queue: SyncSender<Output>) -> Self {
        Self {
            last: None,
            queue: Some(queue),
        }
    }

    /// Keeps what a step emitted until the next one is planned.
    pub(super) fn keep(&mut self, output: Output) {
        self.last = Some(output);
    }

    /// Hands over the last step's output, once.
    pub(super) fn hand_over(&mut self) {
        if let Some(output) = self.last.take() {
            self.send(output);
        }
    }

    /// Hands over the last output; none comes after it.
    pub(super) fn close(&mut self) {
        self.hand_over();
        self.queue = None;
    }

    /// Waits while the queue is full.
    fn send(&self, output: Output) {
        if let Some(queue) = &self.queue {
            // It fails where nobody will ever receive anything again.
            let _ = queue.send(output);
        }
    }
}

/// The parts of a run.
pub(super) struct Run<'a> {
    pub(super) engine: &'a Engine,
    pub(super) decoder: &'a CpuDecoder,
    pub(super) signals: &'a Signals,
    pub(super) board: &'a Board,
    pub(super) outbox: &'a mut Outbox,
    pub(super) clock: Clock,
}

impl Run<'_> {
    /// Runs steps while the engine has work, and sleeps while it has none, for at most `rest`;
    /// not at all if it `rested` and there is still nothing to do.
    pub(super) fn run(&mut self, rest: Duration, mut rested: bool) -> Result<RunEnd, EngineError> {
        let has_drafter = self.decoder.has_drafter();
        // Cleared before planning: a submit after it either is in the plan or leaves the signal set.
        while self.signals.begin_step() {
            if has_drafter && let Some(message) = self.ask()? {
                return Ok(RunEnd::DrafterFailed { message });
            }
            let plan = self.engine.plan(self.now_s())?;
            self.board.busy.store(plan.is_some(), Ordering::Relaxed);
            // Only now: what it wakes runs beside the forward, not between two of them.
            self.outbox.hand_over();
            if let Some(plan) = plan {
                rested = false;
                if let Err(error) = self.step(&plan)? {
                    lock(&self.board.gaps).drop_open();
                    let plan_id = plan.plan_id;
                    return Ok(RunEnd::Failed { plan_id, error });
                }
                continue;
            }
            lock(&self.board.gaps).drop_open();
            // Refusals, cancellations and deadlines end requests without a step.
            let ends = self.engine.take_outputs()?;
            if !ends.is_empty() {
                self.outbox.send(ends);
            }
            if rested || !self.signals.wait(rest) {
                break;
            }
        }
        Ok(RunEnd::Rested)
    }

    /// Asks drafters what the engine wants of them for the next step. Gives why one failed.
    fn ask(&mut self) -> Result<Option<String>, EngineError> {
        while let Some(level) = self.engine.draft_plan(self.now_s())? {
            self.board.busy.store(true, Ordering::Relaxed);
            // What it wakes runs beside the drafter.
            self.outbox.hand_over();
            if let Err(message) = self.answer(&level) {
                let drafter = level.drafter;
                self.decoder.forgo_drafter(drafter);
                self.engine.draft_failed()?;
                return Ok(Some(format!("drafter {}: {message}", drafter + 1)));
            }
        }
        Ok(None)
    }

    /// Has a level answered, which counts as a forward between two gaps.
    fn answer(&self, level: &DraftPlan) -> Result<(), String> {
        let started = Instant::now();
        lock(&self.board.gaps).close(started);
        let answers = self.decoder.answer(level).ok_or("no drafter is loaded")?;
        let answers = answers.map_err(|error| error.to_string())?;
        let ended = Instant::now();
        lock(&self.board.gaps).open(ended);
        let answers = DraftAnswers {
            ids: &answers.ids,
            probabilities: &answers.probabilities,
            scored: &answers.scored,
        };
        let elapsed_ms = (ended - started).as_secs_f64() * 1e3;
        let taken = self.engine.draft_results(&answers, elapsed_ms);
        taken.map_err(|error| error.to_string())
    }

    /// The forward of a plan, and its commit.
    fn step(&mut self, plan: &Plan) -> Result<Result<(), CpuError>, EngineError> {
        let started = Instant::now();
        lock(&self.board.gaps).close(started);
        let (engine, clock, gaps) = (self.engine, self.clock, &self.board.gaps);
        let committed = self.decoder.compute(plan, |forward| {
            lock(gaps).open(forward.ended);
            let elapsed_ms = (forward.ended - started).as_secs_f64() * 1e3;
            let now_s = clock.read(forward.ended);
            commit(engine, plan, &forward, elapsed_ms, now_s)
        });
        match committed {
            Ok(output) => {
                self.outbox.keep(output?);
                self.board.steps.fetch_add(1, Ordering::Relaxed);
                Ok(Ok(()))
            }
            Err(error) => Ok(Err(error)),
        }
    }

    fn now_s(&self) -> f64 {
        self.clock.read(Instant::now())
    }
}

fn commit(
    engine: &Engine,
    plan: &Plan,
    forward: &Forward<'_>,
    elapsed_ms: f64,
    now_s: f64,
) -> Result<Output, EngineError> {
    let top = &forward.top;
    // Where there are as many top rows as sample rows they are the same rows.
    let has_tokens = plan.is_greedy && plan.num_tops() == plan.num_samples();
    let tokens: Option<Vec<i32>> =
        has_tokens.then(|| top.ids.iter().copied().step_by(TOP_K).collect());
    let verdicts = match &tokens {
        Some(tokens) => Verdicts::Tokens(tokens),
        None => Verdicts::Logits(LogitRows {
            values: forward.logits,
            num_rows: forward.num_rows,
            row_stride: forward.vocabulary,
        }),
    };
    let top = Some(TopTokens {
        ids: &top.ids,
        probabilities: &top.probabilities,
    });
    engine.commit(
        plan.plan_id,
        &StepResults {
            verdicts,
            top,
            compacted: false,
        },
        elapsed_ms,
        now_s,
    )
}
