//! The replay of requests, one after the other.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Instant;

use spectrie_types::sizes::TOP_K;

use super::asking::{Asking, HeadMode};
use super::budget::worthwhile;
use super::config::{MemoryMode, ReplayConfig};
use super::head_answers::HeadAnswers;
use super::report::ReplayReport;
use super::request::{ReplayRequest, TopEntries};
use super::tally::Tally;
use crate::{
    Bigrams, Corpus, CorpusBuilder, DraftMemory, Drafter, HeadCounts, Readers, SharedTrie, TokenId,
    TrieError, Weights,
};

/// Distinguishes the files of corpora built here.
static NEXT_FILE: AtomicUsize = AtomicUsize::new(0);

/// Replays requests in the order of their arrival and counts drafted and accepted tokens.
///
/// # Example
///
/// ```
/// use spectrie_trie::replay::{Replay, ReplayConfig, ReplayRequest};
///
/// let mut replay = Replay::new(ReplayConfig::default())?;
/// let text: Vec<u32> = (0..40).collect();
/// replay.push(&ReplayRequest::new(&text, &text))?;
/// let report = replay.report();
/// assert!(report.accepted_tokens > 30 && report.steps < 10);
/// # Ok::<(), spectrie_trie::TrieError>(())
/// ```
#[derive(Debug)]
pub struct Replay {
    config: ReplayConfig,
    memory: DraftMemory,
    tally: Tally,
    training: Option<Training>,
}

/// Weights that requests start from in place of their namespace's.
#[derive(Debug)]
struct Training {
    weights: Weights,
    rate: f32,
    /// That of a head's answers.
    head_rate: Option<f32>,
    /// What the last request made of them.
    trained: Weights,
}

impl Replay {
    /// Creates a replay with empty memory.
    ///
    /// # Errors
    ///
    /// [`TrieError`], naming the invalid setting.
    pub fn new(config: ReplayConfig) -> Result<Self, TrieError> {
        config.validate()?;
        Ok(Self {
            memory: DraftMemory::new(config.bounds)?,
            config,
            tally: Tally::default(),
            training: None,
        })
    }

    /// Adds a corpus that every further request drafts from.
    ///
    /// # Errors
    ///
    /// [`TrieError::DuplicateCorpus`].
    pub fn add_corpus(&mut self, corpus: Arc<Corpus>) -> Result<(), TrieError> {
        self.memory.add_corpus(corpus, Readers::All)
    }

    /// Sets the bigram table that every further request drafts from.
    pub fn set_bigrams(&mut self, bigrams: Arc<Bigrams>) {
        self.memory.set_bigrams(Some(bigrams));
    }

    /// Starts every further request with `weights` instead of those of its namespace, and trains
    /// them by `rate` per label.
    pub fn set_weights(&mut self, weights: &Weights, rate: f32) {
        self.training = Some(Training {
            weights: weights.clone(),
            rate,
            head_rate: None,
            trained: weights.clone(),
        });
    }

    /// Trains the weights of a head's answers by another rate than the others. Does nothing before
    /// [`Replay::set_weights`].
    pub fn set_head_rate(&mut self, rate: f32) {
        if let Some(training) = &mut self.training {
            training.head_rate = Some(rate);
        }
    }

    /// Returns what was counted so far of what a head's answers added.
    pub fn head_counts(&self) -> &HeadCounts {
        &self.tally.head_counts
    }

    /// Returns the weights of [`Replay::set_weights`] as the last request trained them; `None`
    /// before such a call.
    pub fn trained(&self) -> Option<&Weights> {
        self.training.as_ref().map(|training| &training.trained)
    }

