//! DFLASH (z-lab, 2026): one forward over a block fills in masks behind the last token.
//!
//! A block is the last token and masks. Its rows attend to each other and to the context, whose keys and
//! values are products of one state of the target's features, the same in every layer. So the entry at a
//! position is made of the feature before it, as in other drafters, and a block begins one position later
//! than its token: only differences of positions count.
//!
//! What row i of a block says is the token i behind the last one, whatever lies between. Later levels are
//! answered from the block that the first one computed. DFLASH 2 has convolutions over the rows of the block
//! around both halves of a layer, and a selector behind the head (`selector.rs`).
#![allow(unsafe_code)] // rows of the buffers are written and read by several threads

use crate::decoder::{Layer, Tap, Widths, add_delta};
use crate::draft::drafter::{Drafter, Goal, Origin, Run};
use crate::draft::kinds::convolution::{Blocks, Convolution, Side};
use crate::draft::kinds::stages::{
    check_sizes, enter_row, layer_sizes, look_up, recall, widen, widths_of,
};
use crate::error::CpuError;
use crate::matmul::Linear;
use crate::simd::Dtype;
use crate::threads::{Member, share_out};

/// What stands for a token that is to be guessed.
pub enum Mask {
    /// A token of the target's.
    Token(usize),
    /// A vector of its own.
    Vector(Vec<f32>),
}

/// The weights of a DFLASH drafter.
pub struct DflashParts<E: Dtype> {
    /// What a feature is made of.
    pub taps: Vec<Tap>,
    /// Product from feature to context.
    pub fc: Linear<E>,
    /// Norm of the context.
    pub context_norm: Vec<f32>,
    /// The layers.
    pub layers: Vec<Layer<E>>,
    /// Norm before the head.
    pub output_norm: Vec<f32>,
    /// What fills the block.
    pub mask: Mask,
    /// Rows of a block: the last token and masks, 3 or more.
    pub block: usize,
    /// Around the halves of each layer, or none (DFLASH 1).
    pub convolutions: Vec<Around<E>>,
    /// What vectors of a block are multiplied by.
    pub vector_scale: f32,
}

/// The convolutions of a layer.
pub struct Around<E: Dtype> {
    /// Before and behind its attention.
    pub attention: Convolution<E>,
    /// Before and behind its MLP.
    pub mlp: Convolution<E>,
}

/// A checked drafter.
pub(crate) struct Dflash<E: Dtype> {
    parts: DflashParts<E>,
    widths: Widths,
}

impl<E: Dtype> Dflash<E> {
    pub(crate) fn new(
        parts: DflashParts<E>,
        target_hidden: usize,
        qkv: usize,
        attended: usize,
    ) -> Result<Self, CpuError> {
        let widths = widths_of(&parts.layers, qkv, attended)?;
        let hidden = widths.hidden;
        let feature = parts.taps.len() * target_hidden;
        let mut sizes = vec![
            ("token vectors of the target", target_hidden, hidden),
            ("input of fc", parts.fc.in_features(), feature),
            ("output of fc", parts.fc.out_features(), hidden),
            ("norm of the context", parts.context_norm.len(), hidden),
            ("norm before the head", parts.output_norm.len(), hidden),
        ];
        if let Mask::Vector(vector) = &parts.mask {
            sizes.push(("vector of the mask", vector.len(), hidden));
        }
        if !parts.convolutions.is_empty() {
            let count = parts.convolutions.len();
            sizes.push(("layers with convolutions", count, parts.layers.len()));
        }
        for around in &parts.convolutions {
            sizes.extend(around.attention.sizes(hidden));
            sizes.extend(around.mlp.sizes(hidden));
        }
        sizes.extend(layer_sizes(&parts.layers, hidden, widths));
        check_sizes(sizes)?;
        if !(3..=MAX_BLOCK).contains(&parts.block) {
            return Err(CpuError::Size {
                what: "rows of a block",
                given: parts.block,
                allowed: "3..=63",
            });
        }
        Ok(Self { parts, widths })
    }

    /// From features to the context's rows, at the beginning of the inputs; uses the residual stream.
    fn enter(&self, member: &Member<'_>, run: &Run<'_, E>) {
        let (count, hidden) = (run.origins.len(), self.widths.hidden);
        let fc = &self.parts.fc;
        let width = fc.in_features();
        share_out(member, count, 4, |row| {
            // SAFETY: features were complete before this run began; each row is taken once.
            unsafe {
                let feature = match run.origins[row] {
                    Origin::Forward(from) => run.features.read(from * width, width),
                    Origin::Store(from) => &run.space.store[from * width..(from + 1) * width],
                    // A first level and upkeep have none.
                    Origin::State(_) => return,
                };
                run.space
                    .gathered
                    .part(row * width, width)
                    .copy_from_slice(feature);
            }
        });
        member.barrier();
        // SAFETY: gathered before the barrier; only this product writes the stream until the next.
        unsafe {
            let x = run.space.gathered.read(0, count * width);
            fc.run(member, x, count, run.space.buffers.residual, hidden);
        }
        member.barrier();
        share_out(member, count, 4, |row| {
            // SAFETY: the stream was written before the barrier; each row is taken once.
            unsafe {
                let state = run.space.buffers.residual.part(row * hidden, hidden);
                let out = run.space.inputs.part(row * hidden, hidden);
                enter_row(run, state, Some(&self.parts.context_norm), out);
            }
        });
        member.barrier();
    }

