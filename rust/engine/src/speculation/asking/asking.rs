//! What asking requests for drafts costs, and how much of it the engine can afford.
//!
//! Asking takes time whether or not drafts come of it, and more in a large memory. So it is
//! timed, and requests whose drafts have not yet saved what asking costs are asked on an
//! allowance: a small share of the time of steps, and what drafts of other requests save.

use super::backoff::Backoff;
use super::mean_ms::MeanMs;

/// Share of the time of steps that may go into questions that have not paid so far.
const SHARE: f64 = 0.005;

/// Steps whose time may go into such questions at once.
const MAX_STEPS: f64 = 2.0;

/// Steps after which such a question is allowed again, however long one took.
const MAX_DEBT_STEPS: f64 = 4096.0;

/// What asking costs, and what may still be spent on it.
#[derive(Debug, Clone)]
pub(crate) struct Asking {
    /// What asking counts as by configuration; `None` where it is measured.
    fixed_ms: Option<f64>,
    /// Over all requests; each has a mean of its own.
    drafting: MeanMs,
    /// What learning from a step costs a request on the thread that runs steps.
    learning: MeanMs,
    /// What may be spent on questions that have not paid so far; below 0 after one that took more
    /// than there was. `None` before the first step.
    allowance_ms: Option<f64>,
    /// The candidate that is asked first in the next step.
    first: usize,
}

impl Asking {
    /// `fixed_ms` is what asking a request counts as; `None` measures it.
    pub(crate) fn new(fixed_ms: Option<f64>) -> Self {
        Self {
            fixed_ms,
            drafting: MeanMs::default(),
            learning: MeanMs::default(),
            allowance_ms: None,
            first: 0,
        }
    }

    /// Whether the cost is measured.
    pub(crate) fn is_measured(&self) -> bool {
        self.fixed_ms.is_none()
    }

    /// Begins a step whose forward takes `step_ms` without drafts.
    pub(crate) fn begin_step(&mut self, step_ms: f64) {
        let most = MAX_STEPS * step_ms;
        let debt = SHARE * MAX_DEBT_STEPS * step_ms;
        let left = self.allowance_ms.unwrap_or(most) + SHARE * step_ms;
        self.allowance_ms = Some(left.clamp(-debt, most));
    }

    /// The order in which `num` candidates are asked: where the allowance ends, others are asked
    /// the next time.
    pub(crate) fn order(&self, num: usize) -> impl Iterator<Item = usize> + use<> {
        let first = self.first.checked_rem(num).unwrap_or(0);
        (first..num).chain(0..first)
    }

    /// Expected milliseconds of asking a request, learning from the step included.
    pub(crate) fn cost_ms(&self, backoff: &Backoff) -> f64 {
        self.fixed_ms.unwrap_or_else(|| {
            let drafting = backoff.drafting.get().or(self.drafting.get());
            drafting.unwrap_or(0.0) + self.learning.get().unwrap_or(0.0)
        })
    }

    /// What asking `num_asked` requests counts as in a step in which it took `drafting_ms`.
    pub(crate) fn step_ms(&self, num_asked: usize, drafting_ms: f64) -> f64 {
        let fixed_ms = self.fixed_ms.map(|each| each * num_asked as f64);
        fixed_ms.unwrap_or(drafting_ms)
    }

    /// Whether a request may be asked: its drafts have paid lately, or the allowance is not used up.
    pub(crate) fn affords(&self, backoff: &Backoff) -> bool {
        self.affords_beside(backoff, 0.0)
    }

    /// The same beside questions that are expected to take `reserved_ms` of the allowance.
    pub(crate) fn affords_beside(&self, backoff: &Backoff, reserved_ms: f64) -> bool {
        self.fixed_ms.is_some()
            || backoff.has_earned(self.cost_ms(backoff))
            || self.allowance_ms.is_none_or(|left| left > reserved_ms)
    }

    /// What a question is expected to take of the allowance.
    pub(crate) fn reserved_ms(&self, backoff: &Backoff) -> f64 {
        let cost_ms = self.cost_ms(backoff);
        if backoff.has_earned(cost_ms) {
            0.0
        } else {
            cost_ms
        }
    }

    /// Notes that the candidate at `index` was asked, which took so long; its mean is in `backoff`.
    pub(crate) fn note_drafting(&mut self, index: usize, backoff: &mut Backoff, drafting_ms: f64) {
        if !backoff.has_earned(self.cost_ms(backoff)) {
            self.first = index + 1;
            self.spend(drafting_ms + self.learning.get().unwrap_or(0.0));
        }
        self.drafting.note(drafting_ms);
        backoff.drafting.note(drafting_ms);
    }

