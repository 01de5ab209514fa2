//! What a kind of drafter is: how rows become entries, and states from which tokens follow.

use std::ops::Range;

use crate::buffer::SharedSlice;
use crate::decoder::{LayerPass, Tap, Target, Widths};
use crate::draft::room::Space;
use crate::matmul::Linear;
use crate::simd::Dtype;
use crate::threads::Member;

/// One kind of drafter.
pub(crate) trait Drafter<E: Dtype>: Send + Sync {
    /// What it reads of the target's rows; nothing = it reads no features.
    fn taps(&self) -> &[Tap];
    /// Layers with keys and values.
    fn num_layers(&self) -> usize;
    /// Widths of its rows; `hidden` is that of a state.
    fn widths(&self) -> Widths;
    /// Width of what `Run::inputs` holds of a row.
    fn input_width(&self) -> usize;
    /// Bytes of the weights.
    fn bytes(&self) -> usize;
    /// Rows that it computes of each row of a first level: the row itself, or the context's last and a block.
    fn rows_of_first(&self) -> usize {
        1
    }
    /// States that it leaves of each: of the row itself, or of one for each level.
    fn states_of_first(&self) -> usize {
        1
    }
    /// Whether an entry depends on its token, position and feature alone, never on other entries.
    fn entries_stand_alone(&self) -> bool {
        self.num_layers() == 1
    }
    /// Width of what `Space::kernels` holds of a row.
    fn kernel_width(&self) -> usize {
        0
    }
    /// Computes rows, called by all members: writes their entries and, unless only entries are wanted, their
    /// states and, to `normed` of the buffers, what the head takes. Ends with a barrier.
    fn run(&self, member: &Member<'_>, run: &Run<'_, E>);
}

/// Where what a row continues is found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Origin {
    /// The feature of a row of the forward under way.
    Forward(usize),
    /// A feature of the store.
    Store(usize),
    /// The state of a draft row of this step.
    State(usize),
}

/// What a run is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Goal {
    /// The keys and values of committed tokens.
    Entries,
    /// States, from this number on among the draft rows of the step; of a first level
    /// `Drafter::states_of_first` times as many.
    States(usize),
}

/// Some rows of a drafter: of a block of the target's forward, or of a level.
pub(crate) struct Run<'a, E: Dtype> {
    pub(crate) goal: Goal,
    /// Rows of the batch that the attention knows: `Drafter::rows_of_first` for each of a first level.
    pub(crate) rows: Range<usize>,
    /// Of the rows that are asked.
    pub(crate) tokens: &'a [i32],
    /// Likewise; all are states, or none is. Empty where no features are read.
    pub(crate) origins: &'a [Origin],
    pub(crate) space: &'a Space<'a, E>,
    /// Of the forward under way.
    pub(crate) features: SharedSlice<'a, E>,
    pub(crate) target: Target<'a, E>,
    /// By which it names tokens: its own or the target's.
    pub(crate) head: &'a Linear<E>,
}

impl<E: Dtype> Run<'_, E> {
    /// What one of the drafter's layers needs.
    pub(crate) fn pass(&self, index: usize) -> LayerPass<'_, E> {
        LayerPass {
            index,
            attention: &self.space.attention,
            buffers: self.space.buffers,
            split: self.space.split,
            epsilon: self.space.epsilon,
        }
    }

    /// Whether rows begin with features.
    pub(crate) fn is_first(&self) -> bool {
        !matches!(self.origins.first(), Some(Origin::State(_)))
    }
}
