//! Who runs, what a step computes, and what its results mean.

pub(crate) mod admission;
pub(crate) mod batch;
pub(crate) mod commit;
pub(crate) mod fairness;
pub(crate) mod priority;
pub(crate) mod queue;
pub(crate) mod scheduler;
#[cfg(test)]
mod testing;
