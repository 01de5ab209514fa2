//! Python face of `spectrie-engine`.

pub(crate) mod draft_plan;
mod load;
mod logits;
mod memory;
mod mirror;
mod output;
mod packing;
pub(crate) mod plan;

use std::path::PathBuf;

use numpy::{PyReadonlyArray1, PyReadonlyArray2};
use pyo3::prelude::*;
use pyo3::types::PyMapping;
use spectrie_engine as core;
use spectrie_engine::{LogitRows, StepResults, Verdicts};
use spectrie_trie::Readers;
use spectrie_types::options::EngineConfig;

use self::draft_plan::{DraftPlan, GivenAnswers};
use self::load::Load;
use self::logits::{LogitsAddress, Top, rows_of};
use self::memory::{CorpusInfo, NamespaceInfo, SnapshotInfo};
use self::output::Finish;
pub(crate) use self::output::{StepOutput, TokenLogprobs, wire_stats};
use self::packing::{DeviceShape, PackedAddress, PackedStep, packing_error};
use self::plan::Plan;
use crate::bigrams::Bigrams;
use crate::errors::{EngineError, PackingError, engine_error};
use crate::start::Request;

/// Scheduler, pages, drafts, sampling and verification.
#[pyclass(frozen, name = "Engine", module = "spectrie._core")]
pub(crate) struct Engine {
    pub(crate) engine: core::Engine,
    vocabulary_size: usize,
}

#[pymethods]
impl Engine {
    #[new]
    fn new(config: &Bound<'_, PyMapping>) -> PyResult<Self> {
        let values = crate::options::values(config)?;
        let config = EngineConfig::from_values(values).map_err(engine_error)?;
        let vocabulary_size = config.vocabulary_size;
        let engine = core::Engine::new(config).map_err(engine_error)?;
        Ok(Self {
            engine,
            vocabulary_size,
        })
    }

    // Neither this nor `cancel` lets go of the GIL: beside a busy thread, getting it back takes longer
    // than a step. The inbox, the one lock that they take, is held for microseconds by anyone, and
    // never by one who waits for the GIL.
    fn submit(&self, request: &Request) -> PyResult<()> {
        self.engine.submit(request.0.clone()).map_err(engine_error)
    }

    #[pyo3(signature = (handle, keep_tokens=None, finished=false))]
    fn cancel(&self, handle: u64, keep_tokens: Option<u32>, finished: bool) {
        self.engine.cancel(handle, keep_tokens, finished);
    }

    fn scratch_pages(&self, py: Python<'_>, count: usize) -> PyResult<Vec<u32>> {
        py.detach(|| self.engine.scratch_pages(count))
            .map_err(engine_error)
    }

    fn learn(&self, py: Python<'_>, namespace: &str, token_ids: Vec<u32>) -> PyResult<()> {
        py.detach(|| self.engine.learn(namespace, &token_ids))
            .map_err(engine_error)
    }

