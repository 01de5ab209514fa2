//! What is done while a forward runs or when it ends: the plan behind it, its results, its failure.

use super::handle::Engine;
use crate::error::EngineError;
use crate::forward::StepResults;
use crate::output::RequestOutput;
use crate::plan::Plan;

impl Engine {
    /// The plan behind the open one, for a device that has its forward begin before the results of that
    /// one are known: row by row it computes the token that the open plan's forward gives, as
    /// [`Plan::row_token`] says. `None` where the step must wait for the results, because it may compute
    /// anything else, speculate, or draw by what the tokens are.
    ///
    /// The open plan's results come first, as tokens. If its forward fails, both plans have ended. Rows of
    /// requests that end meanwhile count for nothing. The plan is packed before the open one's results.
    ///
    /// # Errors
    /// [`EngineError::Stopped`].
    pub fn plan_early(&self, now_s: f64) -> Result<Option<Plan>, EngineError> {
        if !self.shared.inbox().commands.is_empty() {
            return Ok(None);
        }
        let mut core = self.core_for_step()?;
        let plan = core.plan_early(now_s);
        self.shared.publish(&core, &[]);
        self.resume_background(core);
        Ok(plan)
    }

    /// Takes the results of a plan and returns what each request emitted. The forward took
    /// `elapsed_ms`.
    ///
    /// # Errors
    /// [`EngineError::UnknownPlan`], [`EngineError::Logits`] or [`EngineError::NotGreedy`]; the plan stays
    /// open.
    pub fn commit(
        &self,
        plan_id: u64,
        results: &StepResults<'_>,
        elapsed_ms: f64,
        now_s: f64,
    ) -> Result<Vec<RequestOutput>, EngineError> {
        let mut core = self.core_for_step()?;
        let outputs = core.commit(plan_id, results, elapsed_ms, now_s)?;
        if core.is_in_flight() {
            let cancels = self
                .shared
                .inbox()
                .take_cancels(|handle| core.holds(handle));
            core.end_meanwhile(&cancels, now_s);
        }
        self.shared.publish(&core, &outputs);
        if core.is_in_flight() {
            self.resume_background(core);
        }
        Ok(outputs)
    }

    /// Ends every request of a plan whose forward failed; `message` goes to their callers.
    ///
    /// # Errors
    /// [`EngineError::UnknownPlan`].
    pub fn fail(
        &self,
        plan_id: u64,
        message: &str,
        now_s: f64,
    ) -> Result<Vec<RequestOutput>, EngineError> {
        let mut core = self.core_for_step()?;
        let outputs = core.fail(plan_id, message, now_s)?;
        self.shared.publish(&core, &outputs);
        Ok(outputs)
    }
}
