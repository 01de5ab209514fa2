//! What a drafter is asked in a level.

use super::fills::Fill;
use super::wish::Wish;

/// What is asked in a level, and made up before it.
#[derive(Debug)]
pub(in crate::speculation) struct Chosen {
    pub(in crate::speculation) wishes: Vec<Wish>,
    pub(in crate::speculation) fills: Vec<Fill>,
    /// What of making up counts for this step.
    pub(in crate::speculation) share_ms: f64,
    pub(in crate::speculation) why: Why,
}

/// Why a level is asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::speculation) enum Why {
    /// Its answers promise more than they cost.
    Pays,
    /// The drafter sleeps, and is tried.
    Probe,
    /// Requests of fixed modes ask for it, whatever it costs.
    Fixed,
}

impl Chosen {
    /// The same, and what requests of fixed modes ask for beside it.
    pub(in crate::speculation) fn beside(mut self, fixed: Option<Self>) -> Self {
        if let Some(fixed) = fixed {
            self.wishes.extend(fixed.wishes);
            self.fills.extend(fixed.fills);
            self.share_ms += fixed.share_ms;
        }
        self
    }
}
