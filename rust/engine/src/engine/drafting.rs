//! Drafters that the runner calls between two forwards.

use super::handle::Engine;
use crate::error::EngineError;
use crate::forward::DraftAnswers;
use crate::plan::DraftPlan;
use crate::speculation::DrafterInfo;

impl Engine {
    /// Drafts with answers of one more drafter of the runner's from now on; gives its number, which counts from 0.
    /// The runner then keeps features as plans say. A step asks about each request the one that is worth most there.
    ///
    /// # Errors
    /// [`EngineError::DrafterTooLate`] after the first step; [`EngineError::Config`] with a value that is out of range,
    /// or for more than [`MAX_DRAFTERS`](spectrie_types::sizes::MAX_DRAFTERS); [`EngineError::PlanInFlight`].
    pub fn add_drafter(&self, drafter: DrafterInfo) -> Result<usize, EngineError> {
        self.shared.core()?.add_drafter(drafter)
    }

    /// Notes that the forward in flight began `waited_ms` after its launch, because the device was answering for a drafter what
    /// nobody asked: the step is measured without that. Comes before its results.
    ///
    /// # Errors
    /// [`EngineError::Stopped`].
    pub fn note_waited(&self, waited_ms: f64) -> Result<(), EngineError> {
        self.shared.core()?.note_waited(waited_ms);
        Ok(())
    }

    /// Prices what the drafter that was added last adds to every forward, asked or not: `upkeep_ms` to one of one row. Its gain is
    /// then told over steps without it; no effect without a drafter. Where that grows `by_row` for all drafters,
    /// requests may be left out while they sleep ([`LEFT_OUT`](crate::LEFT_OUT)).
    ///
    /// # Errors
    /// [`EngineError::Config`] for a number that is below 0 or not finite; [`EngineError::Stopped`].
    pub fn set_drafter_upkeep(&self, upkeep_ms: f64, by_row: bool) -> Result<(), EngineError> {
        if !upkeep_ms.is_finite() || upkeep_ms < 0.0 {
            return Err(EngineError::Config {
                name: "upkeep_ms",
                given: upkeep_ms.to_string(),
                allowed: "a finite number of 0 or more".to_owned(),
            });
        }
        self.shared.core()?.set_drafter_upkeep(upkeep_ms, by_row);
        Ok(())
    }

    /// What a drafter is asked next, at time `now_s`, before the plan; `None` when nothing is worth
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

    /// Goes on without the drafter that failed on the last draft plan. No request ends by that.
    ///
    /// # Errors
    /// [`EngineError::NoLevel`].
    pub fn draft_failed(&self) -> Result<(), EngineError> {
        let mut core = self.core_for_step()?;
        core.draft_failed()
    }

    /// What drafters are to do before any forward that no plan asked for, which takes the features of the
    /// last one away: a level without rows, for its copies alone. Call [`Self::features_copied`] then, and
    /// only then [`Self::scratch_pages`]: pages whose features were not copied cannot be gone on from.
    /// `None` when there is nothing to copy.
    ///
    /// # Errors
    /// [`EngineError::PlanInFlight`]; [`EngineError::LevelInFlight`].
    pub fn feature_plan(&self) -> Result<Option<DraftPlan>, EngineError> {
        let mut core = self.shared.core()?;
        core.feature_plan()
    }

    /// Notes that what [`Self::feature_plan`] gave was done.
    ///
    /// # Errors
    /// [`EngineError::Stopped`].
    pub fn features_copied(&self) -> Result<(), EngineError> {
        let mut core = self.shared.core()?;
        core.note_features_copied();
        Ok(())
    }
}
