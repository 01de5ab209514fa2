//! EAGLE-3 (Li et al. 2025): a layer over the token's vector and the state before it, side by side.
//!
//! The first level's state is a product of the target's feature; later levels take the state that the
//! level before them left, before its last norm.
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

/// The weights of an EAGLE-3 drafter.
pub struct Eagle3Parts<E: Dtype> {
    /// What a feature is made of.
    pub taps: Vec<Tap>,
    /// A norm for each part of the feature, or none.
    pub feature_norms: Vec<Vec<f32>>,
    /// Product from feature to state; `None` = the feature is the state.
    pub fc: Option<Linear<E>>,
    /// Norm of the state before the first layer.
    pub hidden_norm: Vec<f32>,
    /// Whether the residual stream begins with the normed state.
    pub norm_before_residual: bool,
    /// The first takes the token's normed vector, then the normed state; its attention norm is for the
    /// vector.
    pub layers: Vec<Layer<E>>,
    /// Norm before the head.
    pub output_norm: Option<Vec<f32>>,
    /// Token vectors `[vocabulary, hidden]`; `None` = the target's.
    pub embedding: Option<Vec<E>>,
}

/// A checked drafter.
pub(crate) struct Eagle3<E: Dtype> {
    parts: Eagle3Parts<E>,
    widths: Widths,
}

impl<E: Dtype> Eagle3<E> {
    pub(crate) fn new(
        parts: Eagle3Parts<E>,
        target_hidden: usize,
        qkv: usize,
        attended: usize,
    ) -> Result<Self, CpuError> {
        let widths = widths_of(&parts.layers, qkv, attended)?;
        let hidden = widths.hidden;
        let feature = parts.taps.len() * target_hidden;
        let (fc_in, fc_out) = parts
            .fc
            .as_ref()
            .map_or((hidden, hidden), |fc| (fc.in_features(), fc.out_features()));
        let mut sizes = vec![
            ("input of fc", fc_in, feature),
            ("output of fc", fc_out, hidden),
            ("hidden_norm", parts.hidden_norm.len(), hidden),
        ];
        if !parts.feature_norms.is_empty() {
            sizes.push(("fc_norm", parts.feature_norms.len(), parts.taps.len()));
        }
        for norm in &parts.feature_norms {
            sizes.push(("fc_norm", norm.len(), target_hidden));
        }
        if let Some(norm) = &parts.output_norm {
            sizes.push(("norm", norm.len(), hidden));
        }
        if parts.embedding.is_none() {
            sizes.push(("token vectors of the target", target_hidden, hidden));
        }
        let norms = parts.layers[0].attention_norm.iter().len();
        sizes.push(("norms of the token's vector", norms, 1));
        sizes.extend(layer_sizes(&parts.layers, 2 * hidden, widths));
        check_sizes(sizes)?;
        Ok(Self { parts, widths })
    }

    /// From tokens and origins to the inputs of the first layer and the residual stream.
    fn enter(&self, member: &Member<'_>, run: &Run<'_, E>) {
        let (count, hidden) = (run.rows.len(), self.widths.hidden);
        let mut scratch = vec![0.0; hidden];
        let norm = self.parts.layers[0].attention_norm.as_deref();
        share_out(member, count, 4, |row| {
            let table = self.parts.embedding.as_deref();
            look_up(run, table, run.tokens[row] as usize, &mut scratch);
            // SAFETY: each row is taken once.
            unsafe {
                let out = run.space.inputs.part(row * 2 * hidden, hidden);
                enter_row(run, &mut scratch, norm, out);
                self.continue_from(run, row);
            }
        });
        member.barrier();
        if let Some(fc) = self.parts.fc.as_ref().filter(|_| run.is_first()) {
            // SAFETY: gathered before the barrier; only this product writes the stream until the next.
            unsafe {
                let x = run.space.gathered.read(0, count * fc.in_features());
                fc.run(member, x, count, run.space.buffers.residual, hidden);
            }
            member.barrier();
        }
        share_out(member, count, 4, |row| {
            // SAFETY: the stream was written before the barrier; each row is taken once.
            unsafe {
                let state = run.space.buffers.residual.part(row * hidden, hidden);
                let out = run.space.inputs.part((2 * row + 1) * hidden, hidden);
                enter_row(run, state, Some(&self.parts.hidden_norm), out);
                if self.parts.norm_before_residual {
                    widen(out, state);
                }
            }
        });
        member.barrier();
    }

    /// Fetches what a row continues: to the stream, or to the rows that `fc` takes.
    ///
    /// # Safety
    /// No other thread touches this row.
    unsafe fn continue_from(&self, run: &Run<'_, E>, row: usize) {
        let hidden = self.widths.hidden;
        let (norms, parts) = (&self.parts.feature_norms, self.parts.taps.len());
        let width = self.parts.fc.as_ref().map_or(hidden, Linear::in_features);
        // SAFETY: by the caller's promise; features were complete before this run began, and states of
        // earlier levels before this one.
        unsafe {
            let feature = match run.origins[row] {
                Origin::State(index) => {
                    let state = run.space.states.read(index * hidden, hidden);
                    let stream = run.space.buffers.residual.part(row * hidden, hidden);
                    stream.copy_from_slice(state);
                    return;
                }
                Origin::Forward(from) => run.features.read(from * width, width),
                Origin::Store(from) => &run.space.store[from * width..(from + 1) * width],
            };
            let gathered = run.space.gathered.part(row * width, width);
            gathered.copy_from_slice(feature);
            for (norm, part) in norms
                .iter()
                .zip(gathered.chunks_exact_mut(width / parts.max(1)))
            {
                let mut wide = vec![0.0; part.len()];
                widen(part, &mut wide);
                enter_row(run, &mut wide, Some(norm), part);
            }
            if self.parts.fc.is_none() {
                widen(
                    gathered,
                    run.space.buffers.residual.part(row * hidden, hidden),
                );
            }
        }
    }
}

impl<E: Dtype> Drafter<E> for Eagle3<E> {
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
        2 * self.widths.hidden
    }

    fn bytes(&self) -> usize {
        let layers: usize = self.parts.layers.iter().map(Layer::bytes).sum();
        let table = self.parts.embedding.as_deref().map_or(0, size_of_val);
        layers + self.parts.fc.as_ref().map_or(0, Linear::bytes) + table
    }

    fn run(&self, member: &Member<'_>, run: &Run<'_, E>) {
        self.enter(member, run);
        // SAFETY: written before the barrier.
        let x = unsafe {
            run.space
                .inputs
                .read(0, run.rows.len() * self.input_width())
        };
        run_layers(member, run, &self.parts.layers, Some(x));
        if let Goal::States(first) = run.goal {
            leave(member, run, first, self.parts.output_norm.as_deref(), false);
        }
    }
}
