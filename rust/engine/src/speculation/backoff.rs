//! How much a request's drafts have earned lately, and so how often it is asked for some.

/// Milliseconds that asking a request for drafts takes, used or not: what 16 nodes
/// take on one core of a server.
pub(crate) const DRAFTING_MS: f64 = 0.05;

/// Share of a step in the running mean of what drafts earn.
const EARNING_RATE: f64 = 1.0 / 8.0;

/// What a new request is thought to earn: enough for some fifteen steps without a purchase.
const FIRST_EARNINGS_MS: f64 = 8.0 * DRAFTING_MS;

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
    /// Running mean, by question, of the milliseconds that bought drafts save.
    earned_ms: f64,
    /// Questions since drafts last earned what asking costs.
    vain: u32,
    promised: f64,
    kept: f64,
}

impl Default for Backoff {
    fn default() -> Self {
        Self {
            earned_ms: FIRST_EARNINGS_MS,
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

    /// Notes that the request was asked, and that what was bought of its drafts should save so
    /// much; 0 when nothing was.
    pub(crate) fn note_earnings(&mut self, saved_ms: f64) {
        self.earned_ms += EARNING_RATE * (saved_ms - self.earned_ms);
        self.vain = if self.earned_ms < DRAFTING_MS {
            self.vain.saturating_add(1)
        } else {
            0
        };
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

    /// Steps of `steps` in which a request is asked that never earns anything.
    fn asked(backoff: &mut Backoff, steps: std::ops::Range<u64>) -> Vec<u64> {
        let due = steps.filter(|&step| {
            let due = backoff.is_due(step);
            if due {
                backoff.note_earnings(0.0);
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
        backoff.note_earnings(3.0);
        assert!(backoff.is_due(1001));
    }

    #[test]
    fn drafts_that_save_less_than_asking_costs_put_a_request_to_sleep() {
        let mut backoff = Backoff::default();
        (0..100).for_each(|_| backoff.note_earnings(0.8 * DRAFTING_MS));
        assert!(!backoff.is_due(1));
        let mut backoff = Backoff::default();
        (0..100).for_each(|_| backoff.note_earnings(1.2 * DRAFTING_MS));
        assert!(backoff.is_due(1));
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
