//! The state machine behind an engine: who runs, who waits, who owns which page.

use std::collections::{BTreeMap, HashMap};
use std::ops::Range;
use std::sync::Arc;

use spectrie_sampling::Sampler;
use spectrie_trie::DraftMemory;
use spectrie_types::FinishKind;

use crate::background::queue::{Chore, Chores};
use crate::cache::pool::PagePool;
use crate::cache::reuse::share_filled;
use crate::config::{EngineConfig, check};
use crate::error::EngineError;
use crate::output::{Finish, Load, RequestOutput, RequestStats};
use crate::request::Request;
use crate::request_key::RequestKey;
use crate::scheduling::fairness::FairShare;
use crate::scheduling::queue::Queue;
use crate::sequence::sequence::Sequence;
use crate::speculation::calibration::Calibration;
use crate::speculation::cost::CostCurve;
use crate::speculation::decisions::Decisions;
use crate::speculation::tiers::Tiers;
use crate::speculation::tree::SentTree;
use crate::speculation::trial::{Trial, Trials};

/// A copy between slots before a forward, for a request: whose, from, to.
pub(crate) type SlotMove = (RequestKey, i32, i32);

/// A plan whose results are awaited.
#[derive(Debug)]
pub(crate) struct InFlight {
    pub(crate) plan_id: u64,
    pub(crate) num_rows: usize,
    pub(crate) num_samples: usize,
    pub(crate) num_tops: usize,
    /// What the step's tokens and time count for.
    pub(crate) trial: Option<Trial>,
    pub(crate) planned_s: f64,
    pub(crate) parts: Vec<Part>,
}

/// One request's rows of a plan.
#[derive(Debug)]
pub(crate) struct Part {
    pub(crate) key: RequestKey,
    /// Index of its first sampled row among all sampled rows.
    pub(crate) first_sample: usize,
    /// Its rows whose likeliest tokens are wanted, among all of them: the last ones of its rows.
    pub(crate) tops: Range<usize>,
    pub(crate) work: Work,
}

/// What one request's rows compute.
#[derive(Debug)]
pub(crate) enum Work {
    /// So many further tokens of a prompt.
    Chunk(usize),
    /// The last emitted token and its drafts.
    Tree(SentTree),
}

/// Single-threaded and free of clocks: every call that needs the time is given it.
#[derive(Debug)]
pub(crate) struct Scheduler {
    pub(crate) config: EngineConfig,
    pub(crate) pool: PagePool,
    /// Boxed: a step takes each out and puts it back.
    pub(crate) running: BTreeMap<RequestKey, Box<Sequence>>,
    pub(crate) waiting: Queue,
    pub(crate) share: FairShare,
    /// Whether a request lost its pages and none was let in since.
    pub(crate) is_pressed: bool,
    keys: HashMap<u64, RequestKey>,
    num_arrivals: u64,
    pub(crate) in_flight: Option<InFlight>,
    pub(crate) last_plan_id: u64,
    /// Copies of slots that the plan in the making does before its forward.
    pub(crate) copies: Vec<SlotMove>,
    /// Pages held until the plan in the making is complete, because it copies from them.
    pub(crate) pins: Vec<u32>,
    pub(crate) sampler: Sampler,
    /// Ends that no step produced, until the next call that gives outputs.
    outputs: Vec<RequestOutput>,
    pub(crate) totals: Load,
    pub(crate) costs: CostCurve,
    pub(crate) tiers: Tiers,
    pub(crate) decisions: Decisions,
    pub(crate) calibration: Calibration,
    pub(crate) trials: Trials,
    pub(crate) chores: Chores,
    /// What namespaces learnt; `None` when nothing may be kept or drafted.
    memory: Option<Arc<DraftMemory>>,
}

impl Scheduler {
    /// `memory` is none where nothing may be kept or drafted.
    pub(crate) fn new(
        config: EngineConfig,
        memory: Option<Arc<DraftMemory>>,
    ) -> Result<Self, EngineError> {
        check(&config)?;
        Ok(Self {
            pool: PagePool::new(config.num_pages, config.page_size),
            running: BTreeMap::new(),
            waiting: Queue::default(),
            share: FairShare::default(),
            is_pressed: false,
            keys: HashMap::new(),
            num_arrivals: 0,
            in_flight: None,
            last_plan_id: 0,
            copies: Vec::new(),
            pins: Vec::new(),
            sampler: Sampler::default(),
            outputs: Vec::new(),
            totals: Load::default(),
            costs: CostCurve::default(),
            tiers: Tiers::default(),
            decisions: Decisions::default(),
            calibration: Calibration::default(),
            trials: Trials::default(),
            chores: Chores::default(),
            memory,
            config,
        })
    }

