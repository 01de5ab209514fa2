//! Everything that decides which drafts a step sends, and learns from what became of them.

use std::sync::Arc;

use spectrie_trie::DraftMemory;
use spectrie_types::histogram::{DRAFT_SECONDS, TREE_NODES};
use spectrie_types::seed::splitmix;
use spectrie_types::{Histogram, SpeculationMode};

use super::asking::{Asking, Helpers, MeanMs, Sharing};
use super::budget::Purchase;
use super::drafting::Drafting;
use super::gain::{Calibration, Gain, Outcome, Trial};
use super::heads::{Drafters, Probed};
use super::step::{self, Candidate, Offer, Round, StepDrafts};
use super::tiers::Tiers;
use super::tree::SentTree;
use crate::clock::Clock;
use crate::config::EngineConfig;
use crate::costs::{CostCurve, ForwardSize};
use crate::output::Load;
use crate::request::Request;

/// Value of drafts that a drafter is tried for while nobody is asked.
const LEAST_SHOWN: f32 = 0.001;

/// Owns the cost curve and all evidence of what drafts gain. It knows numbers of tokens and rows,
/// nothing about pages.
#[derive(Debug)]
pub(crate) struct Speculator {
    pub(super) config: Arc<EngineConfig>,
    /// What namespaces learned; `None` when nothing may be kept or drafted.
    memory: Option<Arc<DraftMemory>>,
    pub(super) costs: CostCurve,
    pub(super) asking: Asking,
    pub(super) open: OpenStep,
    pub(super) tiers: Tiers,
    calibration: Calibration,
    pub(super) gain: Gain,
    pub(super) totals: Totals,
    /// What a question takes of the thread that answers it.
    pub(super) question: MeanMs,
    pub(super) helpers: Helpers,
    /// Those that the runner calls.
    pub(super) drafters: Drafters,
    pub(super) sharing: Sharing,
}

/// Counts since the start, of all modes.
#[derive(Debug)]
pub(super) struct Totals {
    drafted_tokens: u64,
    accepted_tokens: u64,
    pub(super) draft_calls: u64,
    pub(super) memory_lookups: u64,
    pub(super) memory_hits: u64,
    /// Of all steps, those that asked nobody included.
    drafting_s: f64,
    /// Of steps that asked somebody.
    draft_times: Histogram,
    tree_nodes: Histogram,
}

impl Default for Totals {
    fn default() -> Self {
        Self {
            drafted_tokens: 0,
            accepted_tokens: 0,
            draft_calls: 0,
            memory_lookups: 0,
            memory_hits: 0,
            drafting_s: 0.0,
            draft_times: Histogram::new(DRAFT_SECONDS),
            tree_nodes: Histogram::new(TREE_NODES),
        }
    }
}

impl Totals {
    /// Notes seconds that drafting took of the `open` step.
    pub(super) fn note_drafting(&mut self, open: &mut OpenStep, passed_s: f64) {
        self.drafting_s += passed_s;
        open.drafting_s += passed_s;
    }

    /// Notes the step that ended.
    fn end_step(&mut self, open: &OpenStep) {
        if open.num_asked > 0 {
            self.draft_times.observe(open.drafting_s);
        }
    }
}

/// What is kept of a step until its results come.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct OpenStep {
    pub(super) step: u64,
    pub(super) num_asked: usize,
    /// What drafting took of it between forwards.
    pub(super) drafting_s: f64,
    /// Expected milliseconds of its decoding without drafts.
    pub(super) plain_ms: f64,
    /// Whether a drafter of the runner's was tried on one request while all rest.
    pub(super) has_probed: bool,
}

/// A step as its results end it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct EndedStep {
    pub(crate) trial: Option<Trial>,
    pub(crate) num_requests: usize,
    pub(crate) num_rows: usize,
    /// Tokens that it emitted.
    pub(crate) num_tokens: u64,
    /// From the beginning of its plan to the end of its commit.
    pub(crate) milliseconds: f64,
    /// What of that kept drafters and shared memory up to date.
    pub(crate) upkeep_ms: f64,
    /// What of that taught requests what the step gave.
    pub(crate) feedback_ms: f64,
}

