//! Where a drafter computes: its entries, what of features is kept, and buffers.

use crate::attention::{Attention, AttentionPass, Batch};
use crate::buffer::SharedSlice;
use crate::decoder::{Buffers, Split, Widths, Workspace};
use crate::draft::store::FeatureStore;
use crate::simd::Dtype;

/// Sizes of rows that a room holds besides those of layers.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RowSizes {
    /// See `Drafter::input_width`.
    pub(crate) input: usize,
    /// Of a feature.
    pub(crate) feature: usize,
    /// Of logits.
    pub(crate) logits: usize,
    /// Of what lies between state and logits.
    pub(crate) rank: usize,
    /// Of a state.
    pub(crate) hidden: usize,
    /// See `Drafter::kernel_width`.
    pub(crate) kernels: usize,
}

/// Owned by one drafter; opened for one call at a time.
pub(crate) struct Room<E: Dtype> {
    pub(crate) attention: Attention<E>,
    pub(crate) store: FeatureStore<E>,
    sizes: RowSizes,
    split: Split,
    epsilon: f32,
    workspace: Workspace<E>,
    inputs: Vec<E>,
    gathered: Vec<E>,
    states: Vec<f32>,
    logits: Vec<f32>,
    ranked: Vec<E>,
    kernels: Vec<f32>,
}

impl<E: Dtype> Room<E> {
    pub(crate) fn new(
        attention: Attention<E>,
        store: FeatureStore<E>,
        (widths, epsilon): (Widths, f32),
        num_tokens: usize,
        sizes: RowSizes,
    ) -> Self {
        Self {
            attention,
            store,
            sizes,
            split: Split::whole(widths, num_tokens),
            epsilon,
            workspace: Workspace::new(widths),
            inputs: Vec::new(),
            gathered: Vec::new(),
            states: Vec::new(),
            logits: Vec::new(),
            ranked: Vec::new(),
            kernels: Vec::new(),
        }
    }

    /// Room for `rows` rows of a batch at a time that write entries.
    pub(crate) fn open<'a>(&'a mut self, batch: &'a Batch, rows: usize) -> Space<'a, E> {
        grow(&mut self.inputs, rows * self.sizes.input);
        grow(&mut self.gathered, rows * self.sizes.feature);
        grow(&mut self.kernels, rows * self.sizes.kernels);
        Space {
            attention: self.attention.pass(batch, rows),
            buffers: self.workspace.buffers(rows),
            inputs: SharedSlice::new(&mut self.inputs),
            gathered: SharedSlice::new(&mut self.gathered),
            states: SharedSlice::new(&mut self.states),
            logits: SharedSlice::new(&mut self.logits),
            ranked: SharedSlice::new(&mut self.ranked),
            kernels: SharedSlice::new(&mut self.kernels),
            store: self.store.values(),
            split: &self.split,
            epsilon: self.epsilon,
        }
    }

    /// The same for rows that are answered too; `states` are those of the step up to here.
    pub(crate) fn open_for_answers<'a>(
        &'a mut self,
        batch: &'a Batch,
        rows: usize,
        states: usize,
    ) -> Space<'a, E> {
        grow(&mut self.states, states * self.sizes.hidden);
        grow(&mut self.logits, rows * self.sizes.logits);
        grow(&mut self.ranked, rows * self.sizes.rank);
        self.open(batch, rows)
    }

    /// Bytes of activations, without entries and store.
    pub(crate) fn bytes(&self) -> usize {
        self.workspace.bytes()
            + size_of_val(self.inputs.as_slice())
            + size_of_val(self.gathered.as_slice())
            + size_of_val(self.states.as_slice())
            + size_of_val(self.logits.as_slice())
            + size_of_val(self.ranked.as_slice())
            + size_of_val(self.kernels.as_slice())
    }
}

fn grow<T: Copy + Default>(buffer: &mut Vec<T>, len: usize) {
    if buffer.len() < len {
        buffer.resize(len, T::default());
    }
}

/// What all members see of an open room.
pub(crate) struct Space<'a, E: Dtype> {
    pub(crate) attention: AttentionPass<'a, E>,
    pub(crate) buffers: Buffers<'a, E>,
    /// `[rows, input width]`.
    pub(crate) inputs: SharedSlice<'a, E>,
    /// `[rows, width of a feature]`.
    pub(crate) gathered: SharedSlice<'a, E>,
    /// `[draft rows * Drafter::states_of_first, hidden]`.
    pub(crate) states: SharedSlice<'a, f32>,
    /// `[rows, width of logits]`.
    pub(crate) logits: SharedSlice<'a, f32>,
    /// `[rows, rank]`.
    pub(crate) ranked: SharedSlice<'a, E>,
    /// `[rows, width of the kernels of convolutions]`.
    pub(crate) kernels: SharedSlice<'a, f32>,
    pub(crate) store: &'a [E],
    pub(crate) split: &'a Split,
    pub(crate) epsilon: f32,
}
