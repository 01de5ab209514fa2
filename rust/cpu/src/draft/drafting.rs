//! A drafter beside a decoder: features, store, entries and answers.

use crate::attention::{Attention, AttentionConfig, BatchArrays, PAGE_SIZE};
use crate::buffer::SharedSlice;
use crate::decoder::{
    BLOCK_ROWS, Decoder, Features, Split, Step, TOP_K, Tapped, Target, TopTokens, Workspace,
};
use crate::draft::arrays::{Answers, DraftArrays, UpkeepArrays};
use crate::draft::drafter::{Drafter, Goal, Run};
use crate::draft::fill::Fill;
use crate::draft::kinds::DrafterParts;
use crate::draft::level::{Bounds, Drafted, Level};
use crate::draft::store::FeatureStore;
use crate::draft::upkeep::{Keeping, Links, Upkeep};
use crate::draft::vocabulary::{Answering, Vocabulary};
use crate::error::CpuError;
use crate::simd::Dtype;
use crate::threads::Team;

/// Rows that go through a drafter together.
const LEVEL_ROWS: usize = 64;

/// How much a drafter has room for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DraftSizes {
    /// Draft rows of a step, all levels together.
    pub max_rows: usize,
    /// Rows of the store for running requests, behind those of the pages.
    pub seats: usize,
}

/// A drafter with its entries, and the features that it reads.
pub struct Drafting<E: Dtype> {
    drafter: Box<dyn Drafter<E>>,
    vocabulary: Vocabulary<E>,
    names: Vec<i32>,
    attention: Attention<E>,
    features: Features<E>,
    store: FeatureStore<E>,
    sizes: DraftSizes,
    split: Split,
    epsilon: f32,
    workspace: Workspace<E>,
    buffers: Buffers<E>,
    /// The step's rows so far.
    drafted: Vec<Drafted>,
}

/// What the workspace has no room for.
struct Buffers<E> {
    inputs: Vec<E>,
    gathered: Vec<E>,
    states: Vec<f32>,
    logits: Vec<f32>,
    ranked: Vec<E>,
}

impl<E: Dtype> Buffers<E> {
    fn grow(&mut self, rows: usize, input_width: usize, feature_width: usize) {
        if self.inputs.len() < rows * input_width {
            self.inputs.resize(rows * input_width, E::default());
            self.gathered.resize(rows * feature_width, E::default());
        }
    }
}

impl<E: Dtype> Drafting<E> {
    /// Puts a drafter beside `decoder`, which must be whole. `attention` describes the drafter's layers for
    /// the pages and positions of the decoder; the first position with a key becomes 1 where features are read.
    ///
    /// # Errors
    /// [`CpuError::Size`] or [`CpuError::Length`] for parts that do not fit, [`CpuError::Memory`].
    pub fn new(
        decoder: &Decoder<E>,
        parts: DrafterParts<E>,
        vocabulary: Vocabulary<E>,
        mut attention: AttentionConfig,
        sizes: DraftSizes,
    ) -> Result<Self, CpuError> {
        let refuse = |what, given, allowed| {
            Err(CpuError::Size {
                what,
                given,
                allowed,
            })
        };
        if decoder.is_part() {
            return refuse("ranks of the decoder", 2, "1 with a drafter");
        }
        if sizes.max_rows == 0 {
            return refuse("max_draft_rows", 0, "1 or more");
        }
        let (num_pages, max_context) = decoder.room();
        let (qkv, attended) = (attention.qkv_width(), attention.out_width());
        let drafter = parts.build(decoder.hidden(), qkv, attended)?;
        let (given, expected) = (attention.layers.len(), drafter.num_layers());
        if given != expected {
            return Err(CpuError::Length {
                what: "layers of the drafter's attention",
                given,
                expected,
            });
        }
        let rows_of_first = drafter.rows_of_first();
        if attention.max_context < max_context + rows_of_first - 1 {
            return refuse(
                "positions of the drafter",
                attention.max_context,
                "at least the decoder's, and a block's more",
            );
        }
        for layer in &mut attention.layers {
            layer.first_key = usize::from(!drafter.taps().is_empty());
        }
        attention.num_pages = num_pages + (sizes.max_rows * rows_of_first).div_ceil(PAGE_SIZE);
        let (widths, target) = (drafter.widths(), decoder.target());
        vocabulary.check(widths.hidden, target)?;
        let features = decoder.features_or_none(drafter.taps().to_vec())?;
        let num_tokens = target.head.out_features();
        Ok(Self {
            names: vocabulary.names(num_tokens),
            vocabulary,
            epsilon: attention.norm_epsilon,
            attention: Attention::new(attention)?,
            store: FeatureStore::new(num_pages + sizes.seats, features.width())?,
            features,
            sizes,
            split: Split::whole(widths, num_tokens),
            workspace: Workspace::new(widths),
            buffers: Buffers {
                inputs: Vec::new(),
                gathered: Vec::new(),
                states: Vec::new(),
                logits: Vec::new(),
                ranked: Vec::new(),
            },
            drafter,
            drafted: Vec::new(),
        })
    }

