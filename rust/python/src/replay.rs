//! Python face of `spectrie_trie::replay`.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyDict;
use spectrie_trie::replay::{
    self, AskRule, Bin, HeadAnswers, HeadEntry, ReplayConfig, ReplayRequest, TopEntries,
};
use spectrie_trie::{Corpus, DraftConfig, MemoryConfig};
use spectrie_types::Source;
use spectrie_types::options::MEMORY_BYTES;

use crate::bigrams::Bigrams;
use crate::errors::trie_error;

/// Sources that draft, in the order of their numbers.
const DRAFTING: [Source; 6] = [
    Source::Prediction,
    Source::Request,
    Source::Shared,
    Source::Corpus,
    Source::Recycled,
    Source::Head,
];

/// A replay; see the stub file.
#[pyclass(frozen, module = "spectrie._core")]
struct Replay {
    replay: Mutex<replay::Replay>,
}

impl Replay {
    fn lock(&self) -> MutexGuard<'_, replay::Replay> {
        self.replay.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[pymethods]
impl Replay {
    #[new]
    #[pyo3(signature = (*, nodes=16, min_value=0.0, mode="auto", memory="cold", corpora=Vec::new(),
                        corpus_ids=None, recycle=true, hints=true, max_depth=18,
                        memory_bytes=MEMORY_BYTES, costs=Vec::new(), bigrams=None, head="off",
                        head_levels=AskRule::default().levels, head_rows=AskRule::default().rows,
                        head_least_gain=AskRule::default().least_gain,
                        head_probe_every=AskRule::default().probe_every))]
    #[expect(clippy::too_many_arguments, reason = "keywords of the Python class")]
    fn new(
        py: Python<'_>,
        nodes: usize,
        min_value: f32,
        mode: &str,
        memory: &str,
        corpora: Vec<PathBuf>,
        corpus_ids: Option<Vec<Vec<u32>>>,
        recycle: bool,
        hints: bool,
        max_depth: usize,
        memory_bytes: usize,
        costs: Vec<f64>,
        bigrams: Option<Py<Bigrams>>,
        head: &str,
        head_levels: usize,
        head_rows: usize,
        head_least_gain: f32,
        head_probe_every: u64,
    ) -> PyResult<Self> {
        let config = ReplayConfig {
            draft: DraftConfig {
                mode: mode.parse().map_err(trie_error)?,
                max_depth,
                hints,
                ..DraftConfig::default()
            },
            max_nodes: nodes,
            min_value,
            costs,
            memory: memory.parse().map_err(trie_error)?,
            bounds: MemoryConfig {
                capacity_bytes: memory_bytes,
                ..MemoryConfig::default()
            },
            recycle,
            head: head.parse().map_err(trie_error)?,
            ask: AskRule {
                levels: head_levels,
                rows: head_rows,
                least_gain: head_least_gain,
                price: 0.0,
                probe_every: head_probe_every,
            },
        };
        let replay = py.detach(|| {
            let mut replay = replay::Replay::new(config)?;
            if let Some(bigrams) = &bigrams {
                replay.set_bigrams(Arc::clone(&bigrams.get().table));
            }
            for path in &corpora {
                replay.add_corpus(Corpus::open(path)?)?;
            }
            if let Some(documents) = &corpus_ids {
                replay.add_documents("documents", documents.iter().map(Vec::as_slice))?;
            }
            Ok(replay)
        });
        let replay = replay.map_err(trie_error)?;
        Ok(Self {
            replay: Mutex::new(replay),
        })
    }

    #[pyo3(signature = (prompt_ids, output_ids, prediction_ids=None, namespace="default", topk=None,
                        head=None))]
    #[expect(clippy::too_many_arguments, reason = "arguments of the Python method")]
    fn push(
        &self,
        py: Python<'_>,
        prompt_ids: Vec<u32>,
        output_ids: Vec<u32>,
        prediction_ids: Option<Vec<u32>>,
        namespace: &str,
        topk: Option<(Bound<'_, PyAny>, Bound<'_, PyAny>)>,
        head: Option<Vec<Vec<[Bound<'_, PyAny>; 4]>>>,
    ) -> PyResult<()> {
        let prediction_ids = prediction_ids.unwrap_or_default();
        let top = topk
            .map(|(ids, probabilities)| top_entries(&ids, &probabilities))
            .transpose()?;
        let head = head.map(head_answers).transpose()?;
        py.detach(|| {
            self.lock().push(&ReplayRequest {
                prompt: &prompt_ids,
                output: &output_ids,
                prediction: &prediction_ids,
                namespace,
                top: top.as_ref(),
                head: head.as_ref(),
            })
        })
        .map_err(trie_error)
    }

    #[pyo3(signature = (prompt_ids, output_ids, topk=None))]
    fn names(
        &self,
        py: Python<'_>,
        prompt_ids: Vec<u32>,
        output_ids: Vec<u32>,
        topk: Option<(Bound<'_, PyAny>, Bound<'_, PyAny>)>,
    ) -> PyResult<Vec<Vec<u32>>> {
        let top = topk
            .map(|(ids, probabilities)| top_entries(&ids, &probabilities))
            .transpose()?;
        py.detach(|| {
            self.lock().names(&ReplayRequest {
                top: top.as_ref(),
                ..ReplayRequest::new(&prompt_ids, &output_ids)
            })
        })
        .map_err(trie_error)
    }

    fn report<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let report = py.detach(|| self.lock().report());
        let dict = PyDict::new(py);
        dict.set_item("requests", report.requests)?;
        dict.set_item("output_tokens", report.output_tokens)?;
        dict.set_item("steps", report.steps)?;
        dict.set_item("accepted_tokens", report.accepted_tokens)?;
        dict.set_item("drafted_tokens", report.drafted_tokens)?;
        dict.set_item("accepted_per_step", report.accepted_per_step)?;
        dict.set_item("tokens_per_step", report.tokens_per_step)?;
        dict.set_item("drafted_per_step", report.drafted_per_step)?;
        dict.set_item("accepted_per_drafted", report.accepted_per_drafted)?;
        dict.set_item("head_levels", report.head_levels)?;
        dict.set_item("head_rows", report.head_rows)?;
        dict.set_item("head_answers", report.head_answers)?;
        dict.set_item("draft_us_p50", report.draft_us_p50)?;
        dict.set_item("draft_us_p99", report.draft_us_p99)?;
        dict.set_item("update_us_p50", report.update_us_p50)?;
        dict.set_item("insert_tokens_per_second", report.insert_tokens_per_second)?;
        dict.set_item("bytes_per_token", report.bytes_per_token)?;
        dict.set_item("memory_bytes", report.memory_bytes)?;
        dict.set_item("memory_tokens", report.memory_tokens)?;
        dict.set_item("evicted_tokens", report.evicted_tokens)?;
        let bins: Vec<_> = (0..10)
            .map(|tenth| f64::from(tenth) / 10.0)
            .zip(&report.calibration)
            .map(|(from, bin)| bin_dict(py, bin, from, (from * 10.0 + 1.0) / 10.0))
            .collect::<PyResult<_>>()?;
        dict.set_item("calibration", bins)?;
        let overall = bin_dict(py, &report.calibration_overall, 0.0, 1.0)?;
        dict.set_item("calibration_overall", overall)?;
        let by_source = PyDict::new(py);
        for source in DRAFTING {
            let count = report.accepted_by_source[source as usize - 1];
            by_source.set_item(source.name(), count)?;
        }
        dict.set_item("accepted_by_source", by_source)?;
        dict.set_item("steps_by_drafted", report.steps_by_drafted)?;
        Ok(dict)
    }
}