impl Speculator {
    /// `memory` is none where nothing may be kept or drafted.
    pub(crate) fn new(config: Arc<EngineConfig>, memory: Option<Arc<DraftMemory>>) -> Self {
        Self {
            asking: Asking::new(config.drafting_cost_ms),
            config,
            memory,
            costs: CostCurve::default(),
            open: OpenStep::default(),
            tiers: Tiers::default(),
            calibration: Calibration::default(),
            gain: Gain::default(),
            totals: Totals::default(),
            question: MeanMs::default(),
            helpers: Helpers::default(),
            drafters: Drafters::default(),
            sharing: Sharing::default(),
        }
    }

    /// The drafting of a new request of `num_prompt` prompt tokens; `tokens` are prompt ++ output.
    pub(crate) fn drafting(
        &self,
        request: &Request,
        tokens: &[u32],
        num_prompt: usize,
    ) -> Drafting {
        let memory = self.memory.as_deref();
        Drafting::new(request, tokens, num_prompt, &self.config, memory)
    }

    /// Replaces what forwards are thought to cost.
    pub(crate) fn set_costs(&mut self, costs: CostCurve) {
        self.costs = costs;
    }

    /// What forwards cost.
    pub(crate) fn costs(&self) -> &CostCurve {
        &self.costs
    }

    /// Learns what a forward of trees alone took.
    pub(crate) fn observe(&mut self, size: ForwardSize, milliseconds: f64) {
        self.costs.observe(size, milliseconds);
    }

