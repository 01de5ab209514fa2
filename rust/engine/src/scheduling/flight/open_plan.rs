//! A plan whose results are awaited, and whether results fit it.

use std::ops::Range;

use spectrie_types::sizes::TOP_K;

use crate::costs::ForwardSize;
use crate::error::EngineError;
use crate::forward::{LogitRows, StepResults, TopTokens, Verdicts};
use crate::request_key::RequestKey;
use crate::scheduling::running::Running;
use crate::sequence::Sequence;
use crate::speculation::{PlainStep, SentTree, Trial};

/// A plan whose results are awaited.
#[derive(Debug)]
pub(crate) struct OpenPlan {
    pub(crate) plan_id: u64,
    pub(crate) num_rows: usize,
    pub(crate) num_samples: usize,
    /// Sampled rows whose logits are wanted.
    pub(crate) num_logits: usize,
    pub(crate) num_tops: usize,
    /// What the step's tokens and time count for.
    pub(crate) trial: Option<Trial>,
    pub(crate) planned_s: f64,
    /// What planning took.
    pub(crate) plan_ms: f64,
    /// What of that kept drafters and shared memory up to date.
    pub(crate) upkeep_ms: f64,
    /// Whose work is paced, ascending.
    pub(crate) paced: Vec<RequestKey>,
    pub(crate) parts: Vec<Part>,
    /// Whether its rows read tokens that the forward before it drew.
    pub(crate) was_early: bool,
}

/// A plan behind the open one, and what is to be known of its step when it is opened.
#[derive(Debug)]
pub(crate) struct EarlyPlan {
    pub(crate) plan: OpenPlan,
    pub(crate) step: PlainStep,
    /// Whose prompts end with it, so that it gives their first token.
    pub(crate) prompt_ends: Vec<RequestKey>,
}

/// One request's rows of a plan.
#[derive(Debug)]
pub(crate) struct Part {
    pub(crate) key: RequestKey,
    /// Its first row of the forward.
    pub(crate) first_row: usize,
    /// Index of its first sampled row among all sampled rows.
    pub(crate) first_sample: usize,
    /// Index of that row among those whose logits are wanted; `None` where tokens will do.
    pub(crate) first_logits: Option<usize>,
    /// Its rows whose likeliest tokens are wanted, among all of them: the last ones of its rows.
    pub(crate) tops: Range<usize>,
    pub(crate) work: Work,
    /// Whether the tokens that a device draws after draft nodes are of no use: it was not known what
    /// decides them.
    pub(crate) is_root_alone: bool,
}

/// What one request's rows compute.
#[derive(Debug)]
pub(crate) enum Work {
    /// The number of further tokens of a prompt.
    Chunk(usize),
    /// The last emitted token and its drafts.
    Tree(SentTree),
}

impl Part {
    /// What its rows compute, in tiles of `tile_rows`.
    pub(crate) fn size(&self, running: &Running, tile_rows: usize) -> ForwardSize {
        let kv_len = running.get(&self.key).map_or(0, |one| one.kv_len());
        match &self.work {
            Work::Chunk(rows) => ForwardSize::of_chunk(kv_len, *rows, tile_rows),
            Work::Tree(tree) => ForwardSize::of_tree(kv_len, 1 + tree.num_nodes(), tile_rows),
        }
    }

    /// Whether it verifies drafts.
    pub(crate) fn has_drafts(&self) -> bool {
        matches!(&self.work, Work::Tree(tree) if tree.num_nodes() > 0)
    }

    /// Its sampled rows; `sequence` is of its request.
    pub(crate) fn num_samples(&self, sequence: &Sequence) -> usize {
        match &self.work {
            Work::Chunk(rows) => sequence.sampled_indices(*rows).len(),
            Work::Tree(tree) => 1 + tree.num_nodes(),
        }
    }
}

impl OpenPlan {
    /// Whether all requests run that it computes rows of.
    pub(crate) fn is_whole(&self, running: &Running) -> bool {
        self.parts
            .iter()
            .all(|part| running.contains_key(&part.key))
    }

    /// The forward of a step of trees alone; `None` of one that computes prompts, whose rows cost
    /// less than others because they skip the last layer's product with the vocabulary.
    pub(crate) fn size_of_trees(&self, running: &Running, tile_rows: usize) -> Option<ForwardSize> {
        let is_tree = |part: &Part| matches!(part.work, Work::Tree(_));
        let sizes = self.parts.iter().map(|part| part.size(running, tile_rows));
        self.parts.iter().all(is_tree).then(|| sizes.sum())
    }