fn bin_dict<'py>(py: Python<'py>, bin: &Bin, from: f64, to: f64) -> PyResult<Bound<'py, PyDict>> {
    let dict = PyDict::new(py);
    dict.set_item("from", from)?;
    dict.set_item("to", to)?;
    dict.set_item("trials", bin.trials)?;
    dict.set_item("expected", bin.expected)?;
    dict.set_item("actual", bin.actual)?;
    Ok(dict)
}

/// Entries from two lists of rows, or two arrays.
fn top_entries(ids: &Bound<'_, PyAny>, probabilities: &Bound<'_, PyAny>) -> PyResult<TopEntries> {
    let ids: Vec<Vec<u32>> = plain(ids)?.extract()?;
    let probabilities: Vec<Vec<f32>> = plain(probabilities)?.extract()?;
    if ids.len() != probabilities.len() {
        let (ids, probabilities) = (ids.len(), probabilities.len());
        let message = format!("topk has {ids} rows of ids and {probabilities} of probabilities");
        return Err(PyValueError::new_err(message));
    }
    let mut top = TopEntries::default();
    for (index, (ids, probabilities)) in ids.into_iter().zip(probabilities).enumerate() {
        if ids.len() != probabilities.len() {
            let (ids, probabilities) = (ids.len(), probabilities.len());
            let message = format!("topk[{index}] has {ids} ids and {probabilities} probabilities");
            return Err(PyValueError::new_err(message));
        }
        top.push(ids.into_iter().zip(probabilities))
            .map_err(trie_error)?;
    }
    Ok(top)
}

/// Answers by output token and level: likeliest ids, their probabilities, further ids, theirs.
fn head_answers(places: Vec<Vec<[Bound<'_, PyAny>; 4]>>) -> PyResult<HeadAnswers> {
    let mut answers = HeadAnswers::default();
    for (index, levels) in places.into_iter().enumerate() {
        let entries = levels.into_iter().map(|[ids, given, scored_ids, scored]| {
            Ok(HeadEntry {
                likeliest: pairs(index, &ids, &given)?,
                scored: pairs(index, &scored_ids, &scored)?,
            })
        });
        let entries: Vec<_> = entries.collect::<PyResult<_>>()?;
        answers.push(entries).map_err(trie_error)?;
    }
    Ok(answers)
}

/// Ids with their probabilities, of the answers at an output token.
fn pairs(
    index: usize,
    ids: &Bound<'_, PyAny>,
    probabilities: &Bound<'_, PyAny>,
) -> PyResult<Vec<(u32, f32)>> {
    let ids: Vec<u32> = plain(ids)?.extract()?;
    let probabilities: Vec<f32> = plain(probabilities)?.extract()?;
    if ids.len() != probabilities.len() {
        let (ids, probabilities) = (ids.len(), probabilities.len());
        let message = format!("head[{index}] has {ids} ids and {probabilities} probabilities");
        return Err(PyValueError::new_err(message));
    }
    Ok(ids.into_iter().zip(probabilities).collect())
}

/// An array as lists; a base install has no NumPy to ask for its memory.
fn plain<'py>(value: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
    if value.hasattr("tolist")? {
        value.call_method0("tolist")
    } else {
        Ok(value.clone())
    }
}

/// Adds this file's classes and functions to the module.
pub(crate) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<Replay>()
}