    /// Takes a request in; one that can never run, or has nothing left to do, ends at once.
    pub(crate) fn submit(&mut self, request: Request, arrived_s: f64, now_s: f64) {
        let handle = request.handle;
        if let Some(message) = request.refusal(&self.config) {
            self.outputs.push(RequestOutput {
                handle,
                finish: Some(Finish {
                    kind: FinishKind::Refused,
                    message: Some(message),
                    stats: RequestStats::default(),
                }),
                ..RequestOutput::default()
            });
            return;
        }
        let key = RequestKey::new(request.priority, self.num_arrivals);
        self.num_arrivals += 1;
        let memory = self.memory.as_deref();
        let sequence = Box::new(Sequence::new(request, &self.config, memory, arrived_s));
        let ending = sequence.ending();
        self.share.enter(&sequence.tenant);
        self.keys.insert(handle, key);
        self.waiting.insert(key, sequence);
        if let Some(kind) = ending {
            self.end(key, End::of(kind), now_s);
        }
    }

    /// Ends a request; unknown handles are ones that already ended.
    pub(crate) fn cancel(&mut self, cancel: &Cancel, now_s: f64) {
        if let Some(&key) = self.keys.get(&cancel.handle) {
            let end = End {
                keep_tokens: cancel.keep_tokens,
                learns: cancel.finished,
                ..End::of(FinishKind::Cancelled)
            };
            self.end(key, end, now_s);
        }
    }

    /// Drops the kept pages of a namespace; nobody finds those of its requests any more.
    pub(crate) fn forget(&mut self, namespace: &str) {
        self.pool.forget(namespace);
        let running = self.running.values_mut().map(|one| &mut **one);
        let held = running.chain(self.waiting.values_mut());
        for sequence in held.filter(|one| *one.namespace == *namespace) {
            sequence.shares = false;
            sequence.num_shared = 0;
        }
    }

    /// Ends every request whose deadline passed.
    pub(crate) fn expire(&mut self, now_s: f64) {
        let running = self.running.iter().map(|(key, one)| (key, &**one));
        let all = running.chain(self.waiting.iter());
        let late = all.filter(|(_, one)| {
            one.request
                .deadline_s
                .is_some_and(|deadline| deadline <= now_s)
        });
        let late: Vec<RequestKey> = late.map(|(&key, _)| key).collect();
        for key in late {
            self.end(key, End::of(FinishKind::Deadline), now_s);
        }
    }

    /// Ends a request between steps.
    fn end(&mut self, key: RequestKey, end: End, now_s: f64) {
        let Some(sequence) = self
            .running
            .remove(&key)
            .or_else(|| self.waiting.remove(&key))
        else {
            return;
        };
        let output = self.release(sequence, end, now_s);
        self.outputs.push(output);
    }

    /// Learns from a request, gives its pages back and sums it up; the caller has taken it out of
    /// `running` or `waiting`.
    pub(crate) fn release(
        &mut self,
        mut sequence: Box<Sequence>,
        end: End,
        now_s: f64,
    ) -> RequestOutput {
        share_filled(&mut self.pool, &mut sequence);
        self.pool.shrink(&mut sequence.pages, 0);
        self.share.leave(&sequence.tenant);
        self.keys.remove(&sequence.request.handle);
        let kept = end.learns.then(|| {
            let kept = end.keep_tokens.map_or(usize::MAX, |kept| kept as usize);
            sequence.num_prompt() + kept.min(sequence.num_output())
        });
        let output = RequestOutput {
            handle: sequence.request.handle,
            finish: Some(sequence.finish(end.kind, end.message, end.keep_tokens, now_s)),
            ..RequestOutput::default()
        };
        self.put_off(Chore::End(sequence, kept));
        output
    }

    /// Ends that no step produced: refusals, cancellations, deadlines.
    pub(crate) fn take_outputs(&mut self) -> Vec<RequestOutput> {
        std::mem::take(&mut self.outputs)
    }

    pub(crate) fn load(&self) -> Load {
        let mut load = Load {
            running: self.running.len(),
            waiting: self.waiting.len(),
            pages_used: self.pool.num_held(),
            pages_cached: self.pool.num_idle(),
            pages_total: self.pool.total(),
            ..self.totals
        };
        self.calibration.report(&mut load);
        self.trials.report(&mut load);
        load
    }
}

/// How a request ends.
#[derive(Debug)]
pub(crate) struct End {
    pub(crate) kind: FinishKind,
    pub(crate) message: Option<String>,
    /// Output tokens that count; all when absent.
    pub(crate) keep_tokens: Option<u32>,
    /// Whether the output is worth learning.
    pub(crate) learns: bool,
}

impl End {
    /// An end without message; output is learnt where the model itself came to the end.
    pub(crate) fn of(kind: FinishKind) -> Self {
        let learns = matches!(
            kind,
            FinishKind::Eos | FinishKind::StopToken | FinishKind::Length | FinishKind::Complete
        );
        Self {
            kind,
            message: None,
            keep_tokens: None,
            learns,
        }
    }

    pub(crate) fn failed(message: &str) -> Self {
        Self {
            message: Some(message.to_owned()),
            ..Self::of(FinishKind::Failed)
        }
    }
}

/// A caller's wish to end a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Cancel {
    pub(crate) handle: u64,
    /// Output tokens that count; all when absent.
    pub(crate) keep_tokens: Option<u32>,
    /// Whether what is kept may be learnt.
    pub(crate) finished: bool,
}
