//! Who runs, what a step computes, and what its results mean.

mod admission;
mod batch;
mod commit;
mod composition;
mod end;
mod fairness;
mod flight;
mod open_plan;
mod outbox;
mod preemption;
mod priority;
mod queue;
mod running;
mod scheduler;
#[cfg(test)]
mod testing;

pub(crate) use end::Cancel;
pub(crate) use scheduler::Scheduler;
