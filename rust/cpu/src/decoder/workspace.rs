//! The activations of one block of rows on its way through the layers.

use crate::attention::AttentionPass;
use crate::buffer::SharedSlice;
use crate::decoder::routing::Route;
use crate::decoder::shape::Widths;
use crate::decoder::split::Split;
use crate::simd::Dtype;

/// Buffers for as many rows as the largest block so far had.
pub(crate) struct Workspace<E> {
    widths: Widths,
    rows: usize,
    residual: Vec<f32>,
    normed: Vec<E>,
    qkv: Vec<E>,
    attended: Vec<E>,
    gate_up: Vec<E>,
    gated: Vec<E>,
    delta: Vec<E>,
    scores: Vec<f32>,
    choices: Vec<Route>,
    starts: Vec<usize>,
    gathered: Vec<E>,
}

impl<E: Dtype> Workspace<E> {
    pub(crate) fn new(widths: Widths) -> Self {
        Self {
            widths,
            rows: 0,
            residual: Vec::new(),
            normed: Vec::new(),
            qkv: Vec::new(),
            attended: Vec::new(),
            gate_up: Vec::new(),
            gated: Vec::new(),
            delta: Vec::new(),
            scores: Vec::new(),
            choices: Vec::new(),
            starts: Vec::new(),
            gathered: Vec::new(),
        }
    }

    /// The buffers, with room for `rows` rows.
    pub(crate) fn buffers(&mut self, rows: usize) -> Buffers<'_, E> {
        if rows > self.rows {
            let widths = self.widths;
            self.residual.resize(rows * widths.hidden, 0.0);
            self.normed.resize(rows * widths.hidden, E::default());
            self.qkv.resize(rows * widths.qkv, E::default());
            self.attended.resize(rows * widths.attended, E::default());
            let activated = rows * widths.activated();
            self.gate_up.resize(2 * activated, E::default());
            self.gated.resize(activated, E::default());
            self.delta.resize(rows * widths.hidden, E::default());
            let choices = rows * widths.chosen;
            self.scores.resize(rows * widths.experts, 0.0);
            self.choices.resize(choices, Route::default());
            self.starts.resize(widths.experts + 1, 0);
            self.gathered.resize(choices * widths.hidden, E::default());
            self.rows = rows;
        }
        Buffers {
            residual: SharedSlice::new(&mut self.residual),
            normed: SharedSlice::new(&mut self.normed),
            qkv: SharedSlice::new(&mut self.qkv),
            attended: SharedSlice::new(&mut self.attended),
            gate_up: SharedSlice::new(&mut self.gate_up),
            gated: SharedSlice::new(&mut self.gated),
            delta: SharedSlice::new(&mut self.delta),
            scores: SharedSlice::new(&mut self.scores),
            choices: SharedSlice::new(&mut self.choices),
            starts: SharedSlice::new(&mut self.starts),
            gathered: SharedSlice::new(&mut self.gathered),
        }
    }

    /// Memory that the buffers take.
    pub(crate) fn bytes(&self) -> usize {
        let elements: usize = [
            &self.normed,
            &self.qkv,
            &self.attended,
            &self.gate_up,
            &self.gated,
            &self.delta,
            &self.gathered,
        ]
        .iter()
        .map(|buffer| size_of_val(buffer.as_slice()))
        .sum();
        elements
            + size_of_val(self.residual.as_slice())
            + size_of_val(self.scores.as_slice())
            + size_of_val(self.choices.as_slice())
    }
}

/// What all members of a team see of the buffers; rows follow each other without gaps.
///
/// A buffer is written by one stage, each part by one member, and read by later stages only, after a
/// barrier: that is what every SAFETY note about these buffers means.
#[derive(Clone, Copy)]
pub(crate) struct Buffers<'a, E> {
    /// The residual stream.
    pub(crate) residual: SharedSlice<'a, f32>,
    /// Output of a norm, and input of the product after it.
    pub(crate) normed: SharedSlice<'a, E>,
    /// Queries, keys and values before rotation.
    pub(crate) qkv: SharedSlice<'a, E>,
    pub(crate) attended: SharedSlice<'a, E>,
    /// Gate, then up.
    pub(crate) gate_up: SharedSlice<'a, E>,
    pub(crate) gated: SharedSlice<'a, E>,
    /// What is added to the residual stream next.
    pub(crate) delta: SharedSlice<'a, E>,
    /// Scores of all experts.
    pub(crate) scores: SharedSlice<'a, f32>,
    /// The experts of each row.
    pub(crate) choices: SharedSlice<'a, Route>,
    /// Where each expert's gathered rows begin, and where the last one's end.
    pub(crate) starts: SharedSlice<'a, usize>,
    /// Rows by expert: first what goes in, then what comes out.
    pub(crate) gathered: SharedSlice<'a, E>,
}

/// What a layer needs besides its weights.
pub(crate) struct LayerPass<'a, E: Dtype> {
    /// Which layer.
    pub(crate) index: usize,
    pub(crate) attention: &'a AttentionPass<'a, E>,
    pub(crate) buffers: Buffers<'a, E>,
    pub(crate) split: &'a Split,
    pub(crate) epsilon: f32,
}
