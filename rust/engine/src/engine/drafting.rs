//! A drafter that the runner calls between two forwards.

use super::handle::Engine;
use crate::error::EngineError;
use crate::forward::DraftAnswers;
use crate::plan::DraftPlan;
use crate::speculation::DrafterInfo;

impl Engine {
    /// Drafts with answers of the runner's drafter too from now on; `None` does so no more. The runner
    /// then keeps features as plans say.
    ///
    /// # Errors
    /// [`EngineError::DrafterTooLate`] after the first step; [`EngineError::Config`] with a value that is
    /// out of range; [`EngineError::PlanInFlight`].
    pub fn set_drafter(&self, drafter: Option<DrafterInfo>) -> Result<(), EngineError> {
        self.shared.core()?.set_drafter(drafter)
    }

    /// What the drafter is asked next, at time `now_s`, before the plan; `None` when nothing is worth
    /// asking. Answer it with [`Self::draft_results`] and ask again until there is none; then comes
    /// [`Self::plan`].
    ///
    /// # Errors
    /// [`EngineError::PlanInFlight`]; [`EngineError::LevelInFlight`].
    pub fn draft_plan(&self, now_s: f64) -> Result<Option<DraftPlan>, EngineError> {
        let mut core = self.core_for_step()?;
        if !core.has_drafter() {
            return Ok(None);
        }
        self.drain(&mut core, now_s);
        let plan = core.draft_plan(now_s);
        self.shared.publish(&core, &[]);
        plan
    }

    /// Takes the answers to the last draft plan, which took `elapsed_ms`.
    ///
    /// # Errors
    /// [`EngineError::NoLevel`]; [`EngineError::Logits`] for answers that do not fit, and the level waits
    /// for others.
    pub fn draft_results(
        &self,
        answers: &DraftAnswers<'_>,
        elapsed_ms: f64,
    ) -> Result<(), EngineError> {
        let mut core = self.core_for_step()?;
        core.draft_results(answers, elapsed_ms)
    }

    /// Goes on without the drafter, which failed on the last draft plan. No request ends by that.
    ///
    /// # Errors
    /// [`EngineError::NoLevel`].
    pub fn draft_failed(&self) -> Result<(), EngineError> {
        let mut core = self.core_for_step()?;
        core.draft_failed()
    }
}
