//! The drafter of one request.

use std::sync::Arc;

use crate::draft::best_first::{BestFirst, Bounds, Expectations, Trained};
use crate::draft::corpus_order::CorpusOrder;
use crate::draft::head::Head;
use crate::draft::head_modes;
use crate::draft::tree_builder::{ROOT, TreeBuilder};
use crate::score::calibration::Calibration;
use crate::score::mixer::Mixer;
use crate::sources::all::{AllSources, SHARED_LIMITS, Visits};
use crate::sources::corpora::read_budget::ReadBudget;
use crate::sources::prediction::Prediction;
use crate::sources::recycled::growing::GrowingTable;
use crate::sources::text::Text;
use crate::store::chains::{LIMITS, ORDERS, context_of};
use crate::store::extent::InsertedRange;
use crate::store::grant::{Room, Unbounded};
use crate::store::view::View;
use crate::{DraftConfig, DraftMode, DraftTree, SharedTrie, TokenId, Weights, draft::fixed_modes};

/// Keys of a request's own table of recycled tokens at most: the answers of a few hundred steps.
const MAX_RECYCLED_KEYS: usize = 4096;

/// A node of a draft that the output reached, and the token that came there.
type Label = (u32, TokenId);

/// Drafts for one request. Owns its prompt, prediction and output, and reads its namespace.
///
/// # Example
///
/// ```
/// use spectrie_trie::{DraftConfig, Drafter};
///
/// let mut drafter = Drafter::new(DraftConfig::default(), None);
/// drafter.push_prompt(&[1, 2, 3, 4, 5, 6, 7, 8, 9]);
/// drafter.push_output(&[1, 2, 3, 4, 5]);
/// let tree = drafter.draft(3, 0.0);
/// assert_eq!(tree.path_tokens(2), [6, 7, 8]);
///
/// // The model took 6 and 7, then said 50.
/// drafter.observe(&tree, &[0, 1]);
/// drafter.push_output(&[6, 7, 50]);
/// ```
#[derive(Debug)]
pub struct Drafter {
    pub(super) config: DraftConfig,
    pub(super) shared: Option<Arc<SharedTrie>>,
    /// Whether the namespace takes over what this request learns.
    pub(super) contributes: bool,
    pub(super) request: Text,
    prediction: Prediction,
    output_start: Option<usize>,
    pub(super) builder: TreeBuilder,
    pub(super) search: BestFirst,
    /// Where its texts and its table have their bytes from.
    room: Arc<dyn Room>,
    pub(super) recycled: GrowingTable,
    pub(super) mixer: Mixer,
    calibration: Calibration,
    pub(super) head: Head,
    /// The node of the last draft that the output has reached, while it follows the draft.
    reached: Option<u32>,
    /// Whether labels wait for [`Drafter::train`].
    trains_later: bool,
    /// Whether only the answers of a drafter of the runner's are drafted from.
    is_textless: bool,
    /// Labels that have not trained the scores yet: of the last draft, and of the one before it
    /// with what that expected.
    labels: Vec<Label>,
    earlier: (Vec<Label>, Expectations),
    /// The shared text that the last draft read, from its oldest block on, and what that took.
    pub(super) first_block: u64,
    visits: Visits,
    pub(super) corpus_order: CorpusOrder,
    /// Shared text that this request wrote.
    excluded: Vec<InsertedRange>,
}

impl Drafter {
    /// Creates a drafter without text. Settings out of range are clamped: see
    /// [`DraftConfig::validate`]. Without `shared` it drafts from the request's own texts only.
    pub fn new(config: DraftConfig, shared: Option<Arc<SharedTrie>>) -> Self {
        let learned = shared.as_ref().and_then(|shared| shared.learned());
        let weights = learned.map_or_else(Weights::default, |learned| learned.get(false));
        let head = Head::new(learned);
        let room: Arc<dyn Room> = match &shared {
            Some(shared) => Arc::clone(shared) as Arc<dyn Room>,
            None => Arc::new(Unbounded),
        };
        Self {
            config: config.clamped(),
            shared,
            contributes: true,
            request: Text::within(Arc::clone(&room)),
            prediction: Prediction::default(),
            output_start: None,
            builder: TreeBuilder::default(),
            search: BestFirst::default(),
            recycled: GrowingTable::new(MAX_RECYCLED_KEYS),
            room,
            mixer: Mixer::new(weights),
            calibration: Calibration::default(),
            head,
            reached: None,
            trains_later: false,
            is_textless: false,
            labels: Vec::new(),
            earlier: <_>::default(),
            first_block: 0,
            visits: Visits::default(),
            corpus_order: CorpusOrder::default(),
            excluded: Vec::new(),
        }
    }

    /// Sets whether the namespace receives the model's answers to this request, the weights that it
    /// learns, and credit for what the model accepted. Default true.
    #[must_use]
    pub fn contributes(mut self, contributes: bool) -> Self {
        self.contributes = contributes;
        self
    }

