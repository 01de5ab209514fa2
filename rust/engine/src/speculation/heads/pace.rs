//! Whether requests emit less than they did: their text has changed.

/// Shares of a step in the running means of what was lately and of what was before.
const LATE_RATE: f64 = 1.0 / 16.0;
const EARLY_RATE: f64 = 1.0 / 256.0;

/// The text has changed where drafts bring less than this share of what they did.
const FALL: f64 = 0.5;

/// Least that a change is, in tokens of a request and step.
const LEAST: f64 = 0.25;

/// Owns two running means of accepted tokens of a request and step.
#[derive(Debug, Default)]
pub(super) struct Pace {
    late: f64,
    early: f64,
    num_steps: f64,
}

impl Pace {
    /// Takes a step in which drafts were offered; whether they bring much less than before. If so, it starts over.
    pub(super) fn note(&mut self, accepted: f64) -> bool {
        self.num_steps += 1.0;
        // The first ones count alike.
        let share = |rate: f64| rate.max(1.0 / self.num_steps);
        let (late, early) = (share(LATE_RATE), share(EARLY_RATE));
        self.late += late * (accepted - self.late);
        self.early += early * (accepted - self.early);
        let has_fallen = self.late < FALL * self.early && self.early - self.late > LEAST;
        if has_fallen {
            *self = Self::default();
        }
        has_fallen
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Steps of `count` that are said to be a change.
    fn changes(pace: &mut Pace, count: usize, accepted: impl Fn(usize) -> f64) -> Vec<usize> {
        (0..count)
            .filter(|&step| pace.note(accepted(step)))
            .collect()
    }

    #[test]
    fn a_fall_is_noticed_once_within_a_few_steps_and_a_rise_is_none() {
        for usual in [0.6, 3.0, 12.0] {
            let mut pace = Pace::default();
            assert!(changes(&mut pace, 500, |_| usual).is_empty());
            let fall = changes(&mut pace, 500, |_| 0.0);
            assert!(fall.len() == 1 && fall[0] < 16, "{usual}: {fall:?}");
            assert!(changes(&mut pace, 500, |_| usual).is_empty());
        }
    }

    #[test]
    fn copies_that_end_now_and_then_are_no_change() {
        let mut pace = Pace::default();
        let copies = |step: usize| if step % 8 < 3 { 0.0 } else { 8.0 };
        assert!(changes(&mut pace, 2000, copies).is_empty());
    }
}
