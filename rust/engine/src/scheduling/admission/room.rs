//! Pages that requests may still need, and what they leave to guests.

use crate::cache::Cache;
use crate::config::EngineConfig;
use crate::scheduling::running::{self, Running, growth};
use crate::sequence::Sequence;

/// After a request lost its pages, the next one is admitted where the others have room to grow so
/// many times as far as usual: else it would soon lose them again.
const PRESSED_LOOKAHEAD: usize = 2;

/// Guests leave one page in so many to drafts and kept prefixes.
pub(super) const GUESTS_LEAVE: usize = 8;

/// What is left of the pages, as far as one looks ahead.
pub(super) struct Room<'a> {
    pub(super) config: &'a EngineConfig,
    /// Whether a request lost its pages and none was admitted since.
    pub(super) is_pressed: bool,
}

impl Room<'_> {
    /// Pages that a further guest may take: everybody else keeps room to grow, and for drafts, and the
    /// rows of a step.
    pub(super) fn of_guest(&self, running: &Running, cache: &Cache) -> usize {
        let num_rows = self.config.chunk_tokens + running.len() + 1;
        if num_rows > self.config.max_batch_rows {
            return 0;
        }
        let guests = running::guests(running);
        let kept = growth(guests, self.config.lookahead_tokens, cache)
            + self.growth_of_regulars(running, cache)
            + self.config.num_pages / GUESTS_LEAVE;
        cache.num_available().saturating_sub(kept)
    }

    /// Pages that those who run in their turn may need.
    pub(super) fn growth_of_regulars(&self, running: &Running, cache: &Cache) -> usize {
        growth(running::regulars(running), self.lookahead_tokens(), cache)
    }

    /// Pages that a waiting request may need beyond those for its tokens; none if it would be alone.
    pub(super) fn growth_beside(
        &self,
        sequence: &Sequence,
        running: &Running,
        cache: &Cache,
    ) -> usize {
        if running::regulars(running).next().is_none() {
            return 0;
        }
        let own = growth(std::iter::once(sequence), self.lookahead_tokens(), cache);
        own - cache.pages_for(sequence.tokens.len())
    }

    fn lookahead_tokens(&self) -> usize {
        let times = [1, PRESSED_LOOKAHEAD][usize::from(self.is_pressed)];
        times * self.config.lookahead_tokens
    }
}
