//! Python face of `spectrie-engine`.

mod logits;
mod output;
mod plan;
mod request;

use numpy::PyReadonlyArray1;
use pyo3::create_exception;
use pyo3::exceptions::PyException;
use pyo3::prelude::*;
use spectrie_engine as core;
use spectrie_engine::Verdicts;

use self::logits::LogitsAddress;
use self::output::{Finish, Load, StepOutput};
use self::plan::Plan;
use self::request::Request;

create_exception!(
    spectrie._core,
    EngineError,
    PyException,
    "The engine refused a call."
);

#[expect(clippy::needless_pass_by_value, reason = "the shape `map_err` wants")]
fn engine_error(error: core::EngineError) -> PyErr {
    EngineError::new_err(error.to_string())
}

/// Scheduler, pages, drafts, sampling and verification.
#[pyclass(frozen, name = "Engine", module = "spectrie._core")]
struct Engine {
    engine: core::Engine,
    vocabulary_size: usize,
}

#[pymethods]
impl Engine {
    #[new]
    #[pyo3(signature = (*, vocabulary_size, eos_token_ids, num_pages, max_context, max_running, page_size=16,
        max_held=4096, chunk_tokens=256, max_batch_rows=512, speculation="auto", max_draft_tokens=16, min_match=1,
        max_match=16, min_breadth=1, max_breadth=10, max_depth=18, memory_bytes=256 << 20, holdout_every=100))]
    #[expect(clippy::too_many_arguments, reason = "keywords of the Python class")]
    fn new(
        vocabulary_size: usize,
        eos_token_ids: Vec<u32>,
        num_pages: usize,
        max_context: usize,
        max_running: usize,
        page_size: usize,
        max_held: usize,
        chunk_tokens: usize,
        max_batch_rows: usize,
        speculation: &str,
        max_draft_tokens: usize,
        min_match: usize,
        max_match: usize,
        min_breadth: usize,
        max_breadth: usize,
        max_depth: usize,
        memory_bytes: usize,
        holdout_every: u64,
    ) -> PyResult<Self> {
        let config = core::EngineConfig {
            vocabulary_size,
            eos_token_ids,
            num_pages,
            page_size,
            max_context,
            max_running,
            max_held,
            chunk_tokens,
            max_batch_rows,
            speculation: core::SpeculationMode::parse(speculation).map_err(engine_error)?,
            max_draft_tokens,
            min_match,
            max_match,
            min_breadth,
            max_breadth,
            max_depth,
            memory_bytes,
            holdout_every,
        };
        let engine = core::Engine::new(config).map_err(engine_error)?;
        Ok(Self {
            engine,
            vocabulary_size,
        })
    }

    fn submit(&self, request: &Request) -> PyResult<()> {
        self.engine.submit(request.0.clone()).map_err(engine_error)
    }

    #[pyo3(signature = (handle, keep_tokens=None, finished=false))]
    fn cancel(&self, handle: u64, keep_tokens: Option<u32>, finished: bool) {
        self.engine.cancel(handle, keep_tokens, finished);
    }

    fn learn(&self, namespace: &str, token_ids: Vec<u32>) -> PyResult<()> {
        self.engine
            .learn(namespace, token_ids)
            .map_err(engine_error)
    }

    #[expect(clippy::needless_pass_by_value, reason = "converted from Python lists")]
    fn set_costs(&self, py: Python<'_>, rows: Vec<usize>, milliseconds: Vec<f64>) -> PyResult<()> {
        py.detach(|| self.engine.set_costs(&rows, &milliseconds))
            .map_err(engine_error)
    }

    fn plan(&self, py: Python<'_>, now_s: f64) -> PyResult<Option<Plan>> {
        let plan = py
            .detach(|| self.engine.plan(now_s))
            .map_err(engine_error)?;
        Ok(plan.map(|plan| Plan::new(py, plan)))
    }

    fn take_outputs(&self, py: Python<'_>) -> PyResult<StepOutput> {
        StepOutput::new(
            py,
            py.detach(|| self.engine.take_outputs())
                .map_err(engine_error)?,
        )
    }

    #[expect(clippy::too_many_arguments, reason = "keywords of the Python class")]
    fn commit_logits(
        &self,
        py: Python<'_>,
        plan_id: u64,
        logits_pointer: usize,
        num_rows: usize,
        row_stride: usize,
        elapsed_ms: f64,
        now_s: f64,
    ) -> PyResult<StepOutput> {
        let address =
            LogitsAddress::new(logits_pointer, num_rows, row_stride, self.vocabulary_size);
        let address = address.map_err(engine_error)?;
        let outputs = py.detach(|| {
            let verdicts = Verdicts::Logits {
                values: address.values(),
                num_rows,
                row_stride,
            };
            self.engine.commit(plan_id, &verdicts, elapsed_ms, now_s)
        });
        StepOutput::new(py, outputs.map_err(engine_error)?)
    }

    #[expect(
        clippy::needless_pass_by_value,
        reason = "converted from a Python array"
    )]
    fn commit_tokens(
        &self,
        py: Python<'_>,
        plan_id: u64,
        argmax: PyReadonlyArray1<'_, i32>,
        elapsed_ms: f64,
        now_s: f64,
    ) -> PyResult<StepOutput> {
        let tokens: Vec<i32> = argmax.as_array().to_vec();
        let outputs = py.detach(|| {
            self.engine
                .commit(plan_id, &Verdicts::Tokens(&tokens), elapsed_ms, now_s)
        });
        StepOutput::new(py, outputs.map_err(engine_error)?)
    }

    fn fail(
        &self,
        py: Python<'_>,
        plan_id: u64,
        message: &str,
        now_s: f64,
    ) -> PyResult<StepOutput> {
        let outputs = py.detach(|| self.engine.fail(plan_id, message, now_s));
        StepOutput::new(py, outputs.map_err(engine_error)?)
    }

    fn load(&self) -> Load {
        Load::new(self.engine.load())
    }
}

/// Adds this file's classes and functions to the module.
pub(crate) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add("EngineError", module.py().get_type::<EngineError>())?;
    module.add_class::<Request>()?;
    module.add_class::<Plan>()?;
    module.add_class::<Finish>()?;
    module.add_class::<StepOutput>()?;
    module.add_class::<Load>()?;
    module.add_class::<Engine>()
}
