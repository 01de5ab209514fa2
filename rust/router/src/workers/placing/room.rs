//! Whether a worker has room for a request that prefers it.

use crate::failover::Candidate;

/// How far a worker may be loaded beyond the mean and still be preferred, as a ratio: 5 / 4, as in
/// consistent hashing with bounded loads (Mirrokni, Thorup and Zadimoghaddam, 2016).
pub(super) const SLACK: (usize, usize) = (5, 4);

/// What the open workers of a model hold together.
#[derive(Clone, Copy, Debug)]
pub(super) struct Room {
    places: usize,
    held: usize,
}

impl Room {
    pub(super) fn of<'a>(open: impl Iterator<Item = &'a Candidate<'a>> + Clone) -> Self {
        Self {
            places: open.clone().map(|one| one.max_running).sum(),
            held: open.map(|one| one.num_choices).sum(),
        }
    }

    /// Whether a worker may take so many choices more: it has free places for them, or is no more
    /// than a quarter above the mean of all.
    ///
    /// The bound counts where a choice would wait. To hold it below that too moves conversations
    /// whose worker would have computed a few tokens: with `trace`'s conversations 1.30 times the
    /// tokens of one worker with all caches instead of 1.12, for 1.09 instead of 1.11 of the mean at
    /// the busiest.
    pub(super) fn has(self, worker: &Candidate<'_>, num_choices: usize) -> bool {
        let (load, own) = (worker.num_choices + num_choices, worker.max_running);
        // load / own <= 5/4 * (held + num_choices) / places, without fractions.
        load <= own || load * self.places * SLACK.1 <= (self.held + num_choices) * own * SLACK.0
    }

    /// Whether a worker's `work` is no more than a quarter above its part of `all`.
    pub(super) fn is_even(self, worker: &Candidate<'_>, work: f64, all: f64) -> bool {
        let part = worker.max_running as f64 / self.places.max(1) as f64;
        work <= all * part * SLACK.0 as f64 / SLACK.1 as f64
    }
}
