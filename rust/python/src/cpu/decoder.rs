//! The forward of a decoder, one call from Python.
#![allow(unsafe_code)] // arrays are made from the decoder's own logits

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Instant;

use numpy::ndarray::ArrayView2;
use numpy::{IntoPyArray, PyArray1, PyArray2, PyArrayMethods, PyReadonlyArray2};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use spectrie_cpu::{
    Answers, AttentionConfig, Batch, CpuError, DraftSizes, LayerConfig, Step, TOP_K, Tap, Team,
    TopTokens,
};
use spectrie_engine::{DraftPlan, Plan};

use super::any::AnyDecoder;
use super::draft::{AttentionTensors, DrafterTensors, arrays_of_level, level_of};
use super::exchange::{Gather, Part};
use super::plan::{arrays_of, plan_of, upkeep_of};
use super::weights::CpuWeights;
use crate::errors::cpu_error;
use crate::lock::lock;

struct Engine {
    decoder: AnyDecoder,
    team: Team,
}

/// What a forward computed.
pub(super) struct Forward<'a> {
    /// The likeliest tokens of the top rows.
    pub(super) top: TopTokens,
    /// Logits of the sample rows, one row after the other.
    pub(super) logits: &'a [f32],
    /// Rows of logits.
    pub(super) num_rows: usize,
    /// Width of the logits.
    pub(super) vocabulary: usize,
    /// When it was there.
    pub(super) ended: Instant,
}

/// A decoder with its weights and key-value cache.
#[pyclass(frozen)]
pub(super) struct CpuDecoder {
    inner: Mutex<Engine>,
    gather: Option<Arc<Gather>>,
    forward_ns: AtomicU64,
    num_pages: usize,
    max_context: usize,
}

type LayerTuple = (bool, Option<usize>, Option<Vec<f32>>, Option<Vec<f32>>);
type StepArrays<'py> = (
    Bound<'py, PyArray2<f32>>,
    Bound<'py, PyArray2<i32>>,
    Bound<'py, PyArray2<f32>>,
);

type AnswerArrays<'py> = (
    Bound<'py, PyArray2<i32>>,
    Bound<'py, PyArray2<f32>>,
    Bound<'py, PyArray1<f32>>,
);

impl CpuDecoder {
    /// Whether other ranks take part in a forward, through Python.
    pub(super) fn is_part(&self) -> bool {
        self.gather.is_some()
    }

