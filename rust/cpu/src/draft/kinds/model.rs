//! A model of the target's tokenizer, which may be the target itself: a whole decoder that reads no feature.
//!
//! Its entry at a position is made of the tokens up to there alone, so it has one at the first position too.
#![allow(unsafe_code)] // rows of the buffers are written by several threads

use crate::decoder::{Layer, Tap, Widths};
use crate::draft::drafter::{Drafter, Goal, Run};
use crate::draft::kinds::stages::{check_sizes, layer_sizes, leave, run_layers, widen, widths_of};
use crate::error::CpuError;
use crate::matmul::Linear;
use crate::simd::Dtype;
use crate::threads::{Member, share_out};

/// The weights of a model that drafts, but for its LM head.
pub struct ModelParts<E: Dtype> {
    /// The layers.
    pub layers: Vec<Layer<E>>,
    /// Norm before the head.
    pub output_norm: Vec<f32>,
    /// Token vectors `[tokens, hidden]`; `None` = the rows of the head by which it names tokens.
    pub embedding: Option<Vec<E>>,
}

/// A checked model.
pub(crate) struct Model<E: Dtype> {
    parts: ModelParts<E>,
    widths: Widths,
}

impl<E: Dtype> Model<E> {
    pub(crate) fn new(parts: ModelParts<E>, qkv: usize, attended: usize) -> Result<Self, CpuError> {
        let widths = widths_of(&parts.layers, qkv, attended)?;
        let hidden = widths.hidden;
        let mut sizes = vec![("norm before the head", parts.output_norm.len(), hidden)];
        if let Some(table) = &parts.embedding {
            let whole_rows = table.len() / hidden * hidden;
            sizes.push(("embedding table", table.len(), whole_rows));
        }
        sizes.extend(layer_sizes(&parts.layers, hidden, widths));
        check_sizes(sizes)?;
        Ok(Self { parts, widths })
    }

    /// Writes a token's vector: zeros for one that only the target's vocabulary has, as a larger model's may
    /// have behind the tokens of the tokenizer.
    fn look_up(&self, head: &Linear<E>, token: usize, to: &mut [f32]) {
        match &self.parts.embedding {
            Some(table) => match table.chunks_exact(to.len()).nth(token) {
                Some(row) => widen(row, to),
                None => to.fill(0.0),
            },
            None if token < head.out_features() => head.weight_row(token, to),
            None => to.fill(0.0),
        }
    }
}

impl<E: Dtype> Drafter<E> for Model<E> {
    fn taps(&self) -> &[Tap] {
        &[]
    }

    fn num_layers(&self) -> usize {
        self.parts.layers.len()
    }

    fn widths(&self) -> Widths {
        self.widths
    }

    fn input_width(&self) -> usize {
        0
    }

    fn bytes(&self) -> usize {
        let layers: usize = self.parts.layers.iter().map(Layer::bytes).sum();
        layers + self.parts.embedding.as_deref().map_or(0, size_of_val)
    }

    fn run(&self, member: &Member<'_>, run: &Run<'_, E>) {
        let hidden = self.widths.hidden;
        share_out(member, run.rows.len(), 4, |row| {
            // SAFETY: each row is taken once.
            let to = unsafe { run.space.buffers.residual.part(row * hidden, hidden) };
            self.look_up(run.head, run.tokens[row] as usize, to);
        });
        member.barrier();
        run_layers(member, run, &self.parts.layers, None);
        if let Goal::States(first) = run.goal {
            leave(member, run, first, Some(&self.parts.output_norm), false);
        }
    }
}
