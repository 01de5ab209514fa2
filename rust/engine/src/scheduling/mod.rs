//! Who runs, what a step computes, and what its results mean.

mod admission;
mod batch;
mod commit;
mod composition;
mod draft_levels;
mod early;
mod end;
mod fairness;
mod flight;
mod outbox;
mod priority;
mod running;
mod scheduler;
mod step_times;
#[cfg(test)]
mod testing;

pub(crate) use end::Cancel;
pub(crate) use scheduler::Scheduler;
