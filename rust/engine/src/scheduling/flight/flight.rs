//! The plan in flight: how a device is given it, and how its results are read.

use spectrie_sampling::Sampler;

use super::open_plan::{EarlyPlan, OpenPlan, Part, Work};
use crate::error::EngineError;
use crate::forward::{StepResults, Verdicts};
use crate::plan::Plan;
use crate::plan::packing::{
    DeviceShape, DrawRows, MAX_DRAWN_VOCABULARY, PackedStep, Packer, TileRows,
};
use crate::scheduling::running::Running;
use crate::sequence::SampledRows;
use crate::speculation::PlainStep;

/// At most one plan is open, and behind it at most one early; their numbers were never used before.
#[derive(Debug)]
pub(crate) struct Flight {
    vocabulary_size: usize,
    open: Option<OpenPlan>,
    /// The plan whose forward begins before the results of the open one are known.
    early: Option<EarlyPlan>,
    last_plan_id: u64,
    num_committed: u64,
    sampler: Sampler,
    packer: Packer,
    draws: DrawRows,
}

impl Flight {
    /// No plan yet, of a model with so many tokens.
    pub(crate) fn new(vocabulary_size: usize) -> Self {
        Self {
            vocabulary_size,
            open: None,
            early: None,
            last_plan_id: 0,
            num_committed: 0,
            sampler: Sampler::default(),
            packer: Packer::default(),
            draws: DrawRows::default(),
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

    /// The open plan, unless an early one is behind it.
    pub(crate) fn open_alone(&self) -> Option<&OpenPlan> {
        self.open.as_ref().filter(|_| self.early.is_none())
    }

    /// Whether a plan began early behind the open one.
    pub(crate) fn is_early(&self) -> bool {
        self.early.is_some()
    }

    /// Adds the early plan.
    pub(crate) fn add_early(&mut self, plan: EarlyPlan) {
        self.early = Some(plan);
    }

    /// Opens the early plan: the one before it ended `now_s`. What is to be known of its step.
    pub(crate) fn open_early(&mut self, now_s: f64) -> Option<PlainStep> {
        let mut early = self.early.take()?;
        // It was planned and launched beside the forward before it.
        early.plan.planned_s = now_s;
        self.open = Some(early.plan);
        Some(early.step)
    }

    /// Whether tokens can be drawn on a device, whatever the options.
    pub(crate) fn can_draw(&self) -> bool {
        self.vocabulary_size <= MAX_DRAWN_VOCABULARY
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

    /// Ends the open plan, whose forward failed, and the early one, which rests on it.
    pub(crate) fn abandon(&mut self) -> Option<OpenPlan> {
        self.early = None;
        self.open.take()
    }

    /// Writes the open or the early plan, which must be this one, to `out`.
    pub(crate) fn pack(
        &mut self,
        plan: &Plan,
        running: &mut Running,
        shape: &DeviceShape,
        tiles: TileRows,
        out: &mut [i32],
    ) -> Result<PackedStep, EngineError> {
        let is_drawn = plan.is_drawable() && self.can_draw();
        let early = self.early.as_ref();
        if let Some(early) = early.filter(|early| early.plan.plan_id == plan.plan_id) {
            list_early(early, running, self.vocabulary_size, &mut self.draws);
        } else {
            // The draws of an early plan are known as long as it is early.
            self.get(plan.plan_id)?.check_packable()?;
            if let Some(open) = self.open.as_mut().filter(|_| is_drawn) {
                list_draws(open, running, self.vocabulary_size, &mut self.draws);
            }
        }
        let draws = Some(&self.draws).filter(|_| is_drawn);
        self.packer.pack(plan, draws, shape, tiles, out)
    }

    /// One request's sampled rows of the results.
    pub(crate) fn read<'a>(
        &'a mut self,
        results: &StepResults<'a>,
        part: &Part,
    ) -> SampledRows<'a> {
        let (verdicts, first) = match (results.verdicts, part.first_logits) {
            (Verdicts::Drawn { logits, .. }, Some(first)) => (Verdicts::Logits(logits), first),
            (verdicts, _) => (verdicts, part.first_sample),
        };
        let is_compacted = results.compacted && !matches!(verdicts, Verdicts::Logits(_));
        SampledRows {
            sampler: &mut self.sampler,
            verdicts,
            is_compacted,
            vocabulary_size: self.vocabulary_size,
            first,
            is_root_alone: part.is_root_alone,
        }
    }
}

/// Collects what decides the tokens of all sampled rows, and notes where that is not known.
fn list_draws(
    open: &mut OpenPlan,
    running: &mut Running,
    vocabulary_size: usize,
    draws: &mut DrawRows,
) {
    draws.clear(vocabulary_size);
    for part in &mut open.parts {
        let Some(sequence) = running.get_mut(&part.key) else {
            continue;
        };
        if part.first_logits.is_some() {
            draws.pass_over(part.num_samples(sequence));
            continue;
        }
        match &part.work {
            Work::Tree(tree) => part.is_root_alone = !sequence.list_draws(Some(tree), draws),
            Work::Chunk(rows) => {
                if !sequence.sampled_indices(*rows).is_empty() {
                    sequence.list_draws(None, draws);
                }
            }
        }
    }
    draws.close();
}

/// Collects what decides the tokens of an early plan's rows, whatever the tokens before them are.
fn list_early(
    early: &EarlyPlan,
    running: &mut Running,
    vocabulary_size: usize,
    draws: &mut DrawRows,
) {
    draws.clear(vocabulary_size);
    for part in &early.plan.parts {
        let Some(sequence) = running.get_mut(&part.key) else {
            continue;
        };
        match &part.work {
            Work::Tree(_) => sequence.list_draw_ahead(draws),
            // All tokens before its first one are known.
            Work::Chunk(_) if early.prompt_ends.contains(&part.key) => {
                sequence.list_draws(None, draws);
            }
            Work::Chunk(_) => {}
        }
    }
    draws.close();
}

#[cfg(test)]
impl Flight {
    pub(crate) fn open_plan(&self) -> Option<&OpenPlan> {
        self.open.as_ref()
    }

    pub(crate) fn open_plan_mut(&mut self) -> Option<&mut OpenPlan> {
        self.open.as_mut()
    }
}