    /// The blocks of a first level behind their contexts: states of their masks, from number `first` on.
    fn fill_in(&self, member: &Member<'_>, run: &Run<'_, E>, first: usize) {
        let (hidden, stride) = (self.widths.hidden, self.rows_of_first());
        let (count, buffers) = (run.rows.len(), run.space.buffers);
        share_out(member, count, 4, |row| {
            // SAFETY: each row is taken once.
            let to = unsafe { buffers.residual.part(row * hidden, hidden) };
            match (row % stride, &self.parts.mask) {
                // The context's last row has keys and values alone; what else comes of it is not read.
                (0, _) => to.fill(0.0),
                (1, _) => look_up(run, None, run.tokens[row / stride] as usize, to),
                (_, Mask::Token(token)) => look_up(run, None, *token, to),
                (_, Mask::Vector(vector)) => to.copy_from_slice(vector),
            }
            for x in to {
                *x *= self.parts.vector_scale;
            }
        });
        member.barrier();
        let blocks = Blocks {
            count: count / stride,
            stride,
            block: self.parts.block,
        };
        for (index, layer) in self.parts.layers.iter().enumerate() {
            let (pass, around) = (run.pass(index), self.parts.convolutions.get(index));
            layer.enter(member, &pass, count);
            if let Some(around) = around {
                around.attention.enter(member, run, blocks);
            }
            share_out(member, count / stride, 4, |root| {
                // SAFETY: both were written before the barrier; each row is taken once.
                unsafe {
                    let context = run.space.inputs.read(root * hidden, hidden);
                    let to = buffers.normed.part(root * stride * hidden, hidden);
                    to.copy_from_slice(context);
                }
            });
            member.barrier();
            // SAFETY: written before the barrier.
            let x = unsafe { buffers.normed.read(0, count * hidden) };
            layer.attend(member, &pass, run.rows.clone(), x);
            layer.leave_attention(member, &pass, count);
            if let Some(around) = around {
                let side = Side::Behind;
                around
                    .attention
                    .apply(member, run, blocks, side, buffers.delta);
            }
            layer.enter_mlp(member, &pass, count);
            if let Some(around) = around {
                around.mlp.enter(member, run, blocks);
            }
            layer.run_mlp(member, &pass, count);
            if let Some(around) = around {
                around
                    .mlp
                    .apply(member, run, blocks, Side::Behind, buffers.delta);
            }
        }
        let masks = self.states_of_first();
        share_out(member, count / stride * masks, 4, |number| {
            let row = number / masks * stride + number % masks + 2;
            // SAFETY: the stream and delta were written before the barrier; each row is taken once.
            unsafe {
                let stream = buffers.residual.part(row * hidden, hidden);
                add_delta(stream, buffers.delta.read(row * hidden, hidden));
                let out = buffers.normed.part(number * hidden, hidden);
                enter_row(run, stream, Some(&self.parts.output_norm), out);
                let state = run
                    .space
                    .states
                    .part((first * masks + number) * hidden, hidden);
                widen(out, state);
            }
        });
        member.barrier();
    }
}

/// Rows of a block: as many as the nodes of a tree.
pub(crate) const MAX_BLOCK: usize = 63;

impl<E: Dtype> Drafter<E> for Dflash<E> {
    fn taps(&self) -> &[Tap] {
        &self.parts.taps
    }

    fn num_layers(&self) -> usize {
        self.parts.layers.len()
    }

    fn widths(&self) -> Widths {
        self.widths
    }

    fn input_width(&self) -> usize {
        self.widths.hidden
    }

    fn bytes(&self) -> usize {
        let layers: usize = self.parts.layers.iter().map(Layer::bytes).sum();
        let around: usize = self
            .parts
            .convolutions
            .iter()
            .map(|around| around.attention.bytes() + around.mlp.bytes())
            .sum();
        layers + around + self.parts.fc.bytes()
    }

    fn entries_stand_alone(&self) -> bool {
        // Keys of each layer are products of the feature.
        true
    }

    fn kernel_width(&self) -> usize {
        let widths = self
            .parts
            .convolutions
            .iter()
            .flat_map(|around| [around.attention.width(), around.mlp.width()]);
        widths.max().unwrap_or(0)
    }

    fn rows_of_first(&self) -> usize {
        1 + self.parts.block
    }

    fn states_of_first(&self) -> usize {
        self.parts.block - 1
    }

    fn run(&self, member: &Member<'_>, run: &Run<'_, E>) {
        match run.goal {
            Goal::Entries => {
                self.enter(member, run);
                // SAFETY: written before the barrier.
                let x = unsafe {
                    run.space
                        .inputs
                        .read(0, run.rows.len() * self.widths.hidden)
                };
                for (index, layer) in self.parts.layers.iter().enumerate() {
                    layer.write_entries(member, &run.pass(index), run.rows.clone(), x);
                }
            }
            Goal::States(first) => {
                if run.is_first() {
                    self.enter(member, run);
                    self.fill_in(member, run, first);
                }
                recall(member, run, first, self.states_of_first());
            }
        }
    }
}
