//! What a choice is blamed for.
//!
//! A death of a worker accuses the choices on it that got no token since the death before: one that
//! gets tokens can be computed, so others explain the death. After two accusations in a row a
//! choice goes on alone on a worker. It is with others again as soon as that gives a token; if the
//! worker dies first, nothing but this choice explains it.

use std::time::Duration;

/// Accusations after which a choice goes on alone.
const MAX_ACCUSATIONS: u32 = 2;
/// Failures without a token between them after which a choice fails that has no tokens.
const MAX_FAULTS: u32 = 2;
/// The same for one that has: what failed is rather its worker, and others may fail with it for a moment.
const MAX_FAULTS_BEGUN: u32 = 4;
/// Refusals without a token between them after which a choice that has no tokens is refused.
const MAX_REFUSALS: u32 = 2;
/// The wait after the second refusal, or failure, in a row; each further one waits twice as long.
const FIRST_DELAY: Duration = Duration::from_millis(50);
/// The longest of these waits.
const MAX_DELAY: Duration = Duration::from_secs(2);

/// How a worker's part in a choice ended before the answer did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    /// The worker died or stalled.
    Died,
    /// The worker had been asked to drain, and did not wait for the choice's end.
    Drained,
    /// The worker did not want the choice, or not any longer.
    Refused,
    /// The choice failed on the worker, or what came is nonsense.
    Faulted,
}

impl End {
    /// Its name in traces.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Died => "worker_died",
            Self::Drained => "worker_drained",
            Self::Refused => "worker_refused",
            Self::Faulted => "worker_faulted",
        }
    }
}

/// What becomes of the choice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// It goes on.
    GoOn {
        /// Before it is placed again.
        delay: Duration,
        /// On a worker that runs nothing else.
        alone: bool,
    },
    /// Its own worker ended, alone with it: no worker should run it again.
    Convicted,
    /// It ends with what its worker said.
    GiveUp,
}

/// What is held against one choice since its last token.
#[derive(Clone, Debug, Default)]
pub(crate) struct Blame {
    accusations: u32,
    faults: u32,
    refusals: u32,
    has_progress: bool,
    is_alone: bool,
}

impl Blame {
    /// Its worker gave tokens: nothing is held against it any more.
    pub(crate) fn progressed(&mut self) {
        *self = Self {
            has_progress: true,
            ..Self::default()
        };
    }

    /// It as numbers, for whoever goes on elsewhere.
    pub(crate) fn to_numbers(&self) -> [u32; 4] {
        let flags = u32::from(self.has_progress) | u32::from(self.is_alone) << 1;
        [self.accusations, self.faults, self.refusals, flags]
    }

    /// What [`Self::to_numbers`] gave; none of other numbers.
    pub(crate) fn from_numbers(numbers: &[u32]) -> Option<Self> {
        let &[accusations, faults, refusals, flags @ 0..=3] = numbers else {
            return None;
        };
        Some(Self {
            accusations: accusations.min(MAX_ACCUSATIONS),
            faults: faults.min(MAX_FAULTS_BEGUN),
            refusals: refusals.min(MAX_REFUSALS),
            has_progress: flags & 1 != 0,
            is_alone: flags & 2 != 0,
        })
    }

    /// Whether it is, or is to be, alone on a worker.
    pub(crate) fn is_alone(&self) -> bool {
        self.is_alone
    }

    /// Its worker's part ended. `is_begun` says that any choice of its request has tokens: such a
    /// request is no longer refused.
    pub(crate) fn ended(&mut self, end: End, is_begun: bool) -> Verdict {
        match end {
            End::Died => {
                let had_progress = std::mem::take(&mut self.has_progress);
                if had_progress {
                    self.accusations = 0;
                } else if self.is_alone {
                    return Verdict::Convicted;
                } else {
                    self.accusations += 1;
                }
                self.is_alone = self.accusations >= MAX_ACCUSATIONS;
                self.go_on(Duration::ZERO)
            }
            End::Drained => self.go_on(Duration::ZERO),
            End::Faulted => {
                self.faults += 1;
                let limit = if is_begun {
                    MAX_FAULTS_BEGUN
                } else {
                    MAX_FAULTS
                };
                if self.faults >= limit {
                    return Verdict::GiveUp;
                }
                self.go_on(delay_after(self.faults))
            }
            End::Refused => {
                self.refusals += 1;
                if !is_begun && self.refusals >= MAX_REFUSALS {
                    return Verdict::GiveUp;
                }
                self.go_on(delay_after(self.refusals))
            }
        }
    }

