//! Whether other threads take some of the drafting off the one that runs steps.
//!
//! Where other processes use all cores, a thread that helps takes a core from the one it helps, and what
//! it has begun is waited for.

/// Share of a step in the running mean.
const RATE: f64 = 1.0 / 8.0;

/// Help is of use where drafting takes at most this part of what it takes one thread.
const MOST: f64 = 0.85;

/// A part counts as this at most, so that a hiccup of the machine is one.
const WORST: f64 = 2.0;

/// Steps without help, after which it is tried again.
const PAUSE: u32 = 64;

/// What help was worth lately.
#[derive(Debug, Default)]
pub(crate) struct Sharing {
    /// Running mean of that part.
    part: f64,
    /// Steps that are still to do without help.
    pause: u32,
}

impl Sharing {
    /// Whether a step that has enough to do is to be helped.
    pub(crate) fn is_due(&mut self) -> bool {
        let is_due = self.pause == 0;
        self.pause = self.pause.saturating_sub(1);
        is_due
    }

    /// Notes that a step that was helped took `part` of what its drafts take one thread.
    pub(crate) fn note(&mut self, part: f64) {
        self.part += RATE * (part.min(WORST) - self.part);
        if self.part > MOST {
            self.pause = PAUSE;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Steps of `steps` that are helped, where each takes `part` of what it takes one thread.
    fn helped(sharing: &mut Sharing, part: f64, steps: usize) -> usize {
        let is_helped = |_: &usize| {
            let is_due = sharing.is_due();
            if is_due {
                sharing.note(part);
            }
            is_due
        };
        (0..steps).filter(is_helped).count()
    }

    #[test]
    fn help_that_is_of_no_use_becomes_rare_and_comes_back() {
        let mut sharing = Sharing::default();
        assert_eq!(helped(&mut sharing, 0.55, 1000), 1000);
        let vain = helped(&mut sharing, 1.0, 6500);
        assert!((100..=115).contains(&vain), "{vain}");
        helped(&mut sharing, 0.55, 300);
        assert_eq!(helped(&mut sharing, 0.55, 100), 100);
    }

    #[test]
    fn one_bad_step_changes_nothing() {
        let mut sharing = Sharing::default();
        helped(&mut sharing, 0.55, 100);
        assert_eq!(helped(&mut sharing, 50.0, 1), 1);
        assert_eq!(helped(&mut sharing, 0.55, 100), 100);
    }
}
