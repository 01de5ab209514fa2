//! Where a text was learned.

use std::sync::Arc;

use super::entry::Entry;
use crate::fleet::keys::taught;

/// A choice of a stream that is, or was, this router's, as the origin of what its workers learned from it.
#[derive(Clone, Debug)]
pub(crate) struct Origin {
    entry: Arc<Entry>,
    choice: usize,
}

impl Origin {
    /// The first choice of a stream.
    pub(crate) fn new(entry: &Arc<Entry>) -> Self {
        Self {
            entry: entry.clone(),
            choice: 0,
        }
    }

    /// Another choice of its stream.
    pub(crate) fn of(&self, choice: usize) -> Self {
        Self {
            entry: self.entry.clone(),
            choice,
        }
    }

    /// The key that says in Redis that its text was shared; none of a stream whose token is not known.
    pub(crate) fn mark(&self) -> Option<String> {
        let token_digest = self.entry.token_digest()?;
        Some(taught(token_digest, self.choice))
    }

    /// Whether the stream is another router's now: that one teaches its text.
    pub(crate) fn is_lost(&self) -> bool {
        self.entry.is_lost()
    }
}