    /// The forward without paced work; `None` where there is none.
    pub(crate) fn size_unpaced(&self, running: &Running, tile_rows: usize) -> Option<ForwardSize> {
        if self.paced.is_empty() {
            return None;
        }
        let is_unpaced = |part: &&Part| self.paced.binary_search(&part.key).is_err();
        let others = self.parts.iter().filter(is_unpaced);
        Some(others.map(|part| part.size(running, tile_rows)).sum())
    }

    /// Checks that it is known what decides the tokens of all its rows.
    pub(crate) fn check_packable(&self) -> Result<(), EngineError> {
        if self.was_early {
            return Err(EngineError::UnknownPlan {
                given: self.plan_id,
                expected: None,
            });
        }
        Ok(())
    }

    /// Checks that results fit the plan and the size of the vocabulary.
    pub(crate) fn check(
        &self,
        results: &StepResults<'_>,
        vocabulary_size: usize,
        running: &Running,
    ) -> Result<(), EngineError> {
        if let Some(top) = results.top {
            self.check_top(top, vocabulary_size)?;
        }
        match results.verdicts {
            Verdicts::Logits(rows) => {
                let what = "the sampled rows of the plan";
                check_logits(rows, self.num_samples, what, vocabulary_size)
            }
            Verdicts::Tokens(tokens) => {
                self.check_tokens(tokens, vocabulary_size)?;
                self.check_greedy(running)
            }
            Verdicts::Drawn { tokens, logits } => {
                self.check_tokens(tokens, vocabulary_size)?;
                let what = "the sampled rows whose log-probabilities are wanted";
                check_logits(logits, self.num_logits, what, vocabulary_size)
            }
        }
    }

    fn check_tokens(&self, tokens: &[i32], vocabulary_size: usize) -> Result<(), EngineError> {
        let expected = self.num_samples;
        if tokens.len() != expected {
            let allowed = format!("{expected}, the sampled rows of the plan");
            return Err(wrong("number of tokens", tokens.len(), allowed));
        }
        check_ids("token", tokens, vocabulary_size)
    }

    fn check_top(&self, top: TopTokens<'_>, vocabulary_size: usize) -> Result<(), EngineError> {
        let expected = self.num_tops * TOP_K;
        for (what, given) in [
            ("number of top ids", top.ids.len()),
            ("number of top probabilities", top.probabilities.len()),
        ] {
            if given != expected {
                let allowed = format!("{expected}, {TOP_K} for each top row of the plan");
                return Err(wrong(what, given, allowed));
            }
        }
        check_ids("top id", top.ids, vocabulary_size)
    }

    /// Checks that likeliest tokens are all that requests with sampled rows want.
    fn check_greedy(&self, running: &Running) -> Result<(), EngineError> {
        for part in &self.parts {
            let Some(sequence) = running.get(&part.key) else {
                continue;
            };
            if part.num_samples(sequence) > 0 && !sequence.draws.is_plain_greedy() {
                let handle = sequence.request.handle;
                return Err(EngineError::NotGreedy { handle });
            }
        }
        Ok(())
    }
}

fn check_logits(
    rows: LogitRows<'_>,
    expected: usize,
    meaning: &str,
    vocabulary_size: usize,
) -> Result<(), EngineError> {
    let LogitRows {
        values,
        num_rows,
        row_stride,
    } = rows;
    if num_rows != expected {
        let allowed = format!("{expected}, {meaning}");
        return Err(wrong("number of rows", num_rows, allowed));
    }
    if num_rows == 0 {
        return Ok(());
    }
    if row_stride < vocabulary_size {
        let allowed = format!("{vocabulary_size} or more, the vocabulary size");
        return Err(wrong("row stride", row_stride, allowed));
    }
    if values.len() < (num_rows - 1) * row_stride + vocabulary_size {
        let allowed = format!("{num_rows} rows {row_stride} apart");
        return Err(wrong("number of values", values.len(), allowed));
    }
    Ok(())
}

fn check_ids(what: &'static str, ids: &[i32], vocabulary_size: usize) -> Result<(), EngineError> {
    let is_wrong = |&&id: &&i32| id >= 0 && id as usize >= vocabulary_size;
    match ids.iter().find(is_wrong) {
        Some(&id) => Err(wrong(
            what,
            id as usize,
            format!("0 to {}, or below 0 for none", vocabulary_size - 1),
        )),
        None => Ok(()),
    }
}

fn wrong(what: &'static str, given: usize, allowed: String) -> EngineError {
    EngineError::Logits {
        what,
        given,
        allowed,
    }
}
