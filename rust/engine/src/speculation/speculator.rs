//! Everything that decides which drafts a step sends, and learns from what became of them.

use std::sync::Arc;

use spectrie_trie::DraftMemory;
use spectrie_types::SpeculationMode;
use spectrie_types::seed::splitmix;

use super::asking::Asking;
use super::budget::{self, BaseRows, Purchase};
use super::calibration::Calibration;
use super::drafting::Drafting;
use super::gain::{Gain, Outcome, Trial};
use super::step::{self, Candidate, Offer, Question, StepDrafts};
use super::tiers::Tiers;
use super::tree::SentTree;
use crate::clock::Clock;
use crate::config::EngineConfig;
use crate::costs::{CostCurve, ForwardSize};
use crate::output::Load;
use crate::request::Request;

/// Owns the cost curve and all evidence of what drafts gain. It knows numbers of tokens and rows,
/// nothing about pages.
#[derive(Debug)]
pub(crate) struct Speculator {
    config: Arc<EngineConfig>,
    /// What namespaces learned; `None` when nothing may be kept or drafted.
    memory: Option<Arc<DraftMemory>>,
    costs: CostCurve,
    asking: Asking,
    open: OpenStep,
    tiers: Tiers,
    calibration: Calibration,
    gain: Gain,
    totals: Totals,
}

/// Counts since the start, of all modes.
#[derive(Debug, Default)]
struct Totals {
    drafted_tokens: u64,
    accepted_tokens: u64,
    draft_calls: u64,
    draft_seconds: f64,
}

