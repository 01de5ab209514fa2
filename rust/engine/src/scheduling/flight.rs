//! The plan in flight, and how its results are read.

use spectrie_sampling::Sampler;

use super::open_plan::{OpenPlan, Part};
use super::running::Running;
use crate::error::EngineError;
use crate::forward::StepResults;
use crate::sequence::SampledRows;

/// At most one plan is open; its number was never used before.
#[derive(Debug)]
pub(crate) struct Flight {
    vocabulary_size: usize,
    open: Option<OpenPlan>,
    last_plan_id: u64,
    num_committed: u64,
    sampler: Sampler,
}

impl Flight {
    /// No plan yet, of a model with so many tokens.
    pub(crate) fn new(vocabulary_size: usize) -> Self {
        Self {
            vocabulary_size,
            open: None,
            last_plan_id: 0,
            num_committed: 0,
            sampler: Sampler::default(),
        }
    }

    pub(crate) fn is_open(&self) -> bool {
        self.open.is_some()
    }

    /// Plans so far.
    pub(crate) fn last_plan_id(&self) -> u64 {
        self.last_plan_id
    }

    /// Plans committed so far.
    pub(crate) fn num_committed(&self) -> u64 {
        self.num_committed
    }

    /// Checks that no plan waits for its results.
    pub(crate) fn check_closed(&self) -> Result<(), EngineError> {
        match &self.open {
            Some(open) => Err(EngineError::PlanInFlight {
                plan_id: open.plan_id,
            }),
            None => Ok(()),
        }
    }

    /// The number of the plan in the making.
    pub(crate) fn number(&mut self) -> u64 {
        self.last_plan_id += 1;
        self.last_plan_id
    }

    /// Opens a plan.
    pub(crate) fn open(&mut self, plan: OpenPlan) {
        self.open = Some(plan);
    }

    /// The plan that waits for its results, which must be this one.
    pub(crate) fn get(&self, plan_id: u64) -> Result<&OpenPlan, EngineError> {
        match &self.open {
            Some(open) if open.plan_id == plan_id => Ok(open),
            other => Err(EngineError::UnknownPlan {
                given: plan_id,
                expected: other.as_ref().map(|open| open.plan_id),
            }),
        }
    }

    /// Checks that `results` are of the open plan, which must be this one.
    pub(crate) fn check(
        &self,
        plan_id: u64,
        results: &StepResults<'_>,
        running: &Running,
    ) -> Result<(), EngineError> {
        self.get(plan_id)?
            .check(results, self.vocabulary_size, running)
    }

    /// Ends the open plan, whose results are there.
    pub(crate) fn commit(&mut self) -> Option<OpenPlan> {
        let open = self.open.take()?;
        self.num_committed += 1;
        Some(open)
    }

    /// Ends the open plan, whose forward failed.
    pub(crate) fn abandon(&mut self) -> Option<OpenPlan> {
        self.open.take()
    }

    /// One request's sampled rows of the results.
    pub(crate) fn read<'a>(
        &'a mut self,
        results: &StepResults<'a>,
        part: &Part,
    ) -> SampledRows<'a> {
        SampledRows {
            sampler: &mut self.sampler,
            verdicts: results.verdicts,
            vocabulary_size: self.vocabulary_size,
            first: part.first_sample,
        }
    }
}

#[cfg(test)]
impl Flight {
    pub(crate) fn open_plan(&self) -> Option<&OpenPlan> {
        self.open.as_ref()
    }
}