    /// Notes what the drafts of a request that was asked should save.
    pub(crate) fn note_savings(&mut self, backoff: &mut Backoff, saved_ms: f64) {
        let cost_ms = self.cost_ms(backoff);
        if backoff.has_earned(cost_ms) {
            // It pays from what it has earned, and only what is left pays for others.
            self.spend(-(saved_ms - cost_ms).max(0.0));
        } else {
            self.spend(-saved_ms);
        }
        backoff.note_earnings(saved_ms, cost_ms);
    }

    /// Notes what it took one request to learn from a step in which it was asked.
    pub(crate) fn note_learning(&mut self, learning_ms: f64) {
        self.learning.note(learning_ms);
    }

    fn spend(&mut self, milliseconds: f64) {
        self.allowance_ms = self.allowance_ms.map(|left| left - milliseconds);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Questions of `ms` each that never pay, in `steps` steps of 10 ms with `num` requests.
    fn questions(asking: &mut Asking, num: usize, ms: f64, steps: usize) -> usize {
        let mut asked = 0;
        for _ in 0..steps {
            asking.begin_step(10.0);
            for index in asking.order(num) {
                let mut backoff = Backoff::default();
                if asking.affords(&backoff) {
                    asking.note_drafting(index, &mut backoff, ms);
                    asked += 1;
                }
            }
        }
        asked
    }

    #[test]
    fn questions_that_do_not_pay_take_a_small_share_of_the_time() {
        for (num, ms) in [(1, 4.0), (8, 4.0), (32, 4.0), (32, 0.5), (1, 25.0)] {
            let asked = questions(&mut Asking::new(None), num, ms, 4000) as f64;
            // Two steps' time at once, half a percent of all of it, and one question too many.
            assert!(
                asked * ms <= 20.0 + 200.0 + ms + 1e-6,
                "{num} x {ms}: {asked}"
            );
            assert!(asked * ms >= 190.0, "{num} x {ms}: {asked}");
        }
    }

    #[test]
    fn all_requests_have_their_turn() {
        let mut asking = Asking::new(None);
        let mut asked = [0; 8];
        for _ in 0..4000 {
            asking.begin_step(10.0);
            for index in asking.order(asked.len()) {
                let mut backoff = Backoff::default();
                if asking.affords(&backoff) {
                    asking.note_drafting(index, &mut backoff, 1.0);
                    asked[index] += 1;
                }
            }
        }
        let (least, most) = (asked.iter().min().unwrap(), asked.iter().max().unwrap());
        assert!(*least > 0 && most - least <= 1, "{asked:?}");
    }

    #[test]
    fn one_endless_question_is_followed_by_another_some_day() {
        let mut asking = Asking::new(None);
        questions(&mut asking, 1, 1e6, 1);
        assert_eq!(
            questions(&mut asking, 1, 0.01, MAX_DEBT_STEPS as usize - 8),
            0
        );
        assert!(questions(&mut asking, 1, 0.01, 16) > 0);
    }

    #[test]
    fn what_drafts_save_pays_for_more_questions() {
        let mut asking = Asking::new(None);
        questions(&mut asking, 1, 30.0, 1);
        assert!(!asking.affords(&Backoff::default()));
        asking.note_savings(&mut Backoff::default(), 5.0);
        assert!(!asking.affords(&Backoff::default()));
        asking.note_savings(&mut Backoff::default(), 10.0);
        assert!(asking.affords(&Backoff::default()));
    }

    #[test]
    fn a_request_whose_drafts_paid_leaves_the_allowance_of_others_alone() {
        let (mut asking, mut paid) = (Asking::new(None), Backoff::default());
        asking.begin_step(10.0);
        asking.note_drafting(0, &mut paid, 2.0);
        asking.note_savings(&mut paid, 200.0);
        for _ in 0..8 {
            asking.note_drafting(0, &mut paid, 2.0);
            asking.note_savings(&mut paid, 0.0);
        }
        assert!(asking.affords(&paid) && asking.affords(&Backoff::default()));
    }

    #[test]
    fn a_fixed_cost_is_that_cost_and_always_affordable() {
        let mut asking = Asking::new(Some(0.25));
        questions(&mut asking, 1, 1e6, 1);
        asking.note_learning(1e6);
        let backoff = Backoff::default();
        assert!(asking.affords(&backoff) && !asking.is_measured());
        assert!((asking.cost_ms(&backoff) - 0.25).abs() < 1e-12);
        assert!((asking.step_ms(4, 1e6) - 1.0).abs() < 1e-12);
    }
}
