//! Python face of `spectrie-engine`.

mod logits;

use std::collections::HashMap;

use numpy::{PyArray1, PyReadonlyArray1};
use pyo3::create_exception;
use pyo3::exceptions::PyException;
use pyo3::prelude::*;
use spectrie_engine as core;
use spectrie_engine::Verdicts;

use self::logits::LogitsAddress;

create_exception!(
    spectrie._core,
    EngineError,
    PyException,
    "The engine refused a call."
);

fn engine_error(error: core::EngineError) -> PyErr {
    EngineError::new_err(error.to_string())
}

/// One choice of a request, begun or resumed.
#[pyclass(frozen, name = "Request", module = "spectrie._core")]
struct Request(core::Request);

#[pymethods]
impl Request {
    #[new]
    #[pyo3(signature = (*, handle, prompt_ids, max_tokens, emitted_token_ids=vec![], prediction_ids=vec![],
        namespace="default".to_owned(), learn=true, temperature=1.0, top_p=1.0, top_k=0, min_p=0.0,
        frequency_penalty=0.0, presence_penalty=0.0, repetition_penalty=1.0, logit_bias=HashMap::new(), seed=0,
        min_tokens=0, stop_token_ids=vec![], ignore_eos=false, deadline_s=None, priority=0, speculation=None,
        max_draft_tokens=None))]
    #[expect(
        clippy::too_many_arguments,
        clippy::fn_params_excessive_bools,
        reason = "keywords of the Python class"
    )]
    fn new(
        handle: u64,
        prompt_ids: Vec<u32>,
        max_tokens: u32,
        emitted_token_ids: Vec<u32>,
        prediction_ids: Vec<u32>,
        namespace: String,
        learn: bool,
        temperature: f32,
        top_p: f32,
        top_k: u32,
        min_p: f32,
        frequency_penalty: f32,
        presence_penalty: f32,
        repetition_penalty: f32,
        logit_bias: HashMap<u32, f32>,
        seed: u64,
        min_tokens: u32,
        stop_token_ids: Vec<u32>,
        ignore_eos: bool,
        deadline_s: Option<f64>,
        priority: i32,
        speculation: Option<&str>,
        max_draft_tokens: Option<u32>,
    ) -> PyResult<Self> {
        let speculation = speculation
            .map(core::SpeculationMode::parse)
            .transpose()
            .map_err(engine_error)?;
        Ok(Self(core::Request {
            handle,
            prompt_ids,
            emitted_token_ids,
            prediction_ids,
            namespace,
            learn,
            sampling: core::SamplingParameters {
                temperature,
                top_p,
                top_k,
                min_p,
                frequency_penalty,
                presence_penalty,
                repetition_penalty,
                logit_bias: logit_bias.into_iter().collect(),
            },
            choice_seed: seed,
            max_tokens,
            min_tokens,
            stop_token_ids,
            ignore_eos,
            deadline_s,
            priority,
            speculation,
            max_draft_tokens,
        }))
    }

    #[getter]
    fn handle(&self) -> u64 {
        self.0.handle
    }
}

/// The rows of one forward; arrays are int32 [R], [Q], ... as `_core.pyi` says.
#[pyclass(frozen, get_all, name = "Plan", module = "spectrie._core")]
struct Plan {
    plan_id: u64,
    is_greedy: bool,
    row_token: Py<PyArray1<i32>>,
    row_position: Py<PyArray1<i32>>,
    row_slot: Py<PyArray1<i32>>,
    row_owner: Py<PyArray1<i32>>,
    row_parent: Py<PyArray1<i32>>,
    row_ancestors: Py<PyArray1<i64>>,
    request_row_start: Py<PyArray1<i32>>,
    request_row_count: Py<PyArray1<i32>>,
    request_kv_len: Py<PyArray1<i32>>,
    request_kind: Py<PyArray1<i32>>,
    page_indptr: Py<PyArray1<i32>>,
    page_ids: Py<PyArray1<i32>>,
    sample_rows: Py<PyArray1<i32>>,
    sample_indptr: Py<PyArray1<i32>>,
    kv_move_src: Py<PyArray1<i32>>,
    kv_move_dst: Py<PyArray1<i32>>,
}

