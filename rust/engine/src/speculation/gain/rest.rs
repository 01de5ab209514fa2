//! When the engine stops asking anybody for drafts, because by the clock steps that may draft
//! emit less than plain ones, and when it begins again.
//!
//! The evidence is kept by the number of decoding requests and fades. Steps count relative to
//! what was expected of plain decoding in their place: tokens by the number of requests,
//! milliseconds by the cost curve. A machine that becomes slower is then no evidence.

use super::arm::Arm;
use super::decisions::{NUM_SIZES, size_of};

/// What is left of the evidence after one more step of its kind.
const DECAY: f64 = 0.997;

/// Least evidence of each kind that a rest is decided on, in steps.
const LEAST_OFFERED: f64 = 64.0;
const LEAST_PLAIN: f64 = 5.0;

/// Drafts lose if the upper end of their gain is below this: smaller losses are those of asking,
/// which has a limit of its own.
const LOSS: f64 = 0.99;

/// Steps of a probe, one after the other.
const PROBE_STEPS: u32 = 4;

/// Steps from the beginning of a rest to its first probe; then from probe to probe, twice as many
/// each time that plain steps win, at most the second.
const FIRST_PAUSE: u64 = 64;
const MAX_PAUSE: u64 = 1024;

/// A step of decoding alone, as far as a rest goes by it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Sample {
    /// Its number.
    pub(crate) step: u64,
    /// Requests that it decoded.
    pub(crate) num_requests: usize,
    /// Whether requests might be asked for drafts.
    pub(crate) is_offered: bool,
    /// Tokens that it emitted.
    pub(crate) num_tokens: u64,
    /// What it took, and what plain decoding was expected to take.
    pub(crate) milliseconds: f64,
    pub(crate) plain_ms: f64,
}

/// Who rests, by size of batches.
#[derive(Debug, Default)]
pub(crate) struct Rests {
    sizes: [Rest; NUM_SIZES],
}

#[derive(Debug, Clone, Copy)]
struct Rest {
    offered: Arm,
    plain: Arm,
    /// Steps from the next decision to rest to the first probe.
    pause: u64,
    /// `None` while requests are asked.
    probe: Option<Probe>,
    /// What steps that drafted emitted too little when the rest began, as a share of what they emitted.
    lost: f64,
    /// The first step in which a drafter's promise may bring a probe forward, and steps from one that did
    /// not win to the next that may.
    wakes_from: u64,
    wake_pause: u64,
}

/// The next steps in which a resting engine asks requests all the same.
#[derive(Debug, Clone, Copy)]
struct Probe {
    /// The first step that may be one of it.
    from: u64,
    left: u32,
    arm: Arm,
    /// Whether a drafter's promise brought it forward.
    is_woken: bool,
}

impl Default for Rest {
    fn default() -> Self {
        Self {
            offered: Arm::default(),
            plain: Arm::default(),
            pause: FIRST_PAUSE,
            probe: None,
            lost: 0.0,
            wakes_from: 0,
            wake_pause: FIRST_PAUSE,
        }
    }
}

impl Rests {
    /// Whether requests may be asked in step `step`.
    pub(crate) fn may_ask(&self, step: u64, num_requests: usize) -> bool {
        let probe = &self.sizes[size_of(num_requests)].probe;
        probe.as_ref().is_none_or(|probe| step >= probe.from)
    }

    /// Brings the next probe forward to the step after `step`, because a drafter promises to add `promise`
    /// tokens to each; false where that does not make up for what steps lost, such a promise was not kept
    /// lately, or nobody rests.
    pub(crate) fn wake(&mut self, step: u64, num_requests: usize, promise: f64) -> bool {
        let rest = &mut self.sizes[size_of(num_requests)];
        let may_win = promise > rest.lost && step >= rest.wakes_from;
        let Some(probe) = rest.probe.as_mut().filter(|_| may_win) else {
            return false;
        };
        (probe.from, probe.is_woken) = (step + 1, true);
        true
    }

    /// Takes a step of decoding alone.
    pub(crate) fn note(&mut self, sample: &Sample) {
        let tokens = sample.num_tokens as f64 / sample.num_requests.max(1) as f64;
        let time = sample.milliseconds / sample.plain_ms;
        if !time.is_finite() || time <= 0.0 {
            return;
        }
        let rest = &mut self.sizes[size_of(sample.num_requests)];
        if !sample.is_offered {
            rest.plain.fade(DECAY);
            rest.plain.note(tokens, time);
        } else if let Some(probe) = &mut rest.probe {
            probe.arm.note(tokens, time);
            probe.left -= 1;
            if probe.left == 0 {
                rest.end_probe(sample.step);
            }
        } else {
            rest.offered.fade(DECAY);
            rest.offered.note(tokens, time);
            rest.judge(sample.step);
        }
    }
}

impl Rest {
    /// Begins to rest if drafts lose.
    fn judge(&mut self, step: u64) {
        if self.offered.steps() < LEAST_OFFERED || self.plain.steps() < LEAST_PLAIN {
            return;
        }
        let Some(gain) = self.offered.over(&self.plain) else {
            return;
        };
        if gain.low > 1.0 {
            self.pause = FIRST_PAUSE;
        }
        if gain.high < LOSS {
            self.lost = gain.ratio.recip() - 1.0;
            self.rest(step);
        }
    }

    fn rest(&mut self, step: u64) {
        self.probe = Some(Probe {
            from: step + self.pause,
            left: PROBE_STEPS,
            arm: Arm::default(),
            is_woken: false,
        });
        self.pause = (2 * self.pause).min(MAX_PAUSE);
    }

