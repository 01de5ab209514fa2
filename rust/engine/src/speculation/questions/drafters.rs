//! What others ask of the drafters that the runner calls.

use super::super::heads::{DrafterInfo, Heads};
use super::super::speculator::Speculator;
use crate::error::EngineError;

/// Requests whose rows drafters keep while they sleep: as many as one level answers in hardly more time than one.
const MOST_FOLLOWED: usize = 4;

impl Speculator {
    /// Whether there is a drafter that the runner calls.
    pub(crate) fn has_drafter(&self) -> bool {
        self.drafters.has_any()
    }

    /// Adds a drafter that the runner calls; gives its number.
    pub(crate) fn add_drafter(&mut self, drafter: DrafterInfo) -> Result<usize, EngineError> {
        self.drafters.add(drafter)
    }

    /// Whether a drafter reads the model's features.
    pub(crate) fn reads_features(&self, drafter: usize) -> bool {
        let heads = self.drafters.get(drafter);
        heads.is_some_and(|heads| !heads.is_given_up() && heads.needs_features())
    }

    /// How many numbers of drafters were given out.
    pub(crate) fn num_drafters(&self) -> usize {
        self.drafters.num()
    }

    /// Goes on without a drafter.
    pub(crate) fn give_up_drafter(&mut self, number: usize) {
        self.drafters.give_up(number);
    }

    /// Those that read the model's features, or those that do not.
    pub(crate) fn drafters_reading(&self, features: bool) -> Vec<usize> {
        self.drafters.reading(features)
    }

    /// Of how many requests side by side drafters that read features keep the rows; `None` = of all, as one
    /// of them is asked.
    pub(crate) fn most_followed(&self) -> Option<usize> {
        let reading = self.drafters.reading(true);
        let sleeps = |&number: &usize| self.drafters.get(number).is_some_and(Heads::sleeps);
        (!reading.is_empty() && reading.iter().all(sleeps)).then_some(MOST_FOLLOWED)
    }

    /// Prices what the drafter that was added last adds to every forward.
    pub(crate) fn set_drafter_upkeep(&mut self, upkeep_ms: f64, by_row: bool) {
        if let Some(heads) = self.drafters.last_mut() {
            heads.set_upkeep(upkeep_ms, by_row);
        }
    }

    /// Whether what drafters that read features add to forwards grows with the rows that they keep.
    pub(crate) fn may_leave_out(&self) -> bool {
        let reading = self.drafters.reading(true);
        let grows = |&number: &usize| self.drafters.get(number).is_some_and(Heads::grows_by_row);
        !reading.is_empty() && reading.iter().all(grows)
    }

    /// Whether requests of this namespace may draft from a drafter.
    pub(crate) fn may_draft_from(&self, drafter: usize, namespace: &str) -> bool {
        let heads = self.drafters.get(drafter);
        heads.is_some_and(|heads| heads.is_for(namespace))
    }

    /// The first drafter that requests of this namespace may draft from.
    pub(crate) fn first_drafter_for(&self, namespace: &str) -> Option<usize> {
        self.drafters.first_for(namespace)
    }
}

#[cfg(test)]
impl Speculator {
    /// Has drafters sleep, or wake.
    pub(crate) fn set_asleep(&mut self, sleeps: bool) {
        for number in 0..self.drafters.num() {
            if let Some(heads) = self.drafters.get_mut(number) {
                heads.set_asleep(sleeps);
            }
        }
    }
}