    #[pyo3(signature = (
        rows, milliseconds, context_tokens=0, ms_per_key=0.0, ms_per_read=0.0, tile_rows=1, stair_rows=0
    ))]
    #[expect(clippy::needless_pass_by_value, reason = "converted from Python lists")]
    #[expect(clippy::too_many_arguments, reason = "one of each keyword in Python")]
    fn set_costs(
        &self,
        py: Python<'_>,
        rows: Vec<usize>,
        milliseconds: Vec<f64>,
        context_tokens: usize,
        ms_per_key: f64,
        ms_per_read: f64,
        tile_rows: usize,
        stair_rows: usize,
    ) -> PyResult<()> {
        let shape = core::CostShape {
            measured_tokens: context_tokens,
            ms_per_key,
            ms_per_read,
            tile_rows,
            stair_rows,
        };
        py.detach(|| self.engine.set_costs(&rows, &milliseconds, shape))
            .map_err(engine_error)
    }

    #[pyo3(signature = (*, source, max_levels, max_rows, rows, first_ms, later_ms, namespaces=None,
                        needs_features=true, fill_ms=None))]
    #[expect(clippy::too_many_arguments, reason = "one of each keyword in Python")]
    fn add_drafter(
        &self,
        py: Python<'_>,
        source: u8,
        max_levels: usize,
        max_rows: usize,
        rows: Vec<usize>,
        first_ms: Vec<f64>,
        later_ms: Vec<f64>,
        namespaces: Option<Vec<String>>,
        needs_features: bool,
        fill_ms: Option<Vec<f64>>,
    ) -> PyResult<usize> {
        let drafter = core::DrafterInfo {
            source: draft_plan::source_of(source)?,
            needs_features,
            max_levels,
            max_rows,
            rows,
            first_ms,
            later_ms,
            fill_ms: fill_ms.unwrap_or_default(),
            namespaces,
        };
        py.detach(|| self.engine.add_drafter(drafter))
            .map_err(engine_error)
    }

    #[pyo3(signature = (upkeep_ms, *, by_row=true))]
    fn set_drafter_upkeep(&self, py: Python<'_>, upkeep_ms: f64, by_row: bool) -> PyResult<()> {
        py.detach(|| self.engine.set_drafter_upkeep(upkeep_ms, by_row))
            .map_err(engine_error)
    }

    fn note_waited(&self, py: Python<'_>, waited_ms: f64) -> PyResult<()> {
        py.detach(|| self.engine.note_waited(waited_ms))
            .map_err(engine_error)
    }

    fn draft_plan(&self, py: Python<'_>, now_s: f64) -> PyResult<Option<DraftPlan>> {
        let plan = py
            .detach(|| self.engine.draft_plan(now_s))
            .map_err(engine_error)?;
        Ok(plan.map(DraftPlan))
    }

    #[expect(
        clippy::needless_pass_by_value,
        reason = "converted from Python arrays"
    )]
    fn draft_results(
        &self,
        py: Python<'_>,
        ids: PyReadonlyArray2<'_, i32>,
        probabilities: PyReadonlyArray2<'_, f32>,
        scored: PyReadonlyArray1<'_, f32>,
        elapsed_ms: f64,
    ) -> PyResult<()> {
        let answers = GivenAnswers::new(&ids, &probabilities, &scored);
        py.detach(|| self.engine.draft_results(&answers.view(), elapsed_ms))
            .map_err(engine_error)
    }

    fn feature_plan(&self, py: Python<'_>) -> PyResult<Option<DraftPlan>> {
        let plan = py
            .detach(|| self.engine.feature_plan())
            .map_err(engine_error)?;
        Ok(plan.map(DraftPlan))
    }

    fn features_copied(&self, py: Python<'_>) -> PyResult<()> {
        py.detach(|| self.engine.features_copied())
            .map_err(engine_error)
    }

    fn draft_failed(&self, py: Python<'_>) -> PyResult<()> {
        py.detach(|| self.engine.draft_failed())
            .map_err(engine_error)
    }

    fn plan(&self, py: Python<'_>, now_s: f64) -> PyResult<Option<Plan>> {
        let plan = py
            .detach(|| self.engine.plan(now_s))
            .map_err(engine_error)?;
        Ok(plan.map(Plan))
    }

    fn plan_early(&self, py: Python<'_>, now_s: f64) -> PyResult<Option<Plan>> {
        let plan = py
            .detach(|| self.engine.plan_early(now_s))
            .map_err(engine_error)?;
        Ok(plan.map(Plan))
    }

    #[expect(clippy::too_many_arguments, reason = "keywords of the Python class")]
    fn pack(
        &self,
        py: Python<'_>,
        plan: &Plan,
        shape: &DeviceShape,
        part_rows: usize,
        prompt_rows: usize,
        address: usize,
        capacity_words: usize,
    ) -> PyResult<PackedStep> {
        let memory = PackedAddress::new(address, capacity_words)?;
        let tiles = core::TileRows {
            part: part_rows,
            prompt: prompt_rows,
        };
        let packed = py.detach(|| self.engine.pack(&plan.0, &shape.0, tiles, memory.words()));
        packed
            .map(PackedStep)
            .map_err(|error| packing_error(py, &error))
    }

    fn take_outputs(&self, py: Python<'_>) -> PyResult<StepOutput> {
        let outputs = py.detach(|| self.engine.take_outputs());
        outputs.map(StepOutput).map_err(engine_error)
    }

    #[pyo3(signature = (plan_id, logits_pointer, num_rows, row_stride, elapsed_ms, now_s, top_ids=None,
        top_probabilities=None))]
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
        top_ids: Option<PyReadonlyArray2<'_, i32>>,
        top_probabilities: Option<PyReadonlyArray2<'_, f32>>,
    ) -> PyResult<StepOutput> {
        let top = Top::new(top_ids, top_probabilities);
        let address =
            LogitsAddress::new(logits_pointer, num_rows, row_stride, self.vocabulary_size);
        let address = address.map_err(engine_error)?;
        let outputs = py.detach(|| {
            let verdicts = Verdicts::Logits(LogitRows {
                values: address.values(),
                num_rows,
                row_stride,
            });
            let mut results = StepResults::from(verdicts);
            results.top = top.as_ref().map(Top::tokens);
            self.engine.commit(plan_id, &results, elapsed_ms, now_s)
        });
        outputs.map(StepOutput).map_err(engine_error)
    }

    #[pyo3(signature = (plan_id, tokens, elapsed_ms, now_s, top_ids=None,
        top_probabilities=None, *, drawn=false, logits=None, compacted=false))]
    #[expect(
        clippy::needless_pass_by_value,
        clippy::too_many_arguments,
        reason = "converted from Python arrays; keywords of the Python class"
    )]
    fn commit_tokens(
        &self,
        py: Python<'_>,
        plan_id: u64,
        tokens: PyReadonlyArray1<'_, i32>,
        elapsed_ms: f64,
        now_s: f64,
        top_ids: Option<PyReadonlyArray2<'_, i32>>,
        top_probabilities: Option<PyReadonlyArray2<'_, f32>>,
        drawn: bool,
        logits: Option<PyReadonlyArray2<'_, f32>>,
        compacted: bool,
    ) -> PyResult<StepOutput> {
        let tokens: &[i32] = &tokens.as_array().to_vec();
        let top = Top::new(top_ids, top_probabilities);
        let logits = rows_of(logits.as_ref())?;
        let outputs = py.detach(|| {
            let drawn = drawn.then_some(Verdicts::Drawn { tokens, logits });
            let results = StepResults {
                verdicts: drawn.unwrap_or(Verdicts::Tokens(tokens)),
                top: top.as_ref().map(Top::tokens),
                compacted,
            };
            self.engine.commit(plan_id, &results, elapsed_ms, now_s)
        });
        outputs.map(StepOutput).map_err(engine_error)
    }

    fn fail(
        &self,
        py: Python<'_>,
        plan_id: u64,
        message: &str,
        now_s: f64,
    ) -> PyResult<StepOutput> {
        let outputs = py.detach(|| self.engine.fail(plan_id, message, now_s));
        outputs.map(StepOutput).map_err(engine_error)
    }

    #[pyo3(signature = (*, memory=true))]
    fn load(&self, py: Python<'_>, memory: bool) -> Load {
        py.detach(|| Load::of(&self.engine, memory))
    }

    #[pyo3(signature = (path, readers=None))]
    #[expect(
        clippy::needless_pass_by_value,
        reason = "converted from a Python path"
    )]
    fn add_corpus(
        &self,
        py: Python<'_>,
        path: PathBuf,
        readers: Option<Vec<String>>,
    ) -> PyResult<CorpusInfo> {
        let readers = readers.map_or(Readers::All, Readers::Namespaces);
        py.detach(|| self.engine.add_corpus(&path, readers))
            .map(CorpusInfo::new)
            .map_err(engine_error)
    }

    fn remove_corpus(&self, py: Python<'_>, name: &str) -> PyResult<()> {
        py.detach(|| self.engine.remove_corpus(name))
            .map_err(engine_error)
    }

    #[pyo3(signature = (bigrams))]
    fn set_bigrams(&self, py: Python<'_>, bigrams: Option<&Bigrams>) -> PyResult<()> {
        let bigrams = bigrams.map(|bigrams| std::sync::Arc::clone(&bigrams.table));
        py.detach(|| self.engine.set_bigrams(bigrams))
            .map_err(engine_error)
    }

    fn corpora(&self, py: Python<'_>) -> Vec<CorpusInfo> {
        let infos = py.detach(|| self.engine.corpora());
        infos.into_iter().map(CorpusInfo::new).collect()
    }

    fn namespaces(&self, py: Python<'_>) -> Vec<NamespaceInfo> {
        let infos = py.detach(|| self.engine.namespaces());
        infos.into_iter().map(NamespaceInfo::new).collect()
    }

    #[expect(
        clippy::needless_pass_by_value,
        reason = "converted from a Python path"
    )]
    fn save(&self, py: Python<'_>, folder: PathBuf, fingerprint: &str) -> PyResult<SnapshotInfo> {
        py.detach(|| self.engine.save(&folder, fingerprint))
            .map(SnapshotInfo::new)
            .map_err(engine_error)
    }

    #[expect(
        clippy::needless_pass_by_value,
        reason = "converted from a Python path"
    )]
    fn restore(
        &self,
        py: Python<'_>,
        folder: PathBuf,
        fingerprint: &str,
    ) -> PyResult<SnapshotInfo> {
        py.detach(|| self.engine.restore(&folder, fingerprint))
            .map(SnapshotInfo::new)
            .map_err(engine_error)
    }

    fn forget(&self, py: Python<'_>, namespace: &str) -> PyResult<bool> {
        py.detach(|| self.engine.forget(namespace))
            .map_err(engine_error)
    }
}

/// Adds this file's classes and functions to the module.
pub(crate) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add("EngineError", module.py().get_type::<EngineError>())?;
    module.add("PackingError", module.py().get_type::<PackingError>())?;
    module.add_class::<DeviceShape>()?;
    module.add_class::<PackedStep>()?;
    module.add_class::<Plan>()?;
    module.add_class::<DraftPlan>()?;
    module.add_class::<Finish>()?;
    module.add_class::<StepOutput>()?;
    module.add_class::<TokenLogprobs>()?;
    module.add_class::<Load>()?;
    module.add_class::<CorpusInfo>()?;
    module.add_class::<NamespaceInfo>()?;
    module.add_class::<SnapshotInfo>()?;
    module.add_class::<Engine>()?;
    module.add_function(wrap_pyfunction!(plan::choice_seed, module)?)
}