    /// Asks requests again if the probe was better than plain steps.
    fn end_probe(&mut self, step: u64) {
        let Some(probe) = self.probe.take() else {
            return;
        };
        self.offered = Arm::default();
        let has_won = probe.arm.rate() > self.plain.rate();
        if has_won {
            self.wake_pause = FIRST_PAUSE;
        } else if probe.is_woken {
            self.wakes_from = step + self.wake_pause;
            self.wake_pause = (2 * self.wake_pause).min(MAX_PAUSE);
        } else {
            // Who drafted badly when the rest began may have learned since.
            let lost = self.plain.rate() / probe.arm.rate() - 1.0;
            if lost.is_finite() {
                self.lost = f64::midpoint(self.lost, lost);
            }
        }
        if !has_won {
            self.rest(step);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Steps of `steps` with four requests in which they were asked; asking takes and gives so much
    /// more than plain decoding. One step in twenty is held out.
    fn asked(rests: &mut Rests, steps: std::ops::Range<u64>, tokens: u64, ms: f64) -> Vec<u64> {
        let offered = steps.filter(|&step| {
            let is_offered = step % 20 != 0 && rests.may_ask(step, 4);
            rests.note(&Sample {
                step,
                num_requests: 4,
                is_offered,
                num_tokens: if is_offered { tokens } else { 4 },
                milliseconds: if is_offered { ms } else { 10.0 },
                plain_ms: 10.0,
            });
            is_offered
        });
        offered.collect()
    }

    #[test]
    fn an_engine_whose_drafts_lose_stops_asking_but_in_ever_rarer_probes() {
        let mut rests = Rests::default();
        let steps = asked(&mut rests, 1..20_000, 5, 14.0);
        let first = steps.iter().take_while(|&&step| step < 200).count();
        assert!(first < 130, "{first} before the first rest");
        let late = steps.iter().filter(|&&step| step >= 10_000).count() as u64;
        let probes = 10_000 / (MAX_PAUSE + u64::from(PROBE_STEPS)) + 1;
        assert!(late <= probes * u64::from(PROBE_STEPS), "{late} late ones");
        assert!(late > 0);
    }

    #[test]
    fn it_asks_again_after_the_first_probe_that_wins() {
        let mut rests = Rests::default();
        asked(&mut rests, 1..20_000, 5, 14.0);
        let end = 20_000 + MAX_PAUSE + 2 * u64::from(PROBE_STEPS);
        let steps = asked(&mut rests, 20_000..end + 1000, 8, 11.0);
        let after = steps.iter().filter(|&&step| step >= end).count();
        assert!(after >= 900, "{after} of 1000");
    }

    #[test]
    fn a_drafters_promise_brings_a_probe_forward_and_broken_ones_ever_more_seldom() {
        let mut rests = Rests::default();
        asked(&mut rests, 1..20_000, 5, 14.0);
        assert!(!rests.wake(20_000, 1, 9.0), "nobody rests there");
        // Five tokens in 14 ms instead of four in ten.
        assert!(!rests.wake(20_000, 4, 0.1), "too little");
        // It promises every 64 steps, and drafts still lose.
        let mut count = 0;
        for step in (20_001..40_001).step_by(64) {
            count += usize::from(rests.wake(step, 4, 0.2));
            asked(&mut rests, step + 1..step + 64, 5, 14.0);
        }
        assert!((10..=40).contains(&count), "{count} of 312");
        // One that is kept ends the rest.
        let step = (40_001..60_000)
            .find(|&step| rests.wake(step, 4, 0.2))
            .unwrap();
        let steps = asked(&mut rests, step + 1..step + 101, 8, 11.0);
        assert!(steps.len() >= 94, "{}", steps.len());
    }

    #[test]
    fn a_promise_need_not_make_up_for_what_drafts_lost_before_they_learned() {
        let mut rests = Rests::default();
        // Four tokens in 20 ms instead of four in ten; later tries lose a tenth of that.
        asked(&mut rests, 1..200, 4, 20.0);
        assert!(!rests.wake(200, 4, 0.5), "too little");
        asked(&mut rests, 200..20_000, 4, 11.0);
        assert!(!rests.wake(20_000, 4, 0.05), "too little");
        assert!(rests.wake(20_000, 4, 0.5));
    }

    #[test]
    fn small_losses_and_gains_are_no_reason_to_rest() {
        for (tokens, ms) in [(4, 10.05), (8, 11.0), (4, 10.0)] {
            let mut rests = Rests::default();
            let steps = asked(&mut rests, 1..4001, tokens, ms);
            assert_eq!(steps.len(), 3800, "{tokens} tokens in {ms}");
        }
    }

    #[test]
    fn sizes_of_batches_rest_apart() {
        let mut rests = Rests::default();
        asked(&mut rests, 1..2_000, 5, 14.0);
        assert!(!rests.may_ask(2_000, 4) && !rests.may_ask(2_000, 7));
        assert!(rests.may_ask(2_000, 3) && rests.may_ask(2_000, 8));
    }

    #[test]
    fn a_machine_that_slows_down_is_no_evidence() {
        let mut rests = Rests::default();
        for step in 1..2_000 {
            let slower = if step < 1_000 { 1.0 } else { 3.0 };
            let is_offered = step % 50 != 0;
            rests.note(&Sample {
                step,
                num_requests: 1,
                is_offered,
                num_tokens: if is_offered { 2 } else { 1 },
                milliseconds: slower * if is_offered { 12.0 } else { 10.0 },
                plain_ms: slower * 10.0,
            });
            assert!(rests.may_ask(step, 1), "rests at {step}");
        }
    }
}
