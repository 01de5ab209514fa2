//! A trace as words, and its replays.

use std::error::Error;
use std::sync::Arc;

use spectrie_trie::replay::{
    AskRule, HeadAnswers, HeadEntry, HeadMode, Replay, ReplayConfig, ReplayRequest, TopEntries,
};
use spectrie_trie::{Bigrams, Corpus, TokenId, Weights};
use spectrie_types::sizes::TOP_K;

#[derive(Default)]
pub(crate) struct Request {
    prompt: Vec<TokenId>,
    output: Vec<TokenId>,
    prediction: Vec<TokenId>,
    top: Option<TopEntries>,
    head: Option<HeadAnswers>,
}

pub(crate) struct Trace {
    pub(crate) name: String,
    pub(crate) requests: Vec<Request>,
    pub(crate) corpus: Option<Arc<Corpus>>,
    pub(crate) bigrams: Option<Arc<Bigrams>>,
}

/// How fast weights are trained, per label.
#[derive(Clone, Copy)]
pub(crate) struct Rates {
    pub(crate) base: f32,
    /// Those of a head's answers; `None` for what a server does.
    pub(crate) head: Option<f32>,
}

impl Trace {
    pub(crate) fn has_answers(&self) -> bool {
        self.requests.iter().any(|request| request.head.is_some())
    }

    /// Begins a replay, which asks a head by `ask`.
    pub(crate) fn replay(&self, head: HeadMode, ask: AskRule) -> Result<Replay, Box<dyn Error>> {
        let mut replay = Replay::new(ReplayConfig {
            head,
            ask,
            ..ReplayConfig::default()
        })?;
        if let Some(corpus) = &self.corpus {
            replay.add_corpus(Arc::clone(corpus))?;
        }
        if let Some(bigrams) = &self.bigrams {
            replay.set_bigrams(Arc::clone(bigrams));
        }
        Ok(replay)
    }

    /// Replays one request, if it exists, from `weights`, and returns the updated ones.
    pub(crate) fn push(
        &self,
        replay: &mut Replay,
        index: usize,
        weights: &Weights,
        rates: Rates,
    ) -> Result<Option<Weights>, Box<dyn Error>> {
        let Some(request) = self.requests.get(index) else {
            return Ok(None);
        };
        replay.set_weights(weights, rates.base);
        if let Some(rate) = rates.head {
            replay.set_head_rate(rate);
        }
        replay.push(&ReplayRequest {
            prediction: &request.prediction,
            top: request.top.as_ref(),
            head: request.head.as_ref(),
            ..ReplayRequest::new(&request.prompt, &request.output)
        })?;
        Ok(replay.trained().cloned())
    }
}

/// The words of a file.
struct Words(std::vec::IntoIter<u32>);

impl Words {
    fn open(path: &str) -> Result<Self, Box<dyn Error>> {
        let bytes = std::fs::read(path).map_err(|error| format!("{path}: {error}"))?;
        let (words, _) = bytes.as_chunks();
        let words: Vec<u32> = words.iter().map(|word| u32::from_le_bytes(*word)).collect();
        Ok(Self(words.into_iter()))
    }

    fn is_over(&self) -> bool {
        self.0.len() == 0
    }

    fn count(&mut self) -> Result<usize, Box<dyn Error>> {
        Ok(self.0.next().ok_or("the trace is cut short")? as usize)
    }

    fn take(&mut self, count: usize) -> Result<Vec<u32>, Box<dyn Error>> {
        let taken: Vec<u32> = self.0.by_ref().take(count).collect();
        if taken.len() == count {
            Ok(taken)
        } else {
            Err("the trace is cut short".into())
        }
    }

    /// Ids, and as many probabilities.
    fn pairs(&mut self, count: usize) -> Result<Vec<(TokenId, f32)>, Box<dyn Error>> {
        let (ids, given) = (self.take(count)?, self.take(count)?);
        Ok(ids
            .into_iter()
            .zip(given.into_iter().map(f32::from_bits))
            .collect())
    }
}

/// The requests of a trace, with the answers of a file of their own.
pub(crate) fn read(path: &str, answers: Option<&str>) -> Result<Vec<Request>, Box<dyn Error>> {
    let mut words = Words::open(path)?;
    let mut requests = Vec::new();
    while !words.is_over() {
        let (num_prompt, num_output) = (words.count()?, words.count()?);
        let (num_prediction, num_top) = (words.count()?, words.count()?);
        let (prompt, output) = (words.take(num_prompt)?, words.take(num_output)?);
        let prediction = words.take(num_prediction)?;
        let mut top = TopEntries::default();
        for _ in 0..num_top {
            top.push(words.pairs(TOP_K)?)?;
        }
        requests.push(Request {
            prompt,
            output,
            prediction,
            top: Some(top).filter(|top| !top.is_empty()),
            head: None,
        });
    }
    let Some(answers) = answers else {
        return Ok(requests);
    };
    let mut words = Words::open(answers)?;
    for request in &mut requests {
        let mut head = HeadAnswers::default();
        for _ in 0..request.output.len() {
            let num_levels = words.count()?;
            let mut levels = Vec::with_capacity(num_levels);
            for _ in 0..num_levels {
                let (num_likeliest, num_scored) = (words.count()?, words.count()?);
                levels.push(HeadEntry {
                    likeliest: words.pairs(num_likeliest)?,
                    scored: words.pairs(num_scored)?,
                });
            }
            head.push(levels)?;
        }
        request.head = Some(head);
    }
    Ok(requests)
}