    fn go_on(&self, delay: Duration) -> Verdict {
        let alone = self.is_alone;
        Verdict::GoOn { delay, alone }
    }
}

/// The wait before it is tried again after so many ends of one kind in a row: none after the first.
fn delay_after(num_ends: u32) -> Duration {
    let doublings = num_ends.saturating_sub(2).min(16);
    match num_ends {
        0 | 1 => Duration::ZERO,
        _ => MAX_DELAY.min(FIRST_DELAY * (1 << doublings)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WITH_OTHERS: Verdict = Verdict::GoOn {
        delay: Duration::ZERO,
        alone: false,
    };
    const ALONE: Verdict = Verdict::GoOn {
        delay: Duration::ZERO,
        alone: true,
    };

    #[test]
    fn third_death_without_a_token_convicts_the_second_leaves_it_alone() {
        let mut blame = Blame::default();
        assert_eq!(blame.ended(End::Died, true), WITH_OTHERS);
        assert_eq!(blame.ended(End::Died, true), ALONE);
        assert_eq!(blame.ended(End::Died, true), Verdict::Convicted);
    }

    #[test]
    fn tokens_before_each_death_are_never_accused() {
        let mut blame = Blame::default();
        for _ in 0..10 {
            blame.progressed();
            assert_eq!(blame.ended(End::Died, true), WITH_OTHERS);
        }
        assert_eq!(blame.ended(End::Died, true), WITH_OTHERS);
        assert_eq!(blame.ended(End::Died, true), ALONE);
    }

    #[test]
    fn token_while_alone_ends_the_suspicion() {
        let mut blame = Blame::default();
        blame.ended(End::Died, true);
        blame.ended(End::Died, true);
        blame.progressed();
        assert_eq!(blame.ended(End::Died, true), WITH_OTHERS);
    }

    #[test]
    fn refusals_and_faults_do_not_end_its_being_alone() {
        let mut blame = Blame::default();
        blame.ended(End::Died, true);
        blame.ended(End::Died, true);
        assert_eq!(blame.ended(End::Refused, true), ALONE);
        assert_eq!(blame.ended(End::Faulted, true), ALONE);
        assert_eq!(blame.ended(End::Died, true), Verdict::Convicted);
    }

    #[test]
    fn drains_accuse_nobody_and_do_not_end_its_being_alone() {
        let mut blame = Blame::default();
        for _ in 0..10 {
            assert_eq!(blame.ended(End::Drained, false), WITH_OTHERS);
        }
        blame.ended(End::Died, true);
        assert_eq!(blame.ended(End::Drained, true), WITH_OTHERS);
        blame.ended(End::Died, true);
        assert_eq!(blame.ended(End::Drained, true), ALONE);
    }

    #[test]
    fn second_fault_ends_what_has_no_tokens_and_the_fourth_without_one_between_what_has() {
        let mut fresh = Blame::default();
        assert_eq!(fresh.ended(End::Faulted, false), WITH_OTHERS);
        assert_eq!(fresh.ended(End::Faulted, false), Verdict::GiveUp);
        let mut blame = Blame::default();
        assert_eq!(blame.ended(End::Faulted, true), WITH_OTHERS);
        blame.progressed();
        for millis in [0, 50, 100] {
            let delay = Duration::from_millis(millis);
            let again = Verdict::GoOn {
                delay,
                alone: false,
            };
            assert_eq!(blame.ended(End::Faulted, true), again);
        }
        assert_eq!(blame.ended(End::Faulted, true), Verdict::GiveUp);
    }

    #[test]
    fn refused_twice_ends_without_tokens_and_waits_longer_and_longer_with_them() {
        let mut fresh = Blame::default();
        assert_eq!(fresh.ended(End::Refused, false), WITH_OTHERS);
        assert_eq!(fresh.ended(End::Refused, false), Verdict::GiveUp);
        let mut resumed = Blame::default();
        resumed.progressed();
        let delays: Vec<_> = (0..40)
            .map(|_| match resumed.ended(End::Refused, true) {
                Verdict::GoOn { delay, .. } => delay,
                verdict => panic!("{verdict:?}"),
            })
            .collect();
        assert_eq!(delays[..3], [0, 50, 100].map(Duration::from_millis));
        assert!(delays.is_sorted() && delays[39] == MAX_DELAY);
    }
}
