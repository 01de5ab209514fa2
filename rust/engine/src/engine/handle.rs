//! The handle of an engine: any thread submits requests at any time, one at a time runs steps.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use spectrie_trie::DraftMemory;
use spectrie_types::SpeculationMode;

use super::inbox::{Command, Inbox};
use crate::background::BackgroundThread;
use crate::clock::{Clock, SystemClock};
use crate::config::{EngineConfig, memory_config};
use crate::costs::{CostCurve, CostShape};
use crate::error::EngineError;
use crate::output::{Load, RequestOutput};
use crate::plan::Plan;
use crate::plan::packing::{DeviceShape, PackedStep, TileRows};
use crate::request::Request;
use crate::scheduling::{Cancel, Scheduler};

/// An engine. Only `set_costs` and the calls that run steps ever wait for a step.
#[derive(Debug)]
pub struct Engine {
    pub(super) shared: Arc<Shared>,
    /// `None` where nothing overlaps.
    background: Option<BackgroundThread>,
    /// What namespaces learned; `None` when nothing is drafted.
    pub(crate) memory: Option<Arc<DraftMemory>>,
    pub(crate) tokenizer_fingerprint: Option<String>,
    pub(crate) vocabulary_size: usize,
}

/// What the background thread works on too.
#[derive(Debug)]
pub(super) struct Shared {
    inbox: Mutex<Inbox>,
    core: Mutex<Scheduler>,
    pub(super) clock: Arc<dyn Clock>,
}

impl Engine {
    /// An engine without requests.
    ///
    /// # Errors
    /// [`EngineError::Options`] with every value that is out of range.
    pub fn new(config: EngineConfig) -> Result<Self, EngineError> {
        Self::with_clock(config, Arc::new(SystemClock::default()))
    }

    /// As [`Self::new`], with another clock than the machine's.
    ///
    /// # Errors
    /// Those of [`Self::new`].
    pub fn with_clock(config: EngineConfig, clock: Arc<dyn Clock>) -> Result<Self, EngineError> {
        let overlap = config.overlap;
        let (max_held, waiting_bytes) = (config.max_held, config.waiting_bytes);
        let vocabulary_size = config.vocabulary_size;
        let tokenizer_fingerprint = config.tokenizer_fingerprint.clone();
        let memory = (config.speculation != SpeculationMode::Off)
            .then(|| DraftMemory::new(memory_config(&config)))
            .transpose()?
            .map(|memory| Arc::new(memory.with_corpus_bytes(config.corpus_memory_bytes)));
        let core = Scheduler::new(config, memory.clone(), Arc::clone(&clock))?;
        let inbox = Inbox::new(max_held, waiting_bytes, &core.load());
        let shared = Arc::new(Shared {
            inbox: Mutex::new(inbox),
            core: Mutex::new(core),
            clock,
        });
        let background = overlap.then(|| {
            let shared = Arc::clone(&shared);
            BackgroundThread::start(move || shared.do_chore())
        });
        Ok(Self {
            // Without a thread the chores are done between steps.
            background: background.and_then(Result::ok),
            shared,
            memory,
            tokenizer_fingerprint,
            vocabulary_size,
        })
    }

    /// Submits a request. One that can never run ends with a refused output.
    ///
    /// # Errors
    /// [`EngineError::Full`] when `max_held` requests have not ended;
    /// [`EngineError::NoWaitingRoom`] when others wait and there is no room for its token ids
    /// beside theirs; [`EngineError::DuplicateHandle`].
    pub fn submit(&self, request: Request) -> Result<(), EngineError> {
        let mut inbox = self.shared.inbox();
        inbox.submit(request, self.shared.clock.now_s())?;
        drop(inbox);
        if let Some(background) = &self.background {
            background.nudge();
        }
        Ok(())
    }

    /// Ends a request at the next plan, acknowledged by a cancelled output; nothing happens when it
    /// already ended.
    ///
    /// `keep_tokens` output tokens count in its statistics (all when `None`) and, if it `finished`
    /// well, are learned.
    pub fn cancel(&self, handle: u64, keep_tokens: Option<u32>, finished: bool) {
        let mut inbox = self.shared.inbox();
        // One cancel for each request held: the inbox stays bounded.
        let is_new = !inbox
            .commands
            .iter()
            .any(|one| matches!(one, Command::Cancel(cancel) if cancel.handle == handle));
        if is_new && inbox.holds(handle) {
            inbox.commands.push_back(Command::Cancel(Cancel {
                handle,
                keep_tokens,
                finished,
            }));
        }
    }

