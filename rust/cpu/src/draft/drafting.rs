//! A drafter beside a decoder: features, store, entries and answers.

use crate::attention::{Attention, AttentionConfig, Batch, BatchArrays, PAGE_SIZE};
use crate::buffer::SharedSlice;
use crate::decoder::{
    BLOCK_ROWS, Decoder, Features, Follower, Step, TOP_K, Tapped, Target, TopTokens,
};
use crate::draft::arrays::{Answers, DraftArrays, FeatureMoves, UpkeepArrays};
use crate::draft::drafter::{Drafter, Goal};
use crate::draft::fill::Fill;
use crate::draft::kinds::DrafterParts;
use crate::draft::level::{Bounds, Drafted, Level};
use crate::draft::naming::{Answering, Vocabulary};
use crate::draft::pending::{MAX_PENDING, Pending};
use crate::draft::room::{Room, RowSizes};
use crate::draft::runs::Runs;
use crate::draft::store::{FeatureStore, Moves};
use crate::draft::upkeep::{Keeping, Links, Upkeep};
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
    features: Features<E>,
    room: Room<E>,
    sizes: DraftSizes,
    /// The step's rows so far.
    drafted: Vec<Drafted>,
    pending: Pending<E>,
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
        if !decoder.has_whole_head() {
            return refuse(
                "tokens of the head",
                decoder.target().head.out_features(),
                "all of the vocabulary beside a drafter: give a part the whole head",
            );
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
        let row_sizes = RowSizes {
            input: drafter.input_width(),
            feature: features.width(),
            logits: vocabulary.width(target),
            rank: vocabulary.rank(),
            hidden: widths.hidden,
            kernels: drafter.kernel_width(),
        };
        let epsilon = attention.norm_epsilon;
        let store = FeatureStore::new(num_pages + sizes.seats, features.width())?;
        let attention = Attention::new(attention)?;
        Ok(Self {
            names: vocabulary.names(num_tokens),
            pending: Pending::new(features.width()),
            vocabulary,
            room: Room::new(attention, store, (widths, epsilon), num_tokens, row_sizes),
            features,
            sizes,
            drafter,
            drafted: Vec::new(),
        })
    }

    /// As [`Decoder::forward`]; also moves what `all` of the decoder's drafters have of moved slots. One that reads
    /// features gets an entry of every row whose feature before it is known; another one computes nothing. `arrays`
    /// are those that the step's batch was made of. Changes no bit of the result.
    ///
    /// # Errors
    /// As [`Decoder::forward`], and [`CpuError::Entry`] for features that do not exist.
    pub fn forward_beside(
        all: &mut [&mut Self],
        decoder: &mut Decoder<E>,
        team: &Team,
        step: &Step<'_>,
        arrays: &BatchArrays<'_>,
        upkeep: &UpkeepArrays<'_>,
    ) -> Result<TopTokens, CpuError> {
        decoder.check(step)?;
        let links = Links {
            row_parent: arrays.row_parent,
            request_row_start: arrays.request_row_start,
            request_row_count: arrays.request_row_count,
            request_kind: arrays.request_kind,
        };
        let mut checked = Vec::with_capacity(all.len());
        for one in &*all {
            let moves = one.checked(upkeep.moves)?;
            let rows = one.store_rows();
            let rows = rows.map(|rows| Upkeep::new(step, links, upkeep, rows));
            checked.push((moves, rows.transpose()?));
        }
        let block = step.batch.num_rows().min(BLOCK_ROWS);
        let mut keeping = Vec::with_capacity(all.len());
        let mut features = Vec::with_capacity(all.len());
        for (one, (moves, upkeep)) in all.iter_mut().zip(&checked) {
            one.carry_out(moves.as_ref(), step.batch);
            one.drafted.clear();
            let Some(upkeep) = upkeep else { continue };
            let waits = one.prepare(upkeep, decoder, team)?;
            keeping.push((!waits).then(|| Keeping {
                upkeep,
                drafter: one.drafter.as_ref(),
                space: one.room.open(&upkeep.batch, block),
                own_head: one.vocabulary.own_head(),
            }));
            features.push(&mut one.features);
        }
        let tapped = features.into_iter().zip(&keeping);
        let tapped = tapped.map(|(features, keeping)| Tapped {
            features,
            follower: keeping.as_ref().map(|keeping| keeping as &dyn Follower<E>),
        });
        let tapped = tapped.collect();
        let top = decoder.forward_followed(team, step, tapped)?;
        drop(keeping);
        for (one, (_, upkeep)) in all.iter_mut().zip(&checked) {
            if let Some(upkeep) = upkeep.as_ref().filter(|upkeep| one.lets_wait(upkeep)) {
                let (features, store) = (one.features.values(), one.room.store.values());
                one.pending.add(upkeep.rows(), features, store);
            }
        }
        Ok(top)
    }

    /// Whether the entries of a forward are computed later, with those of others.
    fn lets_wait(&self, upkeep: &Upkeep<'_>) -> bool {
        self.drafter.entries_stand_alone() && upkeep.num_rows() < MAX_PENDING
    }

    /// Makes room for the entries of a forward, if they are to wait; whether they are.
    fn prepare(
        &mut self,
        upkeep: &Upkeep<'_>,
        decoder: &Decoder<E>,
        team: &Team,
    ) -> Result<bool, CpuError> {
        let waits = self.lets_wait(upkeep);
        let num_rows = upkeep.num_rows();
        if waits && self.pending.has_room_for(num_rows) {
            return Ok(true);
        }
        // What waits for their slots, mostly rejected nodes of the step before, never needs to be computed.
        for (row, ..) in upkeep.rows() {
            self.pending.forget(row.slot);
        }
        if waits && !self.pending.has_room_for(num_rows) {
            self.settle(decoder, team)?;
        }
        Ok(waits)
    }

    /// Checks moves of features; `None` where none are read.
    fn checked(&self, moves: FeatureMoves<'_>) -> Result<Option<Moves>, CpuError> {
        let reads = self.store_rows().is_some();
        let store = Some(&self.room.store).filter(|_| reads);
        store
            .map(|store| store.check(moves, self.features.num_rows()))
            .transpose()
    }

    /// Moves its features, and what it has of a batch's moved slots.
    fn carry_out(&mut self, moves: Option<&Moves>, batch: &Batch) {
        if let Some(moves) = moves {
            self.room.store.carry_out(moves, self.features.values());
        }
        self.room.attention.move_slots(batch);
        self.pending.move_slots(batch);
    }

    /// Moves keys, values and features, of the decoder's other drafters too, makes up what the level says, then
    /// answers its rows. A first level begins a new step of drafts; a forward of the target ends it.
    ///
    /// # Errors
    /// [`CpuError::Length`] or [`CpuError::Entry`] for a level that contradicts itself, before anything is
    /// changed; [`CpuError::Panicked`] on a bug.
    pub fn draft_beside(
        &mut self,
        others: &mut [&mut Self],
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
        let moves = self.checked(arrays.moves)?;
        let of_others = others.iter().map(|other| other.checked(arrays.moves));
        let of_others: Vec<_> = of_others.collect::<Result<_, _>>()?;
        decoder.move_slots(&level.batch);
        self.carry_out(moves.as_ref(), &level.batch);
        for (other, moves) in others.iter_mut().zip(&of_others) {
            other.carry_out(moves.as_ref(), &level.batch);
        }
        self.settle(decoder, team)?;
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
        let hidden = self.drafter.widths().hidden;
        let num_states = (level.first + rows) * self.drafter.states_of_first();
        let space = self
            .room
            .open_for_answers(&level.batch, together, num_states);
        let answering = Answering {
            vocabulary: &self.vocabulary,
            names: &self.names,
            target,
            logits: space.logits,
            ranked: space.ranked,
            scored: &level.scored,
            asked: arrays.scored_token,
            tokens: arrays.row_token,
            ids: SharedSlice::new(&mut answers.ids),
            probabilities: SharedSlice::new(&mut answers.probabilities),
            scores: SharedSlice::new(&mut answers.scored),
        };
        let runs = Runs::new(
            self.drafter.as_ref(),
            &space,
            target,
            self.vocabulary.own_head(),
        );
        team.run(&|member| {
            for first in (0..rows).step_by(most) {
                let part = first..rows.min(first + most);
                let origins = level.origins.get(part.clone()).unwrap_or_default();
                let batch_rows = part.start * stride..part.end * stride;
                let tokens = &arrays.row_token[part.clone()];
                let goal = Goal::States(level.first + first);
                runs.run(member, goal, batch_rows, tokens, origins);
                let count = part.len();
                // SAFETY: written by the run, which ended with a barrier.
                #[allow(unsafe_code)]
                let x = unsafe { space.buffers.normed.read(0, count * hidden) };
                answering.run(member, x, first, count);
            }
        })?;
        self.drafted = level.drafted;
        Ok(answers)
    }

    /// Computes the entries that wait.
    ///
    /// # Errors
    /// [`CpuError::Panicked`] on a bug.
    pub fn settle(&mut self, decoder: &Decoder<E>, team: &Team) -> Result<(), CpuError> {
        if self.pending.is_empty() {
            return Ok(());
        }
        let due = self.pending.due();
        let mut space = self.room.open(&due.batch, due.tokens.len());
        space.store = due.features;
        let target = decoder.target();
        let runs = Runs::new(
            self.drafter.as_ref(),
            &space,
            target,
            self.vocabulary.own_head(),
        );
        runs.enter(team, &due.tokens, &due.origins)?;
        self.pending.clear();
        Ok(())
    }

    /// Computes the keys and values of committed tokens.
    fn make_up(&mut self, target: Target<'_, E>, team: &Team, fill: &Fill) -> Result<(), CpuError> {
        let num_tokens = fill.tokens.len();
        if num_tokens == 0 {
            return Ok(());
        }
        let space = self.room.open(&fill.batch, num_tokens.min(BLOCK_ROWS));
        let runs = Runs::new(
            self.drafter.as_ref(),
            &space,
            target,
            self.vocabulary.own_head(),
        );
        runs.enter(team, &fill.tokens, &[])
    }

    /// Rows of the store; `None` where no features are read.
    fn store_rows(&self) -> Option<usize> {
        (self.features.width() > 0).then(|| self.room.store.num_rows())
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
        self.drafter.bytes() + self.vocabulary.bytes() + self.room.bytes() + self.pending.bytes()
    }

    /// Writes one number to every feature of the store, and to every key and value; for tests of what is
    /// read before it is written.
    #[doc(hidden)]
    pub fn poison(&mut self, value: f32) {
        self.pending.clear();
        self.room.store.fill(value);
        self.room.attention.fill(value);
    }
}