/// What is kept of a step until its results come.
#[derive(Debug, Clone, Copy, Default)]
struct OpenStep {
    step: u64,
    num_asked: usize,
    /// Expected milliseconds of its decoding without drafts.
    plain_ms: f64,
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
        clock: &dyn Clock,
    ) -> StepDrafts {
        let num = candidates.len();
        let sizes = candidates.iter().map(Candidate::size);
        let base = BaseRows {
            decoding: num,
            trees: sizes.sum(),
            chunk,
            left: (self.config.max_batch_rows).saturating_sub(num + chunk.rows),
        };
        let trial = self.trial(step, num);
        let began_s = clock.now_s();
        self.open = OpenStep {
            step,
            num_asked: 0,
            plain_ms: self.costs.milliseconds(base.trees),
        };
        self.asking
            .begin_step(self.costs.milliseconds(base.whole()));
        let mut question = Question {
            step,
            is_plain: trial != Trial::Offered,
            rows_left: base.left,
            max_context: self.config.max_context,
            tier: self.tiers.nodes(num),
            min_value: None,
        };
        if !question.is_plain {
            let chosen = candidates.iter().filter(|one| !one.is_fixed());
            let due = chosen.map(|one| &one.drafting.backoff);
            let due = due.filter(|backoff| backoff.is_due(step) && self.asking.affords(backoff));
            let asking_ms = due.map(|backoff| self.asking.cost_ms(backoff)).sum();
            let most = self.config.max_draft_tokens * num;
            question.min_value = budget::min_value(base, most, asking_ms, &self.costs);
        }
        let mut offers = self.ask(&question, candidates, clock);
        let drafted_s = clock.now_s() - began_s;
        self.totals.draft_seconds += drafted_s;
        let asked_ms = self.asking.step_ms(self.open.num_asked, drafted_s * 1e3);
        let purchase = step::buy(&mut offers, base, asked_ms, limit_ms, &self.costs);
        self.note_earnings(candidates, &offers, purchase);
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

    /// Asks the candidates whose turn it is; what each offers, in their order.
    fn ask(
        &mut self,
        question: &Question,
        candidates: &mut [Candidate<'_>],
        clock: &dyn Clock,
    ) -> Vec<Offer> {
        let mut offers: Vec<Option<Offer>> = candidates.iter().map(|_| None).collect();
        for index in self.asking.order(candidates.len()) {
            let candidate = &mut candidates[index];
            let terms = question.terms(candidate).filter(|_| {
                candidate.is_fixed() || self.asking.affords(&candidate.drafting.backoff)
            });
            let began_s = terms.map(|_| clock.now_s());
            offers[index] = Some(question.offer(index, candidate, terms));
            let Some(began_s) = began_s else { continue };
            clock.drafted(candidate.drafting.visits());
            self.totals.draft_calls += 1;
            self.open.num_asked += 1;
            if !candidate.is_fixed() {
                let drafting_ms = (clock.now_s() - began_s) * 1e3;
                let backoff = &mut candidate.drafting.backoff;
                self.asking.note_drafting(index, backoff, drafting_ms);
            }
        }
        offers.into_iter().flatten().collect()
    }

    /// Gives the requests that were asked the expected saving of their drafts.
    fn note_earnings(
        &mut self,
        candidates: &mut [Candidate<'_>],
        offers: &[Offer],
        purchase: Purchase,
    ) {
        for (candidate, offer) in candidates.iter_mut().zip(offers) {
            if !offer.is_fixed() && candidate.drafting.is_asked {
                let price = offer.num_bought() as f64 * purchase.ms_per_node;
                let saved_ms = offer.promised() * purchase.ms_per_token - price;
                let backoff = &mut candidate.drafting.backoff;
                self.asking.note_savings(backoff, saved_ms);
            }
        }
    }

    /// What step `step` is to show: a fixed, scattered share of steps what plain decoding costs.
    fn trial(&self, step: u64, num_requests: usize) -> Trial {
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
        }));
    }

    /// Writes its figures into `load`.
    pub(crate) fn report(&self, load: &mut Load) {
        load.drafted_tokens = self.totals.drafted_tokens;
        load.accepted_tokens = self.totals.accepted_tokens;
        load.draft_calls = self.totals.draft_calls;
        load.draft_seconds = self.totals.draft_seconds;
        self.calibration.report(load);
        self.gain.report(load);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::Ticking;
    use crate::costs::CostShape;

    fn speculator(times: &[f64; 2], holdout_every: u64) -> Speculator {
        let config = EngineConfig {
            holdout_every,
            ..EngineConfig::new(100, 16, 256, 4)
        };
        let mut speculator = Speculator::new(Arc::new(config), None);
        let costs = CostCurve::new(&[1, 64], times, CostShape::default());
        speculator.set_costs(costs.unwrap());
        speculator
    }

    /// The drafting of a request whose text repeats itself.
    fn drafting(speculator: &Speculator) -> (Drafting, usize) {
        let tokens: Vec<u32> = (0..60).map(|index| index % 5 + 1).collect();
        let request = Request::new(1, tokens.clone(), 100);
        let mut drafting = speculator.drafting(&request, &tokens, tokens.len());
        drafting.feed(&tokens);
        (drafting, tokens.len())
    }

    /// Draft nodes that are bought in a step, and what it says about the gain.
    fn draft(speculator: &mut Speculator, step: u64) -> (usize, Option<Trial>) {
        let (mut drafting, kv_len) = drafting(speculator);
        let mut candidates = [Candidate {
            drafting: &mut drafting,
            kv_len,
            num_left: 50,
            grammar_has_ended: false,
            is_limited: false,
        }];
        let chunk = ForwardSize::default();
        let drafts = speculator.draft(step, &mut candidates, chunk, f64::INFINITY, &Ticking::by(2));
        (drafts.offers[0].num_bought(), drafts.trial)
    }

    #[test]
    fn as_much_is_bought_as_the_costs_justify() {
        let (bought, trial) = draft(&mut speculator(&[10.0, 10.1], 0), 1);
        assert!(bought > 3, "{bought}");
        assert_eq!(trial, Some(Trial::Offered));
        let (bought, _) = draft(&mut speculator(&[10.0, 640.0], 0), 1);
        assert_eq!(bought, 0);
    }

    #[test]
    fn holdout_steps_draft_nothing_and_say_so() {
        let mut speculator = speculator(&[10.0, 10.1], 1);
        assert_eq!(draft(&mut speculator, 1), (0, Some(Trial::Holdout)));
        let mut load = Load::default();
        speculator.report(&mut load);
        assert_eq!(load.draft_calls, 0, "nobody was asked");
    }

    #[test]
    fn drafting_is_timed_by_the_clock_that_is_passed_in() {
        let mut speculator = speculator(&[10.0, 10.1], 0);
        draft(&mut speculator, 1);
        draft(&mut speculator, 2);
        let mut load = Load::default();
        speculator.report(&mut load);
        assert_eq!(load.draft_calls, 2);
        // Each step reads it before and after, and around the one question.
        assert!((load.draft_seconds - 12.0e-3).abs() < 1e-9);
    }

    #[test]
    fn what_became_of_a_tree_and_a_step_is_reported() {
        let mut speculator = speculator(&[10.0, 10.1], 0);
        let (mut drafting, _) = drafting(&speculator);
        let tree = SentTree::new(drafting.draft(3, 0.0), |_| true);
        assert!(tree.num_nodes() > 0);
        speculator.note_tree(&mut drafting, &tree, &[1], Some(1), false);
        speculator.end_step(&EndedStep {
            trial: Some(Trial::Offered),
            num_requests: 1,
            num_rows: 1 + tree.num_nodes(),
            num_tokens: 2,
            milliseconds: 5.0,
            upkeep_ms: 1.0,
            feedback_ms: 0.5,
        });
        let mut load = Load::default();
        speculator.report(&mut load);
        assert_eq!(load.drafted_tokens, tree.num_nodes() as u64);
        assert_eq!((load.accepted_tokens, load.offered_tokens), (1, 2));
        assert_eq!(load.accepted_by_source.iter().sum::<u64>(), 1);
    }
}