    /// As [`Decoder::forward`]; also moves what the drafter has of moved slots. One that reads features gets an
    /// entry of every row whose feature before it is known; another one computes nothing. `arrays` are those
    /// that the step's batch was made of. Changes no bit of the result.
    ///
    /// # Errors
    /// As [`Decoder::forward`], and [`CpuError::Entry`] for features that do not exist.
    pub fn forward(
        &mut self,
        decoder: &mut Decoder<E>,
        team: &Team,
        step: &Step<'_>,
        arrays: &BatchArrays<'_>,
        upkeep: &UpkeepArrays<'_>,
    ) -> Result<TopTokens, CpuError> {
        decoder.check(step)?;
        let Some(store_rows) = self.store_rows() else {
            self.attention.move_slots(step.batch);
            self.drafted.clear();
            return decoder.forward(team, step);
        };
        let moves = self.store.check(upkeep.moves, self.features.num_rows())?;
        let links = Links {
            row_parent: arrays.row_parent,
            request_row_start: arrays.request_row_start,
            request_row_count: arrays.request_row_count,
            request_kind: arrays.request_kind,
        };
        let upkeep = Upkeep::new(step, links, upkeep, store_rows)?;
        self.store.carry_out(&moves, self.features.values());
        self.attention.move_slots(step.batch);
        self.drafted.clear();
        let block = step.batch.num_rows().min(BLOCK_ROWS);
        let (input, feature) = (self.drafter.input_width(), self.features.width());
        self.buffers.grow(block, input, feature);
        let keeping = Keeping {
            upkeep: &upkeep,
            drafter: self.drafter.as_ref(),
            attention: self.attention.pass(&upkeep.batch, block),
            buffers: self.workspace.buffers(block),
            inputs: SharedSlice::new(&mut self.buffers.inputs),
            gathered: SharedSlice::new(&mut self.buffers.gathered),
            states: SharedSlice::new(&mut self.buffers.states),
            store: self.store.values(),
            own_head: self.vocabulary.own_head(),
            split: &self.split,
            epsilon: self.epsilon,
        };
        let tapped = Tapped {
            features: &mut self.features,
            follower: Some(&keeping),
        };
        decoder.forward_followed(team, step, Some(tapped))
    }

    /// Moves keys, values and features, makes up what the level says, then answers its rows. A first level begins
    /// a new step of drafts; a forward of the target ends it.
    ///
    /// # Errors
    /// [`CpuError::Length`] or [`CpuError::Entry`] for a level that contradicts itself, before anything is
    /// changed; [`CpuError::Panicked`] on a bug.
    pub fn draft(
        &mut self,
        decoder: &mut Decoder<E>,
        team: &Team,
        arrays: &DraftArrays<'_>,
    ) -> Result<Answers, CpuError> {
        let (num_pages, max_context) = decoder.room();
        let bounds = Bounds {
            num_pages,
            max_context,
            vocabulary: decoder.vocabulary(),
            store_rows: self.store_rows(),
            max_rows: self.sizes.max_rows,
            scratch: num_pages * PAGE_SIZE,
            rows_of_first: self.drafter.rows_of_first(),
            states_of_first: self.drafter.states_of_first(),
        };
        let level = Level::new(arrays, &self.drafted, &bounds)?;
        let fill = Fill::new(arrays, &bounds)?;
        if self.store_rows().is_some() {
            let moves = self.store.check(arrays.moves, self.features.num_rows())?;
            self.store.carry_out(&moves, self.features.values());
        }
        decoder.move_slots(&level.batch);
        self.attention.move_slots(&level.batch);
        let target = decoder.target();
        self.make_up(target, team, &fill)?;
        let rows = arrays.row_token.len();
        let mut answers = Answers {
            ids: vec![-1; rows * TOP_K],
            probabilities: vec![0.0; rows * TOP_K],
            scored: vec![f32::NEG_INFINITY; arrays.scored_token.len()],
        };
        // A block is computed together.
        let stride = if arrays.level == 1 {
            self.drafter.rows_of_first()
        } else {
            1
        };
        let most = (LEVEL_ROWS / stride).max(1);
        let together = rows.min(most) * stride;
        let widths = self.drafter.widths();
        self.make_room(together, level.first + rows, self.vocabulary.width(target));
        let attention = self.attention.pass(&level.batch, together);
        let buffers = self.workspace.buffers(together);
        let inputs = SharedSlice::new(&mut self.buffers.inputs);
        let gathered = SharedSlice::new(&mut self.buffers.gathered);
        let states = SharedSlice::new(&mut self.buffers.states);
        let answering = Answering {
            vocabulary: &self.vocabulary,
            names: &self.names,
            target,
            logits: SharedSlice::new(&mut self.buffers.logits),
            ranked: SharedSlice::new(&mut self.buffers.ranked),
            scored: &level.scored,
            asked: arrays.scored_token,
            ids: SharedSlice::new(&mut answers.ids),
            probabilities: SharedSlice::new(&mut answers.probabilities),
            scores: SharedSlice::new(&mut answers.scored),
        };
        let mut nothing: [E; 0] = [];
        let features = SharedSlice::new(&mut nothing);
        let (drafter, store) = (self.drafter.as_ref(), self.store.values());
        let head = self.vocabulary.own_head().unwrap_or(target.head);
        team.run(&|member| {
            for first in (0..rows).step_by(most) {
                let part = first..rows.min(first + most);
                let run = Run {
                    goal: Goal::States(level.first + first),
                    tokens: &arrays.row_token[part.clone()],
                    origins: level.origins.get(part.clone()).unwrap_or_default(),
                    rows: part.start * stride..part.end * stride,
                    attention: &attention,
                    buffers,
                    inputs,
                    gathered,
                    states,
                    features,
                    store,
                    target,
                    head,
                    split: &self.split,
                    epsilon: self.epsilon,
                };
                drafter.run(member, &run);
                let count = part.len();
                // SAFETY: written by the run, which ended with a barrier.
                #[allow(unsafe_code)]
                let x = unsafe { buffers.normed.read(0, count * widths.hidden) };
                answering.run(member, x, first, count);
            }
        })?;
        self.drafted = level.drafted;
        Ok(answers)
    }

