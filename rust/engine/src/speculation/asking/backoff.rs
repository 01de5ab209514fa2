//! How much a request's drafts have earned lately, and so how often it is asked for some.

use super::mean_ms::MeanMs;

/// Share of a step in the running mean of what drafts earn.
const EARNING_RATE: f64 = 1.0 / 8.0;

/// What a new request is thought to earn, in costs of a question: enough for some fifteen steps
/// without a purchase.
const ADVANCE: f64 = 8.0;

/// Doublings of the time between two questions to a request whose drafts earn nothing: 16 steps at
/// the longest.
const MAX_DOUBLINGS: u32 = 4;

/// What is left of the record of promises after one more step with drafts.
const RECORD_DECAY: f64 = 0.98;

/// Promised tokens, all kept, that a record begins with.
const FIRST_PROMISES: f64 = 3.0;

/// What one request's drafts earn, and how well they keep what they promise.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Backoff {
    /// What asking it takes.
    pub(crate) drafting: MeanMs,
    /// Running mean, by question, of the milliseconds that bought drafts save.
    earned_ms: f64,
    /// What it is thought to earn beside that, in costs of a question; less with each.
    advance: f64,
    /// Questions since drafts last earned what asking costs.
    vain: u32,
    promised: f64,
    kept: f64,
}

impl Default for Backoff {
    fn default() -> Self {
        Self {
            drafting: MeanMs::default(),
            earned_ms: 0.0,
            advance: ADVANCE,
            vain: 0,
            promised: 0.0,
            kept: 0.0,
        }
    }
}

impl Backoff {
    /// Whether the request is asked for drafts in step `step`. One whose drafts earn nothing is
    /// asked less and less, yet never forgotten; all such requests in the same steps.
    pub(crate) fn is_due(&self, step: u64) -> bool {
        step.is_multiple_of(1 << self.vain.min(MAX_DOUBLINGS))
    }

    /// Notes that the request was asked, which costs `cost_ms`, and that what was bought of its
    /// drafts should save so much; 0 when nothing was.
    pub(crate) fn note_earnings(&mut self, saved_ms: f64, cost_ms: f64) {
        self.earned_ms += EARNING_RATE * (saved_ms - self.earned_ms);
        self.advance *= 1.0 - EARNING_RATE;
        self.vain = if self.earned_ms + self.advance * cost_ms < cost_ms {
            self.vain.saturating_add(1)
        } else {
            0
        };
    }

    /// Has the request asked in the next steps, as if it were new: a drafter found that it can be drafted for.
    pub(crate) fn wake(&mut self) {
        (self.advance, self.vain) = (ADVANCE, 0);
    }

    /// Whether its drafts have lately saved what asking for them costs.
    pub(crate) fn has_earned(&self, cost_ms: f64) -> bool {
        self.earned_ms > 0.0 && self.earned_ms >= cost_ms
    }

    /// Notes how many tokens drafts promised and how many became output.
    pub(crate) fn note_tree(&mut self, promised: f64, kept: usize) {
        self.promised = RECORD_DECAY * self.promised + promised;
        self.kept = RECORD_DECAY * self.kept + kept as f64;
    }

    /// What a promise is worth, at most 1: less only where fewer came true than chance explains.
    pub(crate) fn trust(&self) -> f32 {
        // One standard deviation of a sum of rare events is the root of its mean.
        let kept = self.kept + FIRST_PROMISES + self.promised.sqrt();
        (kept / (self.promised + FIRST_PROMISES)).min(1.0) as f32
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const COST_MS: f64 = 0.05;

    /// Steps of `steps` in which a request is asked that never earns anything.
    fn asked(backoff: &mut Backoff, steps: std::ops::Range<u64>) -> Vec<u64> {
        let due = steps.filter(|&step| {
            let due = backoff.is_due(step);
            if due {
                backoff.note_earnings(0.0, COST_MS);
            }
            due
        });
        due.collect()
    }

    #[test]
    fn a_request_that_earns_nothing_is_asked_less_and_less() {
        let mut backoff = Backoff::default();
        let steps = asked(&mut backoff, 1..1000);
        assert!(steps[..14].iter().copied().eq(1..15));
        assert!(steps.len() < 90, "{} questions", steps.len());
        assert!(steps[40..].windows(2).all(|pair| pair[1] - pair[0] == 16));
    }

    #[test]
    fn one_good_draft_wakes_a_request() {
        let mut backoff = Backoff::default();
        asked(&mut backoff, 1..1000);
        assert!(!backoff.is_due(1001));
        backoff.note_earnings(3.0, COST_MS);
        assert!(backoff.is_due(1001));
    }

    #[test]
    fn drafts_that_save_less_than_asking_costs_put_a_request_to_sleep() {
        let mut backoff = Backoff::default();
        (0..100).for_each(|_| backoff.note_earnings(0.8 * COST_MS, COST_MS));
        assert!(!backoff.is_due(1));
        let mut backoff = Backoff::default();
        (0..100).for_each(|_| backoff.note_earnings(1.2 * COST_MS, COST_MS));
        assert!(backoff.is_due(1));
    }

    #[test]
    fn dear_questions_put_a_request_to_sleep_that_cheap_ones_would_not() {
        let mut backoff = Backoff::default();
        assert!(!backoff.has_earned(0.0));
        (0..100).for_each(|_| backoff.note_earnings(1.0, 4.0));
        assert!(!backoff.is_due(1) && !backoff.has_earned(4.0));
        backoff.note_earnings(1.0, 0.5);
        assert!(backoff.is_due(1) && backoff.has_earned(0.5));
    }

    #[test]
    fn broken_promises_count_less_and_kept_ones_in_full() {
        let mut backoff = Backoff::default();
        assert!((backoff.trust() - 1.0).abs() < 1e-6);
        (0..200).for_each(|step| backoff.note_tree(1.0, usize::from(step % 5 == 0)));
        assert!(backoff.trust() < 0.45, "{}", backoff.trust());
        (0..200).for_each(|_| backoff.note_tree(1.0, 1));
        assert!((backoff.trust() - 1.0).abs() < 1e-6);
    }

    #[test]
    fn promises_kept_but_for_chance_count_in_full() {
        let mut backoff = Backoff::default();
        for step in 0..200 {
            backoff.note_tree(0.5, usize::from(step % 2 == 0));
            assert!((backoff.trust() - 1.0).abs() < 1e-6, "after {step}");
        }
    }
}
