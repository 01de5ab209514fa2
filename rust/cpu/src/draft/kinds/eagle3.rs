//! EAGLE-3 (Li et al. 2025): a layer over the token's vector and the state before it, side by side.
//!
//! The first level's state is a product of the target's feature; later levels take the state that the
//! level before them left, before its last norm.
//!
//! P-EAGLE (Hui et al. 2026) has no later levels: rows of a learnt token and a learnt feature lie behind the row of
//! the last token, each sees those before it, and their states answer the levels.
#![allow(unsafe_code)] // rows of the buffers are written and read by several threads

use crate::decoder::{Layer, Tap, Widths};
use crate::draft::drafter::{Drafter, Goal, Origin, Run};
use crate::draft::kinds::dflash::MAX_BLOCK;
use crate::draft::kinds::stages::{
    check_sizes, enter_row, layer_sizes, leave, look_up, recall, run_layers, widen, widths_of,
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
    /// All levels at once; `None` = one behind the other.
    pub parallel: Option<Parallel<E>>,
}

/// How all levels are computed at once.
pub struct Parallel<E: Dtype> {
    /// Rows of a first level: the last token's, and one for each further level, 2 to 63 in all.
    pub block: usize,
    /// The token that stands for those that are to be guessed.
    pub mask_token: usize,
    /// The feature that stands for those that are not known.
    pub mask_feature: Vec<E>,
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
        if let Some(parallel) = &parts.parallel {
            sizes.push(("feature of the mask", parallel.mask_feature.len(), feature));
            if !(2..=MAX_BLOCK).contains(&parallel.block) {
                return Err(CpuError::Size {
                    what: "rows of a block",
                    given: parallel.block,
                    allowed: "2..=63",
                });
            }
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
        let stride = count / run.tokens.len().max(1);
        share_out(member, count, 4, |row| {
            let table = self.parts.embedding.as_deref();
            let token = match &self.parts.parallel {
                Some(parallel) if !row.is_multiple_of(stride) => parallel.mask_token,
                _ => run.tokens[row / stride] as usize,
            };
            look_up(run, table, token, &mut scratch);
            // SAFETY: each row is taken once.
            unsafe {
                let out = run.space.inputs.part(row * 2 * hidden, hidden);
                enter_row(run, &mut scratch, norm, out);
                self.continue_from(run, row, stride);
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
    unsafe fn continue_from(&self, run: &Run<'_, E>, row: usize, stride: usize) {
        let hidden = self.widths.hidden;
        let (norms, parts) = (&self.parts.feature_norms, self.parts.taps.len());
        let width = self.parts.fc.as_ref().map_or(hidden, Linear::in_features);
        // SAFETY: by the caller's promise; features were complete before this run began, and states of
        // earlier levels before this one.
        unsafe {
            let mask = self
                .parts
                .parallel
                .as_ref()
                .filter(|_| !row.is_multiple_of(stride));
            let feature = match (mask, run.origins[row / stride]) {
                (Some(parallel), _) => parallel.mask_feature.as_slice(),
                (None, Origin::State(index)) => {
                    let state = run.space.states.read(index * hidden, hidden);
                    let stream = run.space.buffers.residual.part(row * hidden, hidden);
                    stream.copy_from_slice(state);
                    return;
                }
                (None, Origin::Forward(from)) => run.features.read(from * width, width),
                (None, Origin::Store(from)) => &run.space.store[from * width..(from + 1) * width],
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

    fn rows_of_first(&self) -> usize {
        self.parts
            .parallel
            .as_ref()
            .map_or(1, |parallel| parallel.block)
    }

    fn states_of_first(&self) -> usize {
        self.rows_of_first()
    }

    fn run(&self, member: &Member<'_>, run: &Run<'_, E>) {
        let (states, goal) = (self.states_of_first(), run.goal);
        if let (Some(_), Goal::States(first), false) = (&self.parts.parallel, goal, run.is_first())
        {
            recall(member, run, first, states);
            return;
        }
        self.enter(member, run);
        // SAFETY: written before the barrier.
        let x = unsafe {
            run.space
                .inputs
                .read(0, run.rows.len() * self.input_width())
        };
        run_layers(member, run, &self.parts.layers, Some(x));
        if let Goal::States(first) = run.goal {
            let norm = self.parts.output_norm.as_deref();
            let is_parallel = self.parts.parallel.is_some();
            leave(member, run, first * states, norm, is_parallel);
            if is_parallel {
                recall(member, run, first, states);
            }
        }
    }
}
