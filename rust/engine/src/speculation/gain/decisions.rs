//! How often it was right to draft, or not to.
//!
//! The evidence is kept by the number of decoding requests and fades, so that it is of now.
//!
//! - A step with drafts was right while such steps emit at least as many tokens a millisecond as
//!   those without: holdout steps and those whose drafts were not bought. Without drafts every
//!   request emits one token on any text, so the two may be compared.
//! - A step that bought none of the drafts it was offered was right while the likeliest first token
//!   of such offers comes true too seldom to pay for its row. The model says whether it does
//!   although it was not sent.

use super::arm::Arm;
use super::trial::Trial;

/// What is left of the evidence after one more step of its kind.
const DECAY: f64 = 0.98;

/// Least evidence that a judgement rests on, in steps.
const LEAST_STEPS: f64 = 2.5;

/// Numbers of requests are distinguished by powers of two up to 64.
pub(super) const NUM_SIZES: usize = 7;

/// Which of them a number of requests is.
pub(super) fn size_of(num_requests: usize) -> usize {
    let size = num_requests.max(1).ilog2() as usize;
    size.min(NUM_SIZES - 1)
}

/// A step of decoding alone, as it turned out.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Step {
    pub(crate) trial: Trial,
    pub(crate) num_requests: usize,
    pub(crate) num_drafts: usize,
    pub(crate) num_tokens: u64,
    pub(crate) milliseconds: f64,
    /// How often the likeliest unsent token must come true to pay for its row.
    pub(crate) break_even: f64,
}

/// The evidence, and what is known of the open step.
#[derive(Debug, Default)]
pub(crate) struct Decisions {
    sizes: [Evidence; NUM_SIZES],
    /// Requests of the open step whose offer was not bought, and likeliest first tokens of theirs
    /// that the model said.
    num_unsent: usize,
    num_hits: usize,
}

#[derive(Debug, Clone, Copy, Default)]
struct Evidence {
    drafted: Arm,
    plain: Arm,
    unsent: f64,
    hits: f64,
    unsent_steps: f64,
}

impl Decisions {
    /// Notes an offer of the open step of which nothing was sent, and whether the model said its
    /// likeliest first token.
    pub(crate) fn note_unsent(&mut self, is_hit: bool) {
        self.num_unsent += 1;
        self.num_hits += usize::from(is_hit);
    }

    /// Ends the open step. Whether its choice was right; `None` where it made none, or nothing is
    /// known to compare it with.
    pub(crate) fn end_step(&mut self, step: Option<&Step>) -> Option<bool> {
        let unsent = std::mem::take(&mut self.num_unsent) as f64;
        let hits = std::mem::take(&mut self.num_hits) as f64;
        let step = step?;
        let evidence = &mut self.sizes[size_of(step.num_requests)];
        let arm = if step.num_drafts == 0 {
            &mut evidence.plain
        } else {
            &mut evidence.drafted
        };
        arm.fade(DECAY);
        arm.note(step.num_tokens as f64, step.milliseconds);
        if step.trial == Trial::Holdout {
            return None;
        }
        if step.num_drafts > 0 {
            let known = evidence.plain.steps().min(evidence.drafted.steps()) >= LEAST_STEPS;
            return known.then(|| evidence.drafted.rate() >= evidence.plain.rate());
        }
        if unsent == 0.0 {
            return None;
        }
        evidence.unsent_steps = DECAY * evidence.unsent_steps + 1.0;
        evidence.unsent = DECAY * evidence.unsent + unsent;
        evidence.hits = DECAY * evidence.hits + hits;
        let known = evidence.unsent_steps >= LEAST_STEPS;
        known.then_some(evidence.hits <= step.break_even * evidence.unsent)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const STEP: Step = Step {
        trial: Trial::Offered,
        num_requests: 4,
        num_drafts: 0,
        num_tokens: 4,
        milliseconds: 10.0,
        break_even: 0.3,
    };

    fn drafted(num_tokens: u64) -> Step {
        Step {
            num_drafts: 8,
            num_tokens,
            milliseconds: 12.0,
            ..STEP
        }
    }

    /// Judgements of `count` steps: none, wrong, right.
    fn judge(decisions: &mut Decisions, step: &Step, unsent: &[bool], count: usize) -> [usize; 3] {
        let mut judged = [0; 3];
        for _ in 0..count {
            for &hit in unsent {
                decisions.note_unsent(hit);
            }
            let index = decisions
                .end_step(Some(step))
                .map_or(0, |right| 1 + usize::from(right));
            judged[index] += 1;
        }
        judged
    }

    fn holdout() -> Step {
        Step {
            trial: Trial::Holdout,
            ..STEP
        }
    }

    #[test]
    fn drafts_are_right_while_they_beat_steps_without() {
        let mut decisions = Decisions::default();
        assert_eq!(judge(&mut decisions, &drafted(6), &[], 5), [5, 0, 0]);
        assert_eq!(judge(&mut decisions, &holdout(), &[], 5), [5, 0, 0]);
        // 6 tokens in 12 ms against 4 in 10.
        assert_eq!(judge(&mut decisions, &drafted(6), &[], 10), [0, 0, 10]);
        let [_, wrong, right] = judge(&mut decisions, &drafted(4), &[], 300);
        assert!(wrong > 200 && right > 0, "{wrong} {right}");
    }

    #[test]
    fn sizes_of_batches_are_judged_apart() {
        let mut decisions = Decisions::default();
        judge(&mut decisions, &holdout(), &[], 5);
        let single = Step {
            num_requests: 1,
            ..drafted(6)
        };
        assert_eq!(judge(&mut decisions, &single, &[], 10), [10, 0, 0]);
        let seven = Step {
            num_requests: 7,
            ..drafted(10)
        };
        assert_eq!(judge(&mut decisions, &seven, &[], 10), [2, 0, 8]);
    }

    #[test]
    fn no_drafts_are_right_while_the_likeliest_would_not_have_paid() {
        let mut decisions = Decisions::default();
        assert_eq!(judge(&mut decisions, &STEP, &[], 10), [10, 0, 0]);
        let seldom = [true, false, false, false];
        assert_eq!(judge(&mut decisions, &STEP, &seldom, 10), [2, 0, 8]);
        let often = [true, true, true, false];
        let [_, wrong, _] = judge(&mut decisions, &STEP, &often, 100);
        assert!(wrong > 90, "{wrong}");
        assert_eq!(decisions.end_step(None), None);
    }
}