    /// Sets whether only [`Drafter::train`] trains the scores, when the caller has time, instead of
    /// each push of output. Default false.
    #[must_use]
    pub fn trains_later(mut self, later: bool) -> Self {
        self.trains_later = later;
        self
    }

    /// Sets whether the namespace hears what a drafter of the runner's was worth to this request, in mode `auto`: not
    /// where trees are cut to fewer nodes than its answers promise. Default true.
    #[must_use]
    pub fn judges_head(mut self, judges: bool) -> Self {
        self.head.judges = judges;
        self
    }

    /// Drafts from the answers of a drafter of the runner's alone, in mode `auto`: what that is worth without
    /// text.
    #[must_use]
    pub fn textless(mut self) -> Self {
        self.is_textless = true;
        self
    }

    /// Replaces the weights of the namespace and the training rate per label.
    #[must_use]
    pub fn with_weights(mut self, weights: Weights, rate: f32) -> Self {
        self.mixer = Mixer::given(weights, rate);
        self
    }

    /// Replaces the training rate per label of what a drafter of the runner's answers.
    #[must_use]
    pub fn with_head_rate(mut self, rate: f32) -> Self {
        self.mixer.set_head_rate(rate);
        self
    }

    /// Returns the weights of the scores as trained so far.
    pub fn weights(&self) -> &Weights {
        self.mixer.all()
    }

    /// Excludes text this request itself added to its namespace, all of [`Insertion::ranges`]: it
    /// must not count twice.
    ///
    /// [`Insertion::ranges`]: crate::Insertion::ranges
    pub fn exclude(&mut self, ranges: &[InsertedRange]) {
        self.excluded.clear();
        self.excluded.extend_from_slice(ranges);
    }

    /// Makes room for so many tokens of prompt and output at once, if there is any: then the index
    /// need not be built again as they come.
    pub fn reserve(&mut self, tokens: usize) {
        self.request.reserve(tokens);
    }

    /// Appends prompt tokens, in order and in any number of pieces. Amortised constant time per
    /// token.
    pub fn push_prompt(&mut self, tokens: &[TokenId]) {
        self.request.extend(tokens);
        self.reached = None;
    }

    /// Sets the text that the output is expected to resemble from its first token on. Replaces an
    /// earlier prediction and its count.
    pub fn set_prediction(&mut self, tokens: &[TokenId]) {
        self.prediction = Prediction::new(tokens, Text::within(Arc::clone(&self.room)));
    }

    /// Records the model's top tokens after `last`, whose predecessor on its path is `before`: at
    /// most [`TOP_K`](spectrie_types::sizes::TOP_K), descending, with their probabilities at
    /// temperature 1. Accepts any row of a forward, rejected nodes included.
    pub fn recycle(&mut self, before: Option<TokenId>, last: TokenId, top: &[(TokenId, f32)]) {
        self.recycled
            .put(before, last, top, |more, _| self.room.ask(more));
        if let Some(shared) = self.shared.as_ref().filter(|_| self.contributes) {
            shared.recycle(before, last, top);
        }
    }

    /// Appends emitted tokens, in order. They also train the scores of the last draft, now or at
    /// the next [`Drafter::train`], so push each emitted token exactly once.
    pub fn push_output(&mut self, tokens: &[TokenId]) {
        let start = *self.output_start.get_or_insert(self.request.tokens().len());
        for &token in tokens {
            self.label(token);
            self.request.push(token);
            self.prediction.advance(&self.request.tokens()[start..]);
        }
        if !self.trains_later {
            self.train();
        }
        if let Some(learned) = self.shared.as_ref().and_then(|shared| shared.learned()) {
            self.mixer.choose(self.calibration, learned);
        }
    }

    /// Labels the node of the last draft that the output has reached.
    fn label(&mut self, token: TokenId) {
        let Some(node) = self.reached else { return };
        let expected = &self.search.expected;
        let (calibration, asked) = (&mut self.calibration, &mut self.head.calibrations);
        if expected.label(node, token, calibration, asked) {
            self.labels.push((node, token));
        }
        let child = self.builder.child(node, token);
        if let Some((drafter, place)) = expected.asked_at(node) {
            let came = self.builder.came(node, place.price(), child);
            self.head.note(drafter, place, came);
        }
        self.reached = child;
    }

    /// Trains the scores with the output pushed since the last call. Takes a few microseconds per
    /// step.
    pub fn train(&mut self) {
        let (earlier, expected) = &mut self.earlier;
        let old = earlier.drain(..).map(|label| (label, &*expected));
        let new = self.labels.drain(..);
        for ((node, token), expected) in old.chain(new.map(|label| (label, &self.search.expected)))
        {
            expected.learn(node, token, &self.builder.scorer, &mut self.mixer);
        }
    }

