//! The drafts of one request, and the text that it inserts in shared memory.

use std::sync::Arc;

use spectrie_sampling::AllowedTokens;
use spectrie_trie::{DraftMemory, DraftTree, Drafter, Inquiry, Insertion, SharedTrie, Visits};
use spectrie_types::limits::MAX_DRAFT_TOKENS;
use spectrie_types::{Recycle, Source, SpeculationMode};

use super::asking::{Backoff, Job};
use super::grammar_drafts::GrammarDrafts;
use super::tree::SentTree;
use crate::config::{EngineConfig, draft_config};
use crate::request::Request;

/// Output tokens that a running request keeps back: a stop text that is found after the step may
/// still cut what the step emitted, and a step emits this many at most.
const KEPT_BACK_TOKENS: usize = MAX_DRAFT_TOKENS + 1;

/// Most tokens that are taught at once, which takes about a millisecond: the next plan may wait for
/// that. More come at once where the prefix cache has most of a long prompt.
const MAX_TAUGHT_TOKENS: usize = 4096;

/// What one request drafts from, and where its text goes.
#[derive(Debug)]
pub(crate) struct Drafting {
    /// `None` when nothing is drafted and no prediction is followed.
    /// Boxed: requests move between maps at every step.
    drafter: Option<Box<Drafter>>,
    mode: SpeculationMode,
    recycle: Recycle,
    /// Shapes drafts by the grammar of the answer; `None` without one or without drafts.
    grammar: Option<GrammarDrafts>,
    pub(super) backoff: Backoff,
    /// Whether the last plan asked it for drafts; true before the first.
    pub(super) is_asked: bool,
    /// Tokens of prompt ++ output whose likeliest successors the drafter has.
    num_recycled: usize,
    max_nodes: usize,
    /// Where this request's text is inserted; `None` when it may not be.
    memory: Option<Arc<SharedTrie>>,
    /// The document that this request is writing there.
    lesson: Option<Insertion>,
    /// Tokens of prompt ++ output that it has.
    num_taught: usize,
    num_prompt: usize,
    /// Tokens of prompt ++ output that the drafter has.
    num_fed: usize,
    /// Tokens that its last step gave.
    num_fresh: usize,
    /// The prediction, until the first tokens are fed: a request that waits has no index of it.
    prediction_ids: Vec<u32>,
    /// Accepted prediction tokens before the first token of this attempt and after each one.
    prediction_counts: Vec<u32>,
}

impl Drafting {
    pub(crate) fn new(
        request: &Request,
        tokens: &[u32],
        num_prompt: usize,
        config: &EngineConfig,
        memory: Option<&DraftMemory>,
    ) -> Self {
        // An engine that does not speculate has its reasons: a request cannot overrule them.
        let mode = match config.speculation {
            SpeculationMode::Off => SpeculationMode::Off,
            engine => request.speculation.unwrap_or(engine),
        };
        let asked = request
            .max_draft_tokens
            .map_or(usize::MAX, |asked| asked as usize);
        let max_nodes = config.max_draft_tokens.min(asked);
        let drafts = mode != SpeculationMode::Off && max_nodes > 0;
        let shared = memory
            .filter(|_| drafts || request.learn)
            .map(|memory| memory.namespace_of(request.tenant.as_deref(), &request.namespace));
        let drafter = (drafts || !request.prediction_ids.is_empty()).then(|| {
            let drafter = Drafter::new(
                draft_config(config, mode),
                shared.clone().filter(|_| drafts),
            )
            .contributes(request.learn)
            .judges_head(mode == SpeculationMode::Auto)
            .trains_later(true);
            Box::new(drafter)
        });
        let mode_of_drafts = if drafts { mode } else { SpeculationMode::Off };
        let grammar = request
            .grammar
            .as_ref()
            .filter(|_| mode_of_drafts != SpeculationMode::Off)
            .map(|grammar| GrammarDrafts::new(grammar, &tokens[num_prompt..]));
        Self {
            drafter,
            mode: mode_of_drafts,
            // The fixed modes draft from texts alone.
            recycle: match mode {
                SpeculationMode::Auto | SpeculationMode::Tiers if drafts => config.recycle,
                _ => Recycle::Off,
            },
            grammar,
            backoff: Backoff::default(),
            is_asked: true,
            num_recycled: 0,
            max_nodes,
            memory: shared.filter(|_| request.learn),
            lesson: None,
            num_taught: 0,
            num_prompt,
            num_fed: 0,
            num_fresh: 0,
            prediction_ids: request.prediction_ids.clone(),
            prediction_counts: vec![0],
        }
    }