    /// Drops the keys and values kept of a namespace, at the next plan and before any request that
    /// arrives after this.
    pub(crate) fn forget_prefixes(&self, namespace: &str) {
        let mut inbox = self.shared.inbox();
        // One command for each namespace since the last request: the inbox stays bounded.
        let is_known = inbox
            .commands
            .iter()
            .rev()
            .take_while(|one| !matches!(one, Command::Submit(..)))
            .any(|one| matches!(one, Command::Forget(other) if other == namespace));
        if !is_known {
            inbox
                .commands
                .push_back(Command::Forget(namespace.to_owned()));
        }
    }

    /// Up to `count` pages of the cache that hold nothing: they may be overwritten until the next
    /// plan, by a forward that no plan asked for. Kept prefixes are dropped where too few pages are free,
    /// and with a drafter what [`Self::feature_plan`] would have kept.
    ///
    /// # Errors
    /// [`EngineError::PlanInFlight`] when the last plan was not committed; [`EngineError::LevelInFlight`].
    pub fn scratch_pages(&self, count: usize) -> Result<Vec<u32>, EngineError> {
        let mut core = self.shared.core()?;
        let pages = core.scratch(count)?;
        self.shared.publish(&core, &[]);
        Ok(pages)
    }

    /// Inserts tokens in a namespace's draft memory.
    ///
    /// # Errors
    /// [`EngineError::Config`] for a token outside the vocabulary.
    pub fn learn(&self, namespace: &str, token_ids: &[u32]) -> Result<(), EngineError> {
        if let Some(token) = token_ids
            .iter()
            .find(|&&token| token as usize >= self.vocabulary_size)
        {
            return Err(EngineError::Config {
                name: "token_ids",
                given: token.to_string(),
                allowed: format!("ids below the vocabulary size {}", self.vocabulary_size),
            });
        }
        if let Some(memory) = &self.memory {
            memory.namespace(namespace).insert(token_ids);
        }
        Ok(())
    }

    /// Sets the cost of a forward by its number of rows, as measured at start-up, and its shape beside
    /// them; later steps correct it.
    ///
    /// # Errors
    /// [`EngineError::Config`] unless both lists have the same length, rows ascend, times are above 0,
    /// tiles have rows, and the prices of keys are finite and not negative.
    pub fn set_costs(
        &self,
        rows: &[usize],
        milliseconds: &[f64],
        shape: CostShape,
    ) -> Result<(), EngineError> {
        let costs = CostCurve::new(rows, milliseconds, shape)?;
        self.shared.core()?.set_costs(costs);
        Ok(())
    }

    /// The next forward at time `now_s`; `None` when no request is left to compute.
    ///
    /// Call [`Self::take_outputs`] after it: refusals, cancellations and deadlines end requests
    /// here.
    ///
    /// # Errors
    /// [`EngineError::PlanInFlight`] when the last plan was not committed.
    pub fn plan(&self, now_s: f64) -> Result<Option<Plan>, EngineError> {
        let mut core = self.core_for_step()?;
        self.drain(&mut core, now_s);
        let plan = core.plan(now_s);
        if matches!(plan, Ok(None)) {
            while core.do_chore() {}
        }
        self.shared.publish(&core, &[]);
        if matches!(plan, Ok(Some(_))) {
            self.resume_background(core);
        }
        plan
    }

    /// Writes `plan`, which waits for its results, to the beginning of `out`: rows, attention's work
    /// and, where tokens can be drawn on a device, everything that decides them, as
    /// [`PackedSection`](spectrie_types::PackedSection) names it. It changes nothing that results depend on.
    ///
    /// # Errors
    /// [`EngineError::PackedTooLong`]; [`EngineError::UnknownPlan`]; [`EngineError::Config`] for a tile without
    /// room for a group, or the vocabulary of another model. Nothing was written.
    pub fn pack(
        &self,
        plan: &Plan,
        shape: &DeviceShape,
        tiles: TileRows,
        out: &mut [i32],
    ) -> Result<PackedStep, EngineError> {
        if shape.vocabulary_size() != self.vocabulary_size {
            return Err(EngineError::Config {
                name: "vocabulary",
                given: shape.vocabulary_size().to_string(),
                allowed: format!("{}, the engine's", self.vocabulary_size),
            });
        }
        let mut core = self.core_for_step()?;
        let packed = core.pack(plan, shape, tiles, out);
        self.resume_background(core);
        packed
    }

