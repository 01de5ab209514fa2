//! Where a text was learned.

use std::sync::Arc;

use super::entry::Entry;

/// A stream that is, or was, this router's, as the origin of what its workers learned from it.
#[derive(Clone, Debug)]
pub(crate) struct Origin(Arc<Entry>);

impl Origin {
    pub(crate) fn new(entry: &Arc<Entry>) -> Self {
        Self(entry.clone())
    }

    /// Whether the stream is another router's now: that one teaches its text.
    pub(crate) fn is_lost(&self) -> bool {
        self.0.is_lost()
    }
}