    /// Builds a corpus called `name` of `documents` in the folder for temporary files, adds it and
    /// deletes its file.
    ///
    /// # Errors
    ///
    /// Those of [`CorpusBuilder`] and of [`Replay::add_corpus`].
    pub fn add_documents<'a>(
        &mut self,
        name: &str,
        documents: impl IntoIterator<Item = &'a [TokenId]>,
    ) -> Result<(), TrieError> {
        let mut builder = CorpusBuilder::new(name, "")?;
        for document in documents {
            builder.push(document)?;
        }
        let (process, number) = (std::process::id(), NEXT_FILE.fetch_add(1, Relaxed));
        let path = std::env::temp_dir().join(format!("spectrie-{process}-{number}.corpus"));
        builder.finish(&path)?;
        let corpus = Corpus::open(&path);
        // Files left in the folder for temporary files do no harm.
        let _ = std::fs::remove_file(&path);
        self.add_corpus(corpus?)
    }

    /// Replays one request.
    ///
    /// # Errors
    ///
    /// [`TrieError::NotAToken`], [`TrieError::TopEntries`] or [`TrieError::HeadAnswers`]; the request is then
    /// not counted.
    pub fn push(&mut self, request: &ReplayRequest<'_>) -> Result<(), TrieError> {
        request.check()?;
        let text = [request.prompt, request.output].concat();
        let online = self.config.memory == MemoryMode::Online;
        let mut drafter = self.drafter(request, online);
        drafter.push_prompt(request.prompt);
        let course = Course {
            text: &text,
            top: request.top.filter(|_| self.config.recycle),
            head: request.head.filter(|_| self.config.head != HeadMode::Off),
            prompt_len: request.prompt.len(),
        };
        let mut position = request.prompt.len();
        course.recycle(&mut drafter, 0..position.saturating_sub(1));
        while position < text.len() {
            position += self.step(&mut drafter, &course, position);
        }
        if let Some(training) = &mut self.training {
            training.trained.clone_from(drafter.weights());
        }
        self.tally.head_counts.add(drafter.head_counts());
        self.tally.requests += 1;
        self.tally.output_tokens += request.output.len() as u64;
        if online {
            self.insert(&self.memory.namespace(request.namespace), &text);
        }
        Ok(())
    }

    fn drafter(&self, request: &ReplayRequest<'_>, contributes: bool) -> Drafter {
        let shared = self.memory.namespace(request.namespace);
        let mut drafter = Drafter::new(self.config.draft, Some(shared)).contributes(contributes);
        if let Some(training) = &self.training {
            drafter = drafter.with_weights(training.weights.clone(), training.rate);
            if let Some(rate) = training.head_rate {
                drafter = drafter.with_head_rate(rate);
            }
        }
        if self.config.head == HeadMode::Only {
            drafter = drafter.textless();
        }
        if !request.prediction.is_empty() {
            drafter.set_prediction(request.prediction);
        }
        drafter
    }

    /// Returns, for each output token, what a drafter of the runner's would be asked about in its place
    /// beside its likeliest: the tokens that other sources name. A recording of answers needs their
    /// probabilities. Counts nothing and teaches nothing.
    ///
    /// # Errors
    ///
    /// As [`Replay::push`].
    pub fn names(&self, request: &ReplayRequest<'_>) -> Result<Vec<Vec<TokenId>>, TrieError> {
        request.check()?;
        let text = [request.prompt, request.output].concat();
        let mut drafter = self.drafter(request, false);
        drafter.push_prompt(request.prompt);
        let course = Course {
            text: &text,
            top: request.top.filter(|_| self.config.recycle),
            head: None,
            prompt_len: request.prompt.len(),
        };
        let first = request.prompt.len();
        course.recycle(&mut drafter, 0..first.saturating_sub(1));
        let names = (first..text.len()).map(|position| {
            drafter.draft(self.config.max_nodes, self.config.min_value);
            let root = drafter.frontier(1, 0.0).pop();
            drafter.push_output(&text[position..=position]);
            course.recycle(&mut drafter, position.saturating_sub(1)..position);
            root.map(|inquiry| inquiry.named).unwrap_or_default()
        });
        Ok(names.collect())
    }

    /// Drafts and accepts once, `position` tokens into the text; gives the number of tokens that
    /// came of it.
    fn step(&mut self, drafter: &mut Drafter, course: &Course<'_>, position: usize) -> usize {
        let rest = &course.text[position..];
        let start = Instant::now();
        drafter.forget_answers();
        let mut tree = drafter.draft(self.config.max_nodes, self.config.min_value);
        if let Some(answers) = course.head {
            let asking = Asking {
                rule: self.config.ask,
                max_nodes: self.config.max_nodes,
                min_value: self.config.min_value,
                answers,
                index: position - course.prompt_len,
            };
            tree = asking.ask(drafter, tree, rest, &mut self.tally);
        }
        let draft_time = start.elapsed();
        let tree = match self.config.costs.as_slice() {
            [] => tree,
            costs => worthwhile(tree, costs),
        };
        let path = tree.walk(rest);
        self.tally.step(&tree, &path, rest);
        let emitted = (path.len() + 1).min(rest.len());
        let start = Instant::now();
        drafter.observe(&tree, &path);
        drafter.push_output(&rest[..emitted]);
        // The forward computed the token before the drafted ones, and those it accepted.
        course.recycle(drafter, position.saturating_sub(1)..position + emitted - 1);
        self.tally.times(draft_time, start.elapsed());
        emitted
    }

    fn insert(&mut self, shared: &SharedTrie, text: &[TokenId]) {
        let start = Instant::now();
        shared.insert(text);
        self.tally.insert_time += start.elapsed();
        self.tally.inserted_tokens += text.len() as u64;
    }

    /// Returns counts, rates and times so far.
    pub fn report(&self) -> ReplayReport {
        let corpora = self.memory.corpora();
        let corpus_tokens: u64 = corpora.iter().map(|corpus| corpus.num_tokens).sum();
        let mut report = self.tally.report();
        report.memory_bytes = (self.memory.bytes() + self.memory.corpus_bytes()) as u64;
        report.memory_tokens = self.memory.num_tokens() + corpus_tokens;
        report.evicted_tokens = self.memory.evicted_tokens();
        report.bytes_per_token = (report.memory_tokens > 0)
            .then(|| report.memory_bytes as f64 / report.memory_tokens as f64);
        report
    }
}

/// A request's whole text, and what the model gave after each token of it.
struct Course<'a> {
    text: &'a [TokenId],
    top: Option<&'a TopEntries>,
    head: Option<&'a HeadAnswers>,
    prompt_len: usize,
}

impl Course<'_> {
    /// Hands over what the model gave after the tokens at `positions`.
    fn recycle(&self, drafter: &mut Drafter, positions: Range<usize>) {
        let Some(top) = self.top else { return };
        for position in positions {
            let entry = top.get(position);
            if !entry.is_empty() {
                let before = position.checked_sub(1).map(|before| self.text[before]);
                drafter.recycle(
                    before,
                    self.text[position],
                    &entry[..entry.len().min(TOP_K)],
                );
            }
        }
    }
}
