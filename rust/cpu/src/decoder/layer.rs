//! One decoder layer in stages, each called by all members of a team.
//!
//! The stages meet where a decoder in parts gathers: behind the attended heads, behind both products
//! that end a half, and behind the gated activation.
#![allow(unsafe_code)] // parts of the buffers are written and read by several threads

use std::ops::Range;

use crate::attention::AttentionPass;
use crate::decoder::mlp::Mlp;
use crate::decoder::norm::NormRows;
use crate::decoder::split::{Split, Whole};
use crate::decoder::workspace::Buffers;
use crate::matmul::Linear;
use crate::simd::{Dtype, Level, launch};
use crate::threads::{Member, share_out};

/// Weights of one layer.
pub struct Layer<E: Dtype> {
    /// Norm before attention, `[hidden]`.
    pub attention_norm: Vec<f32>,
    /// Product to queries, keys and values.
    pub qkv: Linear<E>,
    /// Product of the attended heads.
    pub output: Linear<E>,
    /// Norm before the MLP, `[hidden]`.
    pub mlp_norm: Vec<f32>,
    /// What follows the second norm.
    pub mlp: Mlp<E>,
}

/// Adds what the last stage left in `delta` to the residual stream, if there is any, and writes the
/// norm of the sum to `normed`.
pub(crate) fn add_norm<E: Dtype>(
    member: &Member<'_>,
    buffers: Buffers<'_, E>,
    rows: usize,
    weight: &[f32],
    epsilon: f32,
    with_delta: bool,
) {
    share_out(member, rows, 4, |row| {
        add_norm_row(buffers, row, row, weight, epsilon, with_delta);
    });
    member.barrier();
}

/// As [`add_norm`] for one row, which is written as row `to` of `normed`.
pub(crate) fn add_norm_row<E: Dtype>(
    buffers: Buffers<'_, E>,
    row: usize,
    to: usize,
    weight: &[f32],
    epsilon: f32,
    with_delta: bool,
) {
    let width = weight.len();
    // SAFETY: each row is taken once, and `delta` was written by an earlier stage.
    let kernel = unsafe {
        NormRows {
            x: buffers.residual.part(row * width, width),
            delta: with_delta.then(|| buffers.delta.read(row * width, width)),
            weight,
            epsilon,
            out: buffers.normed.part(to * width, width),
        }
    };
    launch(Level::detect(), kernel);
}

impl<E: Dtype> Layer<E> {
    /// Memory that the weights take.
    pub fn bytes(&self) -> usize {
        let norms = self.attention_norm.len() + self.mlp_norm.len();
        let mlp = match &self.mlp {
            Mlp::Dense(dense) => dense.bytes(),
            Mlp::Mixture(mixture) => mixture.bytes(),
        };
        norms * size_of::<f32>() + self.qkv.bytes() + self.output.bytes() + mlp
    }

    /// What must be equal: which size, as it is, as it must be.
    pub(crate) fn sizes(&self, qkv: usize, split: &Split) -> Vec<(&'static str, usize, usize)> {
        let (attended, hidden) = (split.attended, split.hidden);
        let mut sizes = vec![
            ("attention norm", self.attention_norm.len(), hidden.total),
            ("input of qkv", self.qkv.in_features(), hidden.total),
            ("output of qkv", self.qkv.out_features(), qkv),
            ("input of output", self.output.in_features(), attended.total),
            ("output of output", self.output.out_features(), hidden.count),
            ("mlp norm", self.mlp_norm.len(), hidden.total),
        ];
        match &self.mlp {
            Mlp::Dense(dense) => sizes.extend(dense.sizes(split.gated, hidden)),
            Mlp::Mixture(mixture) => sizes.extend(mixture.sizes(split.expert, hidden)),
        }
        sizes
    }

    /// All stages for `rows` of the batch, whose residual stream and delta begin the buffers.
    pub(crate) fn run(&self, member: &Member<'_>, pass: &LayerPass<'_, E>, rows: Range<usize>) {
        let (split, buffers, count) = (pass.split, pass.buffers, rows.len());
        self.attend(member, pass, rows);
        split.gather(member, Whole::Attended, buffers.attended, count);
        self.project(member, pass, count);
        split.gather(member, Whole::Hidden, buffers.delta, count);
        add_norm(member, buffers, count, &self.mlp_norm, pass.epsilon, true);
        match &self.mlp {
            Mlp::Dense(dense) => dense.run(member, pass, count),
            Mlp::Mixture(mixture) => mixture.run(member, pass, count),
        }
        split.gather(member, Whole::Hidden, buffers.delta, count);
    }

    /// From the residual stream and delta to the attended heads.
    fn attend(&self, member: &Member<'_>, pass: &LayerPass<'_, E>, rows: Range<usize>) {
        let (buffers, count) = (pass.buffers, rows.len());
        let norm = &self.attention_norm;
        add_norm(member, buffers, count, norm, pass.epsilon, pass.index > 0);
        // SAFETY: written by `add_norm`.
        let x = unsafe { buffers.normed.read(0, count * self.qkv.in_features()) };
        let width = self.qkv.out_features();
        // SAFETY: only this product writes its output until the barrier.
        unsafe { self.qkv.run(member, x, count, buffers.qkv, width) }
        member.barrier();
        // SAFETY: written by the product.
        let qkv = unsafe { buffers.qkv.read(0, count * width) };
        pass.attention
            .write_kv(member, pass.index, rows.clone(), qkv);
        member.barrier();
        let columns = pass.split.attended;
        pass.attention
            .attend(member, pass.index, rows, buffers.attended, columns);
        member.barrier();
    }

    /// From the attended heads to the delta of the first half.
    fn project(&self, member: &Member<'_>, pass: &LayerPass<'_, E>, rows: usize) {
        let (buffers, columns) = (pass.buffers, pass.split.hidden);
        // SAFETY: written by `attend`.
        let x = unsafe { buffers.attended.read(0, rows * self.output.in_features()) };
        let out = buffers.delta.offset(columns.first);
        // SAFETY: only this product writes its output until the barrier.
        unsafe { self.output.run(member, x, rows, out, columns.total) }
        member.barrier();
    }
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