    /// Terminal outputs of requests that ended outside a step. The next commit also returns them, but
    /// an idle engine has none.
    ///
    /// # Errors
    /// [`EngineError::Stopped`].
    pub fn take_outputs(&self) -> Result<Vec<RequestOutput>, EngineError> {
        let mut core = self.shared.core()?;
        let outputs = core.take_outputs();
        self.shared.publish(&core, &outputs);
        Ok(outputs)
    }

    /// How busy the engine was after the last call that ran it; requests since then count as
    /// waiting.
    pub fn load(&self) -> Load {
        let mut load = self.queue_load();
        if let Some(memory) = &self.memory {
            load.memory_bytes = memory.bytes();
            load.memory_tokens = memory.num_tokens();
            load.memory_namespaces = memory.num_namespaces();
            load.inserted_tokens = memory.inserted_tokens();
            load.evicted_tokens = memory.evicted_tokens();
            load.dropped_tokens = memory.dropped_tokens();
            load.snapshot_written_bytes = memory.snapshot_written_bytes();
            load.corpus_bytes = memory.corpus_bytes();
            load.lost_corpus_blocks = memory.lost_corpus_blocks();
        }
        load
    }

    /// The same without what draft memory holds, which is counted namespace by namespace: this is asked
    /// for as often as wanted.
    pub fn queue_load(&self) -> Load {
        let inbox = self.shared.inbox();
        Load {
            waiting: inbox.load.waiting + inbox.num_submits,
            waiting_bytes: inbox.waiting_bytes(),
            ..inbox.load
        }
    }

    /// Lets the background thread go on, as the forward comes next.
    pub(super) fn resume_background(&self, core: MutexGuard<'_, Scheduler>) {
        let has_chores = core.has_chores();
        drop(core);
        if let Some(background) = &self.background {
            background.resume();
            if has_chores {
                background.nudge();
            }
        }
    }

    /// The scheduler for a step: the background thread pauses until the next plan is made.
    pub(super) fn core_for_step(&self) -> Result<MutexGuard<'_, Scheduler>, EngineError> {
        let Some(background) = &self.background else {
            return self.shared.core();
        };
        let began_s = self.shared.clock.now_s();
        background.pause();
        let mut core = self.shared.core()?;
        core.enter(began_s);
        Ok(core)
    }
}

impl Shared {
    /// Does one chore, or admits one request to the queue; false when there was nothing to do.
    fn do_chore(&self) -> bool {
        self.core()
            .is_ok_and(|mut core| core.do_chore() || self.take_in(&mut core))
    }

    /// Takes the oldest request from the inbox while a forward runs, so that the next plan finds it ready.
    fn take_in(&self, core: &mut Scheduler) -> bool {
        let mut inbox = self.inbox();
        let Some((planned_s, planned_at_s)) = inbox.planned.filter(|_| core.is_in_flight()) else {
            return false;
        };
        let (request, since_s) = match inbox.commands.pop_front() {
            Some(Command::Submit(request, since_s)) => (request, since_s),
            // Other commands act on what runs: they wait for the plan.
            Some(other) => {
                inbox.commands.push_front(other);
                return false;
            }
            None => return false,
        };
        inbox.num_submits = inbox.num_submits.saturating_sub(1);
        drop(inbox);
        let clock_s = self.clock.now_s();
        let now_s = planned_s + (clock_s - planned_at_s);
        core.submit(*request, now_s - (clock_s - since_s), now_s);
        self.publish(core, &[]);
        true
    }

    pub(super) fn publish(&self, core: &Scheduler, outputs: &[RequestOutput]) {
        let load = core.load();
        let mut inbox = self.inbox();
        inbox.publish(&load);
        for output in outputs.iter().filter(|output| output.finish.is_some()) {
            inbox.release(output.handle);
        }
    }

    pub(super) fn inbox(&self) -> MutexGuard<'_, Inbox> {
        // Every change of the inbox is complete before anything could panic.
        self.inbox.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn core(&self) -> Result<MutexGuard<'_, Scheduler>, EngineError> {
        self.core.lock().map_err(|_| EngineError::Stopped)
    }
}
