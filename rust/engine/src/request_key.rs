//! Which request, inside an engine.

/// A request that has not ended. Keys order the rows of a step: the earlier arrival first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct RequestKey {
    arrival: u64,
}

impl RequestKey {
    /// The key of the request that came after `arrival` others.
    pub(crate) fn new(arrival: u64) -> Self {
        Self { arrival }
    }

    /// How many came before.
    pub(crate) fn arrival(self) -> u64 {
        self.arrival
    }
}