    /// Computes the keys and values of committed tokens.
    fn make_up(&mut self, target: Target<'_, E>, team: &Team, fill: &Fill) -> Result<(), CpuError> {
        let num_tokens = fill.tokens.len();
        if num_tokens == 0 {
            return Ok(());
        }
        let block = num_tokens.min(BLOCK_ROWS);
        self.buffers
            .grow(block, self.drafter.input_width(), self.features.width());
        let attention = self.attention.pass(&fill.batch, block);
        let buffers = self.workspace.buffers(block);
        let inputs = SharedSlice::new(&mut self.buffers.inputs);
        let gathered = SharedSlice::new(&mut self.buffers.gathered);
        let states = SharedSlice::new(&mut self.buffers.states);
        let mut nothing: [E; 0] = [];
        let features = SharedSlice::new(&mut nothing);
        let (drafter, store) = (self.drafter.as_ref(), self.store.values());
        let head = self.vocabulary.own_head().unwrap_or(target.head);
        team.run(&|member| {
            for first in (0..num_tokens).step_by(block) {
                let rows = first..num_tokens.min(first + block);
                let run = Run {
                    goal: Goal::Entries,
                    tokens: &fill.tokens[rows.clone()],
                    origins: &[],
                    rows,
                    attention: &attention,
                    buffers,
                    inputs,
                    gathered,
                    states,
                    features,
                    store,
                    target,
                    head,
                    split: &self.split,
                    epsilon: self.epsilon,
                };
                drafter.run(member, &run);
            }
        })
    }

    fn make_room(&mut self, together: usize, drafted: usize, logits: usize) {
        let (input, feature) = (self.drafter.input_width(), self.features.width());
        self.buffers.grow(together, input, feature);
        let grow = |buffer: &mut Vec<f32>, len: usize| {
            if buffer.len() < len {
                buffer.resize(len, 0.0);
            }
        };
        grow(&mut self.buffers.logits, together * logits);
        let states = drafted * self.drafter.states_of_first() * self.drafter.widths().hidden;
        grow(&mut self.buffers.states, states);
        let ranked = together * self.vocabulary.rank();
        if self.buffers.ranked.len() < ranked {
            self.buffers.ranked.resize(ranked, E::default());
        }
    }

    /// Rows of the store; `None` where no features are read.
    fn store_rows(&self) -> Option<usize> {
        (self.features.width() > 0).then(|| self.store.num_rows())
    }

    /// The features of the last forward's rows.
    pub fn features(&self) -> &Features<E> {
        &self.features
    }

    /// How much there is room for.
    pub fn sizes(&self) -> DraftSizes {
        self.sizes
    }

    /// Bytes of weights and activations, without entries, features and store.
    pub fn bytes(&self) -> usize {
        let buffers = &self.buffers;
        self.drafter.bytes()
            + self.vocabulary.bytes()
            + self.workspace.bytes()
            + size_of_val(buffers.inputs.as_slice())
            + size_of_val(buffers.gathered.as_slice())
            + size_of_val(buffers.states.as_slice())
            + size_of_val(buffers.logits.as_slice())
    }

    /// Writes one number to every feature of the store, and to every key and value; for tests of what is
    /// read before it is written.
    #[doc(hidden)]
    pub fn poison(&mut self, value: f32) {
        self.store.fill(value);
        self.attention.fill(value);
    }
}