    pub(crate) fn mode(&self) -> SpeculationMode {
        self.mode
    }

    /// Tokens that its last step gave.
    pub(super) fn num_fresh(&self) -> usize {
        self.num_fresh
    }

    /// The prediction, as long as it waits for the first tokens.
    pub(crate) fn prediction_ids(&self) -> &[u32] {
        &self.prediction_ids
    }

    /// Whether it drafts from draft memory too.
    pub(super) fn reads_memory(&self) -> bool {
        self.drafter.as_ref().is_some_and(|one| one.reads_memory())
    }

    /// Most draft nodes of a step.
    pub(crate) fn max_nodes(&self) -> usize {
        self.max_nodes
    }

    /// Whether the drafter takes the likeliest tokens after each row. One that was not asked for
    /// drafts has no use for it, and the model would search for the likeliest tokens for nothing.
    pub(crate) fn recycles(&self) -> bool {
        self.recycle != Recycle::Off && self.is_asked
    }

    /// The first prompt token whose row is wanted for recycling; `None` when none is.
    pub(crate) fn first_top(&self) -> Option<usize> {
        (self.recycle == Recycle::All).then_some(self.num_recycled)
    }

    /// Trains its scores with what was emitted since the last call.
    pub(crate) fn train(&mut self) {
        if let Some(drafter) = &mut self.drafter {
            drafter.train();
        }
    }

    /// Gives the drafter the model's result after `last`, which followed `before`.
    pub(crate) fn recycle(&mut self, before: Option<u32>, last: u32, top: &[(u32, f32)]) {
        if let Some(drafter) = self
            .drafter
            .as_mut()
            .filter(|_| self.recycle != Recycle::Off)
        {
            drafter.recycle(before, last, top);
        }
    }

    /// Notes that the first `count` tokens need not be computed for recycling again.
    pub(crate) fn note_recycled(&mut self, count: usize) {
        self.num_recycled = self.num_recycled.max(count);
    }

    /// Hands the drafter the tokens up to `tokens`, prompt ++ output of earlier attempts, that it
    /// lacks.
    pub(crate) fn feed(&mut self, tokens: &[u32]) {
        let Some(drafter) = &mut self.drafter else {
            return;
        };
        if self.num_fed == 0 && !tokens.is_empty() {
            drafter.reserve(self.num_prompt);
            let prediction_ids = std::mem::take(&mut self.prediction_ids);
            if !prediction_ids.is_empty() {
                drafter.set_prediction(&prediction_ids);
            }
        }
        let prompt_end = self.num_prompt.min(tokens.len());
        if self.num_fed < prompt_end {
            drafter.push_prompt(&tokens[self.num_fed..prompt_end]);
            self.num_fed = prompt_end;
        }
        if self.num_fed < tokens.len() {
            drafter.push_output(&tokens[self.num_fed..]);
            self.num_fed = tokens.len();
            self.prediction_counts = vec![drafter.accepted_prediction_tokens()];
        }
    }

    /// Likely continuations, at most `most` nodes and none below `min_value`.
    pub(crate) fn draft(&mut self, most: usize, min_value: f32) -> DraftTree {
        match &mut self.drafter {
            Some(drafter) if self.mode != SpeculationMode::Off => {
                drafter.draft(self.max_nodes.min(most), min_value)
            }
            _ => DraftTree::default(),
        }
    }

    /// The drafter, to draft as [`Self::draft`] does on any thread for the one at `index`, until it is taken
    /// back; `None` where nothing is drafted.
    pub(super) fn lend(&mut self, index: usize, most: usize, min_value: f32) -> Option<Job> {
        let drafts = self.mode != SpeculationMode::Off;
        Some(Job {
            index,
            drafter: self.drafter.take_if(|_| drafts)?,
            most: self.max_nodes.min(most),
            min_value,
        })
    }

    /// Takes back what was lent.
    pub(super) fn take_back(&mut self, drafter: Box<Drafter>) {
        self.drafter = Some(drafter);
    }

    /// Gives a drafter of the runner's the turn to be asked about this request.
    pub(super) fn turn_to(&mut self, number: usize) {
        if let Some(drafter) = &mut self.drafter {
            drafter.turn_to(number);
        }
    }

    /// Nodes of the last draft that a drafter of the runner's may be asked about at a level.
    pub(super) fn frontier(&self, level: u16, price: f32) -> Vec<Inquiry> {
        let drafter = self.drafter.as_ref();
        drafter.map_or_else(Vec::new, |drafter| drafter.frontier(level, price))
    }

