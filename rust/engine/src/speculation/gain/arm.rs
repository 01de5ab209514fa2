//! Tokens per millisecond of one kind of steps, and of one kind over another with its error.

use crate::output::NetGain;

/// Standard errors to either side of a mean that hold 95 % of a normal distribution.
const ERRORS: f64 = 1.96;

/// Sums over steps of one kind, from which their rate and its error follow.
#[derive(Debug, Clone, Copy, Default)]
pub(in crate::speculation) struct Arm {
    steps: f64,
    tokens: f64,
    milliseconds: f64,
    /// Squares and products, for the error.
    tokens_squared: f64,
    tokens_by_ms: f64,
    ms_squared: f64,
}

impl Arm {
    /// Takes a step.
    pub(in crate::speculation) fn note(&mut self, tokens: f64, milliseconds: f64) {
        self.steps += 1.0;
        self.tokens += tokens;
        self.milliseconds += milliseconds;
        self.tokens_squared += tokens * tokens;
        self.tokens_by_ms += tokens * milliseconds;
        self.ms_squared += milliseconds * milliseconds;
    }

    /// Takes time that belongs to these steps and passed in others.
    pub(super) fn charge(&mut self, milliseconds: f64) {
        self.milliseconds += milliseconds;
    }

    /// Lets all that was noted count `share` of what it did.
    pub(super) fn fade(&mut self, share: f64) {
        self.steps *= share;
        self.tokens *= share;
        self.milliseconds *= share;
        self.tokens_squared *= share;
        self.tokens_by_ms *= share;
        self.ms_squared *= share;
    }

    /// Steps noted, as much as they still count.
    pub(in crate::speculation) fn steps(&self) -> f64 {
        self.steps
    }

    /// Milliseconds noted.
    pub(super) fn milliseconds(&self) -> f64 {
        self.milliseconds
    }

    /// Tokens per millisecond.
    pub(super) fn rate(&self) -> f64 {
        self.tokens / self.milliseconds
    }

    /// This rate over that of `other`, with a 95 % interval; `None` where a rate is 0 or unknown.
    ///
    /// The error of a ratio of sums is that of its residuals (delta method); rates are compared by
    /// their logarithms.
    pub(in crate::speculation) fn over(&self, other: &Self) -> Option<NetGain> {
        let ratio = self.rate() / other.rate();
        let error = ERRORS * (self.variance_of_log() + other.variance_of_log()).sqrt();
        let gain = NetGain {
            ratio,
            low: ratio * (-error).exp(),
            high: ratio * error.exp(),
        };
        (ratio > 0.0 && gain.high.is_finite()).then_some(gain)
    }

    /// Variance of the logarithm of the rate.
    fn variance_of_log(&self) -> f64 {
        let rate = self.rate();
        let residuals =
            self.tokens_squared - 2.0 * rate * self.tokens_by_ms + rate * rate * self.ms_squared;
        let freedom = (self.steps - 1.0).max(f64::MIN_POSITIVE);
        residuals.max(0.0) * self.steps / freedom / (self.tokens * self.tokens)
    }
}

#[cfg(test)]
mod tests {
    use spectrie_types::seed::splitmix;

    use super::*;

    /// An arm of `count` steps of one token in about `ms` milliseconds, 10 % more or less.
    fn arm(seed: u64, count: u64, ms: f64) -> Arm {
        let mut arm = Arm::default();
        for step in 0..count {
            let noise = (splitmix(seed << 32 | step) % 2001) as f64 / 1000.0 - 1.0;
            arm.note(1.0, ms * (1.0 + 0.1 * noise));
        }
        arm
    }

    #[test]
    fn the_interval_holds_the_truth_about_as_often_as_it_says() {
        let held = (0..1000).filter(|&seed| {
            let gain = arm(2 * seed, 400, 10.0).over(&arm(2 * seed + 1, 40, 12.0));
            let gain = gain.unwrap();
            gain.low <= 1.2 && 1.2 <= gain.high
        });
        let held = held.count();
        assert!((920..980).contains(&held), "{held} of 1000");
    }

    #[test]
    fn more_steps_make_the_interval_narrower() {
        let width = |count| {
            let gain = arm(1, count, 10.0).over(&arm(2, count, 10.0)).unwrap();
            gain.high - gain.low
        };
        assert!(width(4000) < 0.2 * width(40));
    }

    #[test]
    fn nothing_is_said_of_steps_that_were_not_measured() {
        assert_eq!(arm(1, 9, 10.0).over(&Arm::default()), None);
        assert_eq!(Arm::default().over(&arm(1, 9, 10.0)), None);
        assert_eq!(arm(1, 1, 10.0).over(&arm(2, 9, 10.0)).map(|_| ()), Some(()));
    }

    #[test]
    fn what_fades_keeps_its_rate_and_loses_its_weight() {
        let mut faded = arm(1, 100, 10.0);
        let rate = faded.rate();
        faded.fade(0.25);
        assert!((faded.rate() - rate).abs() < 1e-12);
        assert!((faded.steps() - 25.0).abs() < 1e-9);
        faded.charge(faded.milliseconds());
        assert!((faded.rate() - rate / 2.0).abs() < 1e-12);
    }
}
