//! Whether asking a drafter promises enough to ask it at all.

/// Share of a step in the running mean; the first ones count alike.
const LEARNING_RATE: f64 = 1.0 / 64.0;

/// Steps before the mean says anything.
const LEAST_STEPS: f64 = 16.0;

/// A drafter sleeps while its first levels promise less than this share of the time of steps above their price: the least,
/// by hundredths, with which the texts of tuning ask in less than 5 % of the steps of edits, and wake within 64 steps.
const LEAST_SHARE: f64 = 0.05;

/// Steps in a row in which it was small before that is expected to last.
const LASTING_STEPS: u64 = 64;

/// Owns the running mean of what first levels promise above their price, as a share of a step without drafts.
#[derive(Debug, Default)]
pub(super) struct Promise {
    mean: f64,
    num_steps: f64,
    /// In which it was small, up to the last one in which that was known.
    num_small: u64,
}

impl Promise {
    /// Takes a step of `step_ms` in which a first level would earn `earned_ms`, asked or not.
    pub(super) fn note(&mut self, earned_ms: f64, step_ms: f64) {
        if step_ms > 0.0 {
            self.num_steps += 1.0;
            let rate = LEARNING_RATE.max(1.0 / self.num_steps);
            self.mean += rate * (earned_ms / step_ms - self.mean);
            if self.is_small() {
                self.num_small += 1;
            } else if self.is_known() {
                self.num_small = 0;
            }
        }
    }

    /// Forgets what was promised. Whether it was small for a while stands until more is known.
    pub(super) fn forget(&mut self) {
        (self.mean, self.num_steps) = (0.0, 0.0);
    }

    fn is_known(&self) -> bool {
        self.num_steps >= LEAST_STEPS
    }

    /// Whether the drafter is asked for no answer's sake now.
    pub(super) fn is_small(&self) -> bool {
        self.is_known() && self.mean < LEAST_SHARE
    }

    /// Whether it has been small for a while: what is given up now is not missed soon.
    pub(super) fn is_small_lastingly(&self) -> bool {
        self.num_small >= LASTING_STEPS
    }
}

#[cfg(test)]
impl Promise {
    /// One that has been small for a while.
    pub(super) fn lastingly_small() -> Self {
        Self {
            mean: 0.0,
            num_steps: LEAST_STEPS,
            num_small: LASTING_STEPS,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Steps of 10 ms until it is small, or is so no more; `None` where that takes more than 1000.
    fn steps_until(promise: &mut Promise, is_small: bool, earned_ms: f64) -> Option<usize> {
        (1..=1000).find(|_| {
            promise.note(earned_ms, 10.0);
            promise.is_small() == is_small
        })
    }

    #[test]
    fn what_promises_little_is_small_once_that_is_known() {
        assert_eq!(steps_until(&mut Promise::default(), true, 0.0), Some(16));
        assert_eq!(steps_until(&mut Promise::default(), true, 0.49), Some(16));
        assert_eq!(steps_until(&mut Promise::default(), true, 0.51), None);
        let mut promise = Promise::default();
        assert_eq!(steps_until(&mut promise, true, 0.8), None);
        let steps = steps_until(&mut promise, true, 0.1).unwrap_or_default();
        assert!((32..128).contains(&steps), "{steps}");
    }

    #[test]
    fn it_lasts_after_64_steps_in_a_row() {
        let mut promise = Promise::default();
        for step in 1..200 {
            promise.note(0.0, 10.0);
            assert_eq!(promise.is_small_lastingly(), step >= 16 + 63, "{step}");
        }
        promise.forget();
        for (earned_ms, lasts) in [(2.0, false), (0.1, true)] {
            let mut promise = Promise {
                num_small: promise.num_small,
                ..Promise::default()
            };
            for step in 1..20 {
                assert!(promise.is_small_lastingly(), "nothing is known yet");
                assert!(!promise.is_small());
                promise.note(earned_ms, 10.0);
                if step >= 16 {
                    assert_eq!(promise.is_small_lastingly(), lasts, "{step}");
                    break;
                }
            }
        }
        steps_until(&mut promise, true, 0.0);
        steps_until(&mut promise, false, 2.0);
        assert!(!promise.is_small_lastingly());
    }

    #[test]
    fn it_is_small_no_more_within_64_steps_of_one_that_promises_twice_as_much_as_is_enough() {
        let mut promise = Promise::default();
        for _ in 0..1000 {
            promise.note(0.0, 10.0);
        }
        let steps = steps_until(&mut promise, false, 0.8).unwrap_or_default();
        assert!((1..64).contains(&steps), "{steps}");
    }
}
