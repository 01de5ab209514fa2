//! Which request, inside an engine.

use std::cmp::Reverse;

/// A request that has not ended. Keys order the rows of a step: larger priority first, then earlier
/// arrival.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct RequestKey {
    priority: Reverse<i32>,
    arrival: u64,
}

impl RequestKey {
    /// The key of the request that came after `arrival` others.
    pub(crate) fn new(priority: i32, arrival: u64) -> Self {
        Self {
            priority: Reverse(priority),
            arrival,
        }
    }

    /// How many came before.
    pub(crate) fn arrival(self) -> u64 {
        self.arrival
    }
}