    /// Notes that an inquiry was not answered.
    pub(super) fn unanswered(&mut self, inquiry: &Inquiry) {
        if let Some(drafter) = &mut self.drafter {
            drafter.unanswered(inquiry);
        }
    }

    /// Takes the answer to an inquiry; gives its number.
    pub(super) fn answer(
        &mut self,
        inquiry: &Inquiry,
        likeliest: &[(u32, f32)],
        named: Vec<(u32, f32)>,
        source: Source,
    ) -> Option<u32> {
        let drafter = self.drafter.as_mut()?;
        Some(drafter.answer(inquiry, likeliest, named, source))
    }

    /// Forgets the answers of the last step.
    pub(super) fn forget_answers(&mut self) {
        if let Some(drafter) = &mut self.drafter {
            drafter.forget_answers();
        }
    }

    /// What looking into shared text and corpora took in the last draft.
    pub(super) fn visits(&self) -> Visits {
        let drafter = self.drafter.as_ref();
        drafter.map_or_else(Visits::default, |drafter| drafter.visits())
    }

    /// Drafts without what the grammar, if there is one, does not allow and, in mode auto, with
    /// what it forces, at most `most` nodes of that.
    pub(crate) fn shape(&mut self, tree: DraftTree, most: usize) -> DraftTree {
        let forces = self.mode == SpeculationMode::Auto;
        match &mut self.grammar {
            Some(grammar) => grammar.shape(tree, most, forces),
            None => tree,
        }
    }

    /// What an answer under a grammar may draw after each node of `tree`, as
    /// [`GrammarDrafts::allowed`] finds it.
    pub(crate) fn allowed(
        &mut self,
        tree: &SentTree,
        root: &[u32],
        heeds_eos: bool,
    ) -> Option<Vec<Option<AllowedTokens>>> {
        self.grammar.as_mut()?.allowed(tree, root, heeds_eos)
    }

    /// Takes what a step emitted; `path` are the accepted rows of `tree`.
    pub(crate) fn advance(&mut self, tree: Option<(&SentTree, &[usize])>, emitted: &[u32]) {
        self.num_fresh = emitted.len();
        if let Some(grammar) = &mut self.grammar {
            grammar.push(emitted);
        }
        let Some(drafter) = &mut self.drafter else {
            return;
        };
        if let Some((tree, path)) = tree.filter(|_| !emitted.is_empty()) {
            let accepted: Vec<u32> = path.iter().map(|&row| tree.offered_index(row)).collect();
            drafter.observe(tree.offered(), &accepted);
        }
        for token in emitted {
            drafter.push_output(std::slice::from_ref(token));
            self.prediction_counts
                .push(drafter.accepted_prediction_tokens());
        }
        self.num_fed += emitted.len();
    }

    /// Teaches the namespace what of `tokens`, computed so far, can no longer be cut: prompt tokens
    /// at once, output some tokens later, and none but the first `num_certain`. What is too much for one
    /// time is left to the next.
    pub(crate) fn teach_running(&mut self, tokens: &[u32], num_certain: usize) {
        let certain = tokens.len().saturating_sub(KEPT_BACK_TOKENS);
        let certain = certain.min(num_certain);
        let prompt = tokens.len().min(self.num_prompt);
        self.teach(&tokens[..certain.max(prompt)]);
    }

    /// Teaches the namespace the rest of a good answer. Prompt and output are one document, so
    /// that the first tokens of an answer are found by the last ones of the prompt. Says whether that
    /// was all; what is too much for one time is left to the next call.
    pub(crate) fn teach_rest(&mut self, tokens: &[u32]) -> bool {
        if tokens.len() > self.num_prompt {
            self.teach(tokens);
            return self.memory.is_none() || self.num_taught >= tokens.len();
        }
        true
    }

    fn teach(&mut self, tokens: &[u32]) {
        let Some(memory) = self
            .memory
            .as_ref()
            .filter(|_| self.num_taught < tokens.len())
        else {
            return;
        };
        let lesson = self.lesson.get_or_insert_with(|| memory.begin());
        let end = tokens.len().min(self.num_taught + MAX_TAUGHT_TOKENS);
        lesson.push(&tokens[self.num_taught..end]);
        self.num_taught = end;
        if let Some(drafter) = &mut self.drafter {
            drafter.exclude(lesson.ranges());
        }
    }

    /// Output tokens that followed the prediction, of all but the last `num_cut`.
    pub(crate) fn accepted_prediction_tokens(&self, num_cut: usize) -> u32 {
        let index = (self.prediction_counts.len() - 1).saturating_sub(num_cut);
        self.prediction_counts[index]
    }
}
