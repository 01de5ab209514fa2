//! What a step asks of its requests, and steps in which no request would be asked for drafts: nothing is
//! lost where those begin early.

use super::asking::Asking;
use super::budget::{self, BaseRows};
use super::gain::Trial;
use super::speculator::{OpenStep, Speculator};
use super::step::{Candidate, Question};
use crate::costs::ForwardSize;

/// A step without drafts, before it begins.
#[derive(Debug, Clone, Copy)]
pub(crate) struct PlainStep {
    open: OpenStep,
    /// What the step says about the gain of drafts.
    pub(crate) trial: Option<Trial>,
    /// Expected milliseconds of its forward.
    pub(crate) milliseconds: f64,
}

impl Speculator {
    /// Step `step` of decoding requests beside a `chunk` of prompts, if [`Self::draft`] would ask no one for
    /// drafts in it, as far as is known before the results of the step before. They are told that they are
    /// not asked.
    pub(crate) fn plain_step(
        &self,
        step: u64,
        candidates: &mut [Candidate<'_>],
        chunk: ForwardSize,
    ) -> Option<PlainStep> {
        let base = self.base_rows(candidates, chunk);
        let trial = self.trial(step, candidates.len());
        let mut asking = self.asking.clone();
        asking.begin_step(self.costs.milliseconds(base.whole()));
        let question = self.question(step, trial, candidates, base, &asking);
        let is_asked = |(index, one): (usize, &Candidate<'_>)| {
            let is_due = question.terms(index, one).is_some();
            is_due && (one.is_fixed() || asking.affords(&one.drafting.backoff))
        };
        if candidates.iter().enumerate().any(is_asked) {
            return None;
        }
        for one in candidates.iter_mut() {
            one.drafting.is_asked = false;
        }
        let is_trial = candidates.iter().any(|one| !one.is_fixed());
        Some(PlainStep {
            open: OpenStep {
                step,
                plain_ms: self.costs.milliseconds(base.trees),
                ..OpenStep::default()
            },
            // One that computes prompts says nothing.
            trial: (is_trial && chunk.rows == 0).then_some(trial),
            milliseconds: self.costs.milliseconds(base.whole()),
        })
    }

    /// The rows of a step without drafts.
    pub(super) fn base_rows(&self, candidates: &[Candidate<'_>], chunk: ForwardSize) -> BaseRows {
        let num = candidates.len();
        let sizes = candidates.iter().map(Candidate::size);
        BaseRows {
            decoding: num,
            trees: sizes.sum(),
            chunk,
            left: (self.config.max_batch_rows).saturating_sub(num + chunk.rows),
        }
    }

    /// What the candidates are asked for, where `asking` has begun the step.
    pub(super) fn question(
        &self,
        step: u64,
        trial: Trial,
        candidates: &[Candidate<'_>],
        base: BaseRows,
        asking: &Asking,
    ) -> Question {
        let is_plain = trial != Trial::Offered;
        Question {
            step,
            is_plain,
            probed: None,
            rows_left: base.left,
            max_context: self.config.max_context,
            tier: self.tiers.nodes(candidates.len()),
            min_value: if is_plain {
                None
            } else {
                self.min_value(step, candidates, base, asking)
            },
        }
    }

    /// The least value worth offering; `None` when not even certain drafts would pay.
    pub(super) fn min_value(
        &self,
        step: u64,
        candidates: &[Candidate<'_>],
        base: BaseRows,
        asking: &Asking,
    ) -> Option<f32> {
        let chosen = candidates.iter().filter(|one| !one.is_fixed());
        let due = chosen.map(|one| &one.drafting.backoff);
        let due = due.filter(|backoff| backoff.is_due(step) && asking.affords(backoff));
        let asking_ms = due.map(|backoff| asking.cost_ms(backoff)).sum();
        let most = self.config.max_draft_tokens * candidates.len();
        budget::min_value(base, most, asking_ms, &self.costs)
    }

    /// Begins a step without drafts.
    pub(crate) fn begin_plain(&mut self, step: PlainStep) {
        self.asking.begin_step(step.open.plain_ms);
        self.open = step.open;
    }
}