    /// Lays what the last draft expected aside, for labels that there was no time for.
    fn lay_labels_aside(&mut self) {
        if self.labels.is_empty() {
            return;
        }
        let (earlier, expected) = &mut self.earlier;
        // Only one draft is remembered beside the last one.
        for (node, token) in earlier.drain(..) {
            expected.learn(node, token, &self.builder.scorer, &mut self.mixer);
        }
        std::mem::swap(earlier, &mut self.labels);
        std::mem::swap(expected, &mut self.search.expected);
    }

    /// Returns likely continuations of the text pushed so far: at most `max_nodes` nodes, each with
    /// a value of at least `min_value`. May be empty.
    ///
    /// `min_value` is the price of a row in accepted tokens; the fixed modes ignore it. Takes about
    /// ten microseconds for 16 nodes, independent of the length of the text.
    pub fn draft(&mut self, max_nodes: usize, min_value: f32) -> DraftTree {
        self.lay_labels_aside();
        let (text, corpora, recycled, bigrams) = match &self.shared {
            Some(shared) => (
                Some(shared.view()),
                shared.corpora(),
                shared.recycled(),
                shared.bigrams(),
            ),
            None => (None, Arc::default(), None, None),
        };
        let own_recycled = self.recycled.table();
        self.corpus_order.sort(&corpora);
        let reads = ReadBudget::default();
        let sources = AllSources {
            prediction: self.prediction.text(),
            request: &self.request,
            shared: text.as_deref(),
            excluded: &self.excluded,
            corpora: self.corpus_order.corpora(),
            reads: &reads,
            recycled: [own_recycled.as_deref(), recycled.as_deref()],
            bigrams: bigrams.as_deref(),
            asked: &self.head.asked,
        };
        self.first_block = text.as_deref().map_or(0, View::first_id);
        let adaptive = self.config.mode == DraftMode::Auto;
        let beams = self.config.beams();
        let is_textless = beams.is_some() || (self.is_textless && adaptive);
        let sources = if is_textless {
            sources.answers_alone()
        } else {
            sources
        };
        let limits = if is_textless {
            [[0; ORDERS.len()]; 2]
        } else if adaptive {
            [LIMITS, SHARED_LIMITS]
        } else {
            [fixed_modes::LIMITS; 2]
        };
        let context = context_of(self.request.tokens());
        self.visits = sources.collect(context, limits, &mut self.builder.occurrences);
        let asked = self.head.asked.root().filter(|_| adaptive || is_textless);
        let cursor = self.prediction.cursor().filter(|_| !is_textless);
        self.builder.start(context, cursor, asked);
        if adaptive {
            self.builder.start_hints(&sources, context);
            let bounds = Bounds {
                max_nodes,
                max_depth: self.config.max_depth,
                min_value,
                hints: self.config.hints && !is_textless,
            };
            let trained = Trained {
                mixer: &self.mixer,
                calibration: self.calibration,
                asked: self.head.calibration(),
            };
            self.search.search(
                &mut self.builder,
                &sources,
                &self.prediction,
                trained,
                bounds,
            );
            self.reached = Some(ROOT);
        } else {
            let (config, builder, prediction) = (&self.config, &mut self.builder, &self.prediction);
            match beams {
                Some(beams) => {
                    head_modes::select(config, max_nodes, beams, builder, &sources, prediction);
                }
                None => fixed_modes::select(config, max_nodes, builder, &sources, prediction),
            }
            self.search.clear();
            self.reached = None;
        }
        self.builder.tree()
    }

    /// Whether it drafts from a namespace's text and corpora too.
    pub fn reads_memory(&self) -> bool {
        self.shared.is_some()
    }

    /// What looking into shared text and corpora took in the last draft: a count, on any machine
    /// the same.
    pub fn visits(&self) -> Visits {
        self.visits
    }

    /// The candidates of the root and what was seen of each.
    #[cfg(test)]
    pub(crate) fn root_evidence(&mut self) -> Vec<(TokenId, crate::score::evidence::Evidence)> {
        self.draft(0, 0.0);
        self.search.expected.of_root()
    }

    /// Returns the number of emitted tokens that equalled the token at the prediction's cursor.
    /// Each predicted token counts once, drafted or not, so the count depends on the output alone.
    pub fn accepted_prediction_tokens(&self) -> u32 {
        self.prediction.num_accepted()
    }
}

impl Drop for Drafter {
    fn drop(&mut self) {
        self.train();
        let shared = self.shared.as_ref().filter(|_| self.contributes);
        if let Some(learned) = shared.and_then(|shared| shared.learned()) {
            self.mixer.leave(learned);
            // The fixed modes find out nothing of a drafter.
            if self.config.mode == DraftMode::Auto {
                self.head.leave(learned);
            }
        }
    }
}