    /// The drafts that the decoding requests send in step `step`, beside a chunk of the size `chunk`;
    /// those of limited ones lengthen it to `limit_ms` at most.
    pub(crate) fn draft(
        &mut self,
        step: u64,
        candidates: &mut [Candidate<'_>],
        chunk: ForwardSize,
        limit_ms: f64,
        clock: &Arc<dyn Clock>,
    ) -> StepDrafts {
        let round = self.ask_all(step, candidates, chunk, None, clock);
        self.buy(round, candidates, &[], limit_ms)
    }

    /// What the decoding requests offer in step `step`; those that are `probed` even while they back off or all rest.
    pub(super) fn ask_all(
        &mut self,
        step: u64,
        candidates: &mut [Candidate<'_>],
        chunk: ForwardSize,
        probed: Option<Probed>,
        clock: &Arc<dyn Clock>,
    ) -> Round {
        for candidate in &mut *candidates {
            // Answers are those of one step.
            candidate.drafting.forget_answers();
        }
        let base = self.base_rows(candidates, chunk);
        let trial = self.trial(step, candidates.len());
        let began_s = clock.now_s();
        self.open = OpenStep {
            step,
            plain_ms: self.costs.milliseconds(base.trees),
            ..OpenStep::default()
        };
        self.asking
            .begin_step(self.costs.milliseconds(base.whole()));
        let mut question = self.question(step, trial, candidates, base, &self.asking);
        question.probed = probed.filter(|_| trial != Trial::Holdout);
        if question.probed.is_some() && trial == Trial::Resting {
            let value = self.min_value(step, candidates, base, &self.asking);
            // Nothing is sent: even an answer that is thought little of shows whether it is right.
            question.min_value = value.map(|value| value.min(LEAST_SHOWN));
        }
        let offers = self.ask(&question, candidates, clock);
        let drafted_s = clock.now_s() - began_s;
        self.totals.note_drafting(&mut self.open, drafted_s);
        let asked_ms = self.asking.step_ms(self.open.num_asked, drafted_s * 1e3);
        Round {
            base,
            trial,
            question,
            offers,
            asked_ms,
        }
    }

    /// The drafts of a round that are sent; for each candidate, `charged_ms` is what asking took beside the
    /// round's questions, none of it if that is empty.
    pub(super) fn buy(
        &mut self,
        round: Round,
        candidates: &mut [Candidate<'_>],
        charged_ms: &[f64],
        limit_ms: f64,
    ) -> StepDrafts {
        let Round {
            base,
            trial,
            mut offers,
            asked_ms,
            ..
        } = round;
        let purchase = step::buy(&mut offers, base, asked_ms, limit_ms, &self.costs);
        if trial == Trial::Offered {
            self.note_earnings(candidates, &offers, charged_ms, purchase);
        }
        // Drafts of fixed modes are sent in every step, so that none is plain beside them.
        let is_trial = offers.iter().any(|offer| !offer.is_fixed())
            && offers
                .iter()
                .all(|one| !one.is_fixed() || one.num_bought() == 0);
        StepDrafts {
            trial: is_trial.then_some(trial),
            offers,
        }
    }

    /// Gives the requests that were asked the expected saving of their drafts.
    fn note_earnings(
        &mut self,
        candidates: &mut [Candidate<'_>],
        offers: &[Offer],
        charged_ms: &[f64],
        purchase: Purchase,
    ) {
        for (index, (candidate, offer)) in candidates.iter_mut().zip(offers).enumerate() {
            if !offer.is_fixed() && candidate.drafting.is_asked {
                let price = offer.num_bought() as f64 * purchase.ms_per_node;
                let charged_ms = charged_ms.get(index).unwrap_or(&0.0);
                let saved_ms = offer.promised() * purchase.ms_per_token - price - charged_ms;
                let backoff = &mut candidate.drafting.backoff;
                self.asking.note_savings(backoff, saved_ms);
            }
        }
    }

    /// One step in so many is held out from drafts; 0 = none.
    pub(super) fn holdout_every(&self) -> u64 {
        self.config.holdout_every
    }

    /// What step `step` is to show: a fixed, scattered share of steps what plain decoding costs.
    pub(super) fn trial(&self, step: u64, num_requests: usize) -> Trial {
        let every = self.config.holdout_every;
        if every > 0 && splitmix(step).is_multiple_of(every) {
            Trial::Holdout
        } else if self.asking.is_measured() && !self.gain.may_ask(step, num_requests) {
            Trial::Resting
        } else {
            Trial::Offered
        }
    }

    /// Takes what became of a request's tree: `path` are its accepted rows, `first` the first token
    /// it emitted. It may have `ended` with this step.
    pub(crate) fn note_tree(
        &mut self,
        drafting: &mut Drafting,
        tree: &SentTree,
        path: &[usize],
        first: Option<u32>,
        ended: bool,
    ) {
        self.totals.drafted_tokens += tree.num_nodes() as u64;
        if tree.num_nodes() > 0 {
            self.totals.tree_nodes.observe(tree.num_nodes() as f64);
        }
        self.totals.accepted_tokens += path.len() as u64;
        match drafting.mode() {
            SpeculationMode::Auto => {
                self.calibration.note_tree(tree, path, ended);
                if !ended {
                    drafting.backoff.note_tree(tree.promised(), path.len());
                }
                if let Some(token) = tree.likeliest_unsent() {
                    self.gain.note_unsent(first == Some(token));
                }
            }
            SpeculationMode::Tiers => self.tiers.note(path.len()),
            _ => {}
        }
    }

    /// Takes what a step emitted, and its time, for evidence of what drafts gain.
    pub(crate) fn end_step(&mut self, ended: &EndedStep) {
        self.tiers.end_step();
        self.totals.end_step(&self.open);
        let is_offered = ended.trial == Some(Trial::Offered);
        (self.drafters).end_step(
            is_offered,
            ended.num_requests,
            ended.num_tokens,
            ended.milliseconds,
        );
        let Some(trial) = ended.trial else {
            self.gain.end_step(None);
            return;
        };
        // Others learn less than those that were asked.
        if 2 * self.open.num_asked >= ended.num_requests.max(1) {
            let learning_ms = ended.feedback_ms / ended.num_requests.max(1) as f64;
            self.asking.note_learning(learning_ms);
        }
        let expected_ms = |rows| self.costs.milliseconds(ForwardSize::of_tree(0, rows, 1));
        let more = expected_ms(2 * ended.num_requests) / expected_ms(ended.num_requests);
        self.gain.end_step(Some(&Outcome {
            step: self.open.step,
            trial,
            num_requests: ended.num_requests,
            num_drafts: ended.num_rows - ended.num_requests,
            num_tokens: ended.num_tokens,
            milliseconds: ended.milliseconds,
            upkeep_ms: ended.upkeep_ms,
            plain_ms: self.open.plain_ms,
            break_even: more - 1.0,
            has_probed: self.open.has_probed,
        }));
    }

    /// Writes its figures into `load`.
    pub(crate) fn report(&self, load: &mut Load) {
        load.drafted_tokens = self.totals.drafted_tokens;
        load.accepted_tokens = self.totals.accepted_tokens;
        load.draft_calls = self.totals.draft_calls;
        load.draft_seconds = self.totals.drafting_s;
        load.draft_times = self.totals.draft_times;
        load.tree_nodes = self.totals.tree_nodes;
        load.memory_lookups = self.totals.memory_lookups;
        load.memory_hits = self.totals.memory_hits;
        self.calibration.report(load);
        self.gain.report(load);
        self.drafters.report(load);
    }
}
