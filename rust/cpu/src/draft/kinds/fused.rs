//! EAGLE-2 (Li et al. 2024), and layers for multi-token prediction: one product makes the residual stream of
//! a token's vector and the state before it.
//!
//! The first level's state is the target's feature itself; later levels take what the level before them left.
#![allow(unsafe_code)] // rows of the buffers are written and read by several threads

use crate::decoder::{Layer, Tap, Widths};
use crate::draft::drafter::{Drafter, Goal, Origin, Run};
use crate::draft::kinds::stages::{
    check_sizes, enter_row, layer_sizes, leave, look_up, run_layers, widen, widths_of,
};
use crate::error::CpuError;
use crate::matmul::Linear;
use crate::simd::Dtype;
use crate::threads::{Member, share_out};

/// The weights of a drafter that joins vector and state in one product.
pub struct FusedParts<E: Dtype> {
    /// What a feature is: one part, as wide as a state.
    pub tap: Tap,
    /// Norm of the token's vector; `None` = as it is.
    pub vector_norm: Option<Vec<f32>>,
    /// Norm of the state; `None` = as it is.
    pub state_norm: Option<Vec<f32>>,
    /// Whether the state comes before the vector.
    pub state_first: bool,
    /// Product from both to the residual stream.
    pub fc: Linear<E>,
    /// The layers.
    pub layers: Vec<Layer<E>>,
    /// Norm before the head; `None` = the stream as it is.
    pub output_norm: Option<Vec<f32>>,
    /// Whether the next level continues from the state after that norm.
    pub carries_normed: bool,
    /// Token vectors `[vocabulary, hidden]`; `None` = the target's.
    pub embedding: Option<Vec<E>>,
}

/// A checked drafter.
pub(crate) struct Fused<E: Dtype> {
    parts: FusedParts<E>,
    widths: Widths,
}

impl<E: Dtype> Fused<E> {
    pub(crate) fn new(
        parts: FusedParts<E>,
        target_hidden: usize,
        qkv: usize,
        attended: usize,
    ) -> Result<Self, CpuError> {
        let widths = widths_of(&parts.layers, qkv, attended)?;
        let hidden = widths.hidden;
        let mut sizes = vec![
            ("state of the target", target_hidden, hidden),
            ("input of fc", parts.fc.in_features(), 2 * hidden),
            ("output of fc", parts.fc.out_features(), hidden),
        ];
        for (what, norm) in [
            ("norm of the vector", &parts.vector_norm),
            ("norm of the state", &parts.state_norm),
            ("norm before the head", &parts.output_norm),
        ] {
            if let Some(norm) = norm {
                sizes.push((what, norm.len(), hidden));
            }
        }
        sizes.extend(layer_sizes(&parts.layers, hidden, widths));
        check_sizes(sizes)?;
        Ok(Self { parts, widths })
    }

    /// From tokens and origins to the residual stream.
    fn enter(&self, member: &Member<'_>, run: &Run<'_, E>) {
        let (count, hidden) = (run.rows.len(), self.widths.hidden);
        let parts = &self.parts;
        let (vector_at, state_at) = if parts.state_first {
            (hidden, 0)
        } else {
            (0, hidden)
        };
        let mut scratch = vec![0.0; hidden];
        share_out(member, count, 4, |row| {
            let token = run.tokens[row] as usize;
            look_up(run, parts.embedding.as_deref(), token, &mut scratch);
            let start = row * 2 * hidden;
            // SAFETY: each row is taken once; features were complete before this run began, and states of
            // earlier levels before this one.
            unsafe {
                let out = run.space.inputs.part(start + vector_at, hidden);
                enter_row(run, &mut scratch, parts.vector_norm.as_deref(), out);
                match run.origins[row] {
                    Origin::State(index) => {
                        scratch.copy_from_slice(run.space.states.read(index * hidden, hidden));
                    }
                    Origin::Forward(from) => {
                        widen(run.features.read(from * hidden, hidden), &mut scratch);
                    }
                    Origin::Store(from) => {
                        widen(
                            &run.space.store[from * hidden..(from + 1) * hidden],
                            &mut scratch,
                        );
                    }
                }
                let out = run.space.inputs.part(start + state_at, hidden);
                enter_row(run, &mut scratch, parts.state_norm.as_deref(), out);
            }
        });
        member.barrier();
        // SAFETY: written before the barrier; only this product writes the stream until the next.
        unsafe {
            let x = run.space.inputs.read(0, count * 2 * hidden);
            parts
                .fc
                .run(member, x, count, run.space.buffers.residual, hidden);
        }
        member.barrier();
    }
}

impl<E: Dtype> Drafter<E> for Fused<E> {
    fn taps(&self) -> &[Tap] {
        std::slice::from_ref(&self.parts.tap)
    }

    fn num_layers(&self) -> usize {
        self.parts.layers.len()
    }

    fn widths(&self) -> Widths {
        self.widths
    }

    fn input_width(&self) -> usize {
        2 * self.widths.hidden
    }

    fn bytes(&self) -> usize {
        let layers: usize = self.parts.layers.iter().map(Layer::bytes).sum();
        let table = self.parts.embedding.as_deref().map_or(0, size_of_val);
        layers + self.parts.fc.bytes() + table
    }

    fn run(&self, member: &Member<'_>, run: &Run<'_, E>) {
        self.enter(member, run);
        run_layers(member, run, &self.parts.layers, None);
        if let Goal::States(first) = run.goal {
            let norm = self.parts.output_norm.as_deref();
            leave(member, run, first, norm, self.parts.carries_normed);
        }
    }
}