    /// Computes a plan's rows and passes the result on before another forward can overwrite it.
    ///
    /// # Errors
    /// The plan contradicts itself, or exceeds the rows, the cache or the vocabulary.
    pub(super) fn compute<R>(
        &self,
        plan: &Plan,
        read: impl FnOnce(Forward<'_>) -> R,
    ) -> Result<R, CpuError> {
        let arrays = arrays_of(plan);
        let batch = Batch::new(&arrays, self.num_pages, self.max_context)?;
        let step = Step {
            batch: &batch,
            tokens: &plan.row_token,
            sample_rows: &plan.sample_rows,
            top_rows: &plan.top_rows,
        };
        let mut inner = lock(&self.inner);
        let Engine { decoder, team } = &mut *inner;
        let started = Instant::now();
        let top = decoder.forward(team, &step, &arrays, &upkeep_of(plan))?;
        let ended = Instant::now();
        let took_ns = (ended - started).as_nanos() as u64;
        self.forward_ns.fetch_add(took_ns, Ordering::Relaxed);
        let (logits, vocabulary) = decoder.logits();
        let num_rows = plan.num_samples();
        Ok(read(Forward {
            top,
            logits: &logits[..num_rows * vocabulary],
            num_rows,
            vocabulary,
            ended,
        }))
    }

    /// Answers a level of drafts; `None` without the drafter that it asks.
    pub(super) fn answer(&self, level: &DraftPlan) -> Option<Result<Answers, CpuError>> {
        let mut inner = lock(&self.inner);
        let Engine { decoder, team } = &mut *inner;
        decoder.draft(level.drafter, team, &arrays_of_level(level))
    }

    /// Whether a drafter is beside the decoder.
    pub(super) fn has_drafter(&self) -> bool {
        lock(&self.inner).decoder.has_drafter()
    }

    /// Takes a drafter away.
    pub(super) fn forgo_drafter(&self, drafter: usize) {
        lock(&self.inner).decoder.drop_drafter(drafter);
    }
}

#[pymethods]
impl CpuDecoder {
    #[new]
    #[pyo3(signature = (weights, *, heads, kv_heads, head_dim, num_pages, max_context, max_rows,
                        scale, norm_epsilon, cosines, sines, layers, threads, part=None))]
    #[allow(clippy::too_many_arguments)] // keyword-only: the fields of one config
    #[allow(clippy::needless_pass_by_value)] // extracted from Python
    fn new(
        weights: &CpuWeights,
        heads: usize,
        kv_heads: usize,
        head_dim: usize,
        num_pages: usize,
        max_context: usize,
        max_rows: usize,
        scale: f32,
        norm_epsilon: f32,
        cosines: PyReadonlyArray2<'_, f32>,
        sines: PyReadonlyArray2<'_, f32>,
        layers: Vec<LayerTuple>,
        threads: usize,
        part: Option<Part>,
    ) -> PyResult<Self> {
        let (split, gather) = part.map(Part::split).unzip();
        let layers = layers
            .into_iter()
            .map(|(rotary, window, query_norm, key_norm)| LayerConfig {
                rotary,
                window,
                looks_ahead: false,
                first_key: 0,
                query_norm,
                key_norm,
            })
            .collect();
        let attention = AttentionConfig {
            heads,
            kv_heads,
            head_dim,
            num_pages,
            max_context,
            scale,
            norm_epsilon,
            cosines: cosines.as_slice()?.to_vec(),
            sines: sines.as_slice()?.to_vec(),
            layers,
        };
        let decoder = AnyDecoder::new(weights.take()?, attention, max_rows, split)?;
        let team = Team::new(threads);
        Ok(Self {
            inner: Mutex::new(Engine { decoder, team }),
            gather,
            forward_ns: AtomicU64::new(0),
            num_pages,
            max_context,
        })
    }

    /// Memory that weights and workspaces take.
    #[getter]
    fn num_bytes(&self, py: Python<'_>) -> usize {
        // A forward under way may need the interpreter before it lets go of the decoder.
        py.detach(|| lock(&self.inner).decoder.bytes())
    }

    /// Time of all forwards.
    #[getter]
    fn forward_seconds(&self) -> f64 {
        self.forward_ns.load(Ordering::Relaxed) as f64 / 1e9
    }

    fn set_threads(&self, py: Python<'_>, threads: usize) {
        py.detach(|| lock(&self.inner).team = Team::new(threads));
    }

    #[pyo3(signature = (drafter, attention, *, max_rows, seats))]
    #[allow(clippy::needless_pass_by_value)] // extracted from Python
    fn add_drafter(
        &self,
        py: Python<'_>,
        drafter: DrafterTensors<'_>,
        attention: AttentionTensors<'_>,
        max_rows: usize,
        seats: usize,
    ) -> PyResult<usize> {
        let attention = attention.config(self.num_pages)?;
        let sizes = DraftSizes { max_rows, seats };
        let mut inner = lock(&self.inner);
        let Engine { decoder, team } = &mut *inner;
        decoder.add_drafter(py, team, &drafter, attention, sizes)
    }

    fn drop_drafter(&self, py: Python<'_>, drafter: usize) {
        py.detach(|| self.forgo_drafter(drafter));
    }

    #[getter]
    fn drafts(&self, py: Python<'_>) -> bool {
        py.detach(|| self.has_drafter())
    }

    fn drafter_bytes(&self, py: Python<'_>, drafter: usize) -> Option<usize> {
        py.detach(|| lock(&self.inner).decoder.drafter_bytes(drafter))
    }

    fn set_drafter_resting(&self, py: Python<'_>, drafter: usize, resting: bool) {
        py.detach(|| lock(&self.inner).decoder.set_resting(drafter, resting));
    }

    fn draft<'py>(&self, plan: &Bound<'py, PyAny>) -> PyResult<AnswerArrays<'py>> {
        let py = plan.py();
        let level = level_of(plan)?;
        let answers = py.detach(|| self.answer(&level));
        let answers = answers.ok_or_else(|| PyValueError::new_err("no drafter is loaded"))?;
        let answers = answers.map_err(cpu_error)?;
        let shape = [answers.ids.len() / TOP_K, TOP_K];
        Ok((
            answers.ids.into_pyarray(py).reshape(shape)?,
            answers.probabilities.into_pyarray(py).reshape(shape)?,
            answers.scored.into_pyarray(py),
        ))
    }

    fn poison_drafter(&self, py: Python<'_>, value: f32) {
        py.detach(|| lock(&self.inner).decoder.poison(value));
    }

    #[pyo3(signature = (layers, *, final_norm=false))]
    fn set_taps(&self, py: Python<'_>, layers: Vec<usize>, final_norm: bool) -> PyResult<()> {
        let mut taps: Vec<Tap> = layers.into_iter().map(Tap::Layer).collect();
        taps.extend(final_norm.then_some(Tap::Final));
        py.detach(|| lock(&self.inner).decoder.set_taps(taps))
            .map_err(cpu_error)
    }

    fn features<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        // A forward under way may need the interpreter before it lets go of the decoder.
        py.detach(|| lock(&self.inner).decoder.features())?
            .array(py)
    }

    fn forward<'py>(slf: &Bound<'py, Self>, plan: &Bound<'py, PyAny>) -> PyResult<StepArrays<'py>> {
        let py = slf.py();
        let this = slf.get();
        let plan = plan_of(plan)?;
        let (top, rows) = py
            .detach(|| this.compute(&plan, |forward| (forward.top, forward.num_rows)))
            .map_err(cpu_error)?;
        if let Some(error) = this.gather.as_ref().and_then(|gather| gather.take_error()) {
            return Err(error);
        }
        let shape = [plan.num_tops(), TOP_K];
        let inner = lock(&this.inner);
        let (logits, vocabulary) = inner.decoder.logits();
        let view = ArrayView2::from_shape((rows, vocabulary), &logits[..rows * vocabulary])
            .map_err(|error| PyValueError::new_err(error.to_string()))?;
        // SAFETY: the logits stay where they are for as long as the decoder lives, which the array
        // keeps alive; the wrapper's documentation says that the next forward overwrites them.
        let logits = unsafe { PyArray2::borrow_from_array(&view, slf.clone().into_any()) };
        Ok((
            logits,
            top.ids.into_pyarray(py).reshape(shape)?,
            top.probabilities.into_pyarray(py).reshape(shape)?,
        ))
    }
}