impl Plan {
    fn new(py: Python<'_>, plan: core::Plan) -> Self {
        let array = |values: Vec<i32>| PyArray1::from_vec(py, values).unbind();
        Self {
            plan_id: plan.plan_id,
            is_greedy: plan.is_greedy,
            row_token: array(plan.row_token),
            row_position: array(plan.row_position),
            row_slot: array(plan.row_slot),
            row_owner: array(plan.row_owner),
            row_parent: array(plan.row_parent),
            row_ancestors: PyArray1::from_vec(py, plan.row_ancestors).unbind(),
            request_row_start: array(plan.request_row_start),
            request_row_count: array(plan.request_row_count),
            request_kv_len: array(plan.request_kv_len),
            request_kind: array(plan.request_kind),
            page_indptr: array(plan.page_indptr),
            page_ids: array(plan.page_ids),
            sample_rows: array(plan.sample_rows),
            sample_indptr: array(plan.sample_indptr),
            kv_move_src: array(plan.kv_move_src),
            kv_move_dst: array(plan.kv_move_dst),
        }
    }
}

/// Why and how a request ended.
#[pyclass(frozen, get_all, name = "Finish", module = "spectrie._core")]
struct Finish {
    kind: u8,
    message: Option<String>,
    verify_steps: u32,
    drafted_tokens: u32,
    accepted_tokens: u32,
    accepted_by_source: Vec<u32>,
    queue_ns: u64,
    prefill_ns: u64,
    decode_ns: u64,
    cached_tokens: u32,
    preemptions: u32,
    accepted_prediction_tokens: u32,
}

impl Finish {
    fn new(finish: core::Finish) -> Self {
        let stats = finish.stats;
        Self {
            kind: finish.kind as u8,
            message: finish.message,
            verify_steps: stats.verify_steps,
            drafted_tokens: stats.drafted_tokens,
            accepted_tokens: stats.accepted_tokens,
            accepted_by_source: stats.accepted_by_source.to_vec(),
            queue_ns: stats.queue_ns,
            prefill_ns: stats.prefill_ns,
            decode_ns: stats.decode_ns,
            cached_tokens: stats.cached_tokens,
            preemptions: stats.preemptions,
            accepted_prediction_tokens: stats.accepted_prediction_tokens,
        }
    }
}

/// What requests emitted: tokens of request i are `token_ids[token_indptr[i]:token_indptr[i + 1]]`.
#[pyclass(frozen, get_all, name = "StepOutput", module = "spectrie._core")]
struct StepOutput {
    handles: Vec<u64>,
    token_indptr: Vec<usize>,
    token_ids: Vec<u32>,
    sources: Vec<u32>,
    finishes: Vec<Option<Py<Finish>>>,
}

impl StepOutput {
    fn new(py: Python<'_>, outputs: Vec<core::RequestOutput>) -> PyResult<Self> {
        let mut step = Self {
            handles: Vec::with_capacity(outputs.len()),
            token_indptr: vec![0],
            token_ids: Vec::new(),
            sources: Vec::new(),
            finishes: Vec::with_capacity(outputs.len()),
        };
        for output in outputs {
            step.handles.push(output.handle);
            step.token_ids.extend(output.token_ids);
            step.sources
                .extend(output.sources.into_iter().map(u32::from));
            step.token_indptr.push(step.token_ids.len());
            let finish = output
                .finish
                .map(|finish| Py::new(py, Finish::new(finish)))
                .transpose()?;
            step.finishes.push(finish);
        }
        Ok(step)
    }
}

/// How busy an engine is.
#[pyclass(frozen, get_all, name = "Load", module = "spectrie._core")]
struct Load {
    running: usize,
    waiting: usize,
    pages_used: usize,
    pages_total: usize,
    memory_bytes: usize,
    steps: u64,
    drafted_tokens: u64,
    accepted_tokens: u64,
    prompt_tokens: u64,
    generated_tokens: u64,
    preemptions: u64,
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
        let load = self.engine.load();
        Load {
            running: load.running,
            waiting: load.waiting,
            pages_used: load.pages_used,
            pages_total: load.pages_total,
            memory_bytes: load.memory_bytes,
            steps: load.steps,
            drafted_tokens: load.drafted_tokens,
            accepted_tokens: load.accepted_tokens,
            prompt_tokens: load.prompt_tokens,
            generated_tokens: load.generated_tokens,
            preemptions: load.preemptions,
        }
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
