//! The whole forward of a decoder as one call.

use crate::attention::{Attention, AttentionConfig, Batch};
use crate::buffer::{Buffer, SharedSlice};
use crate::decoder::embedding::{Embedding, Target};
use crate::decoder::layer::Layer;
use crate::decoder::lm_head::{HEAD_ROWS, LmHead};
use crate::decoder::output_rows::output_rows;
use crate::decoder::shape::Widths;
use crate::decoder::split::Split;
use crate::decoder::tap::{Features, Tap, Tapped};
use crate::decoder::top_k::TOP_K;
use crate::decoder::workspace::{LayerPass, Workspace};
use crate::error::CpuError;
use crate::matmul::Linear;
use crate::simd::Dtype;
use crate::threads::{Team, share_out};

/// Rows that go through the layers together: many enough that weights are read from memory little
/// compared with the arithmetic, few enough that activations stay small.
pub(crate) const BLOCK_ROWS: usize = 256;

/// Rows of logits whose memory is kept for the next forward; larger results are rare (log-probabilities
/// of a prompt) and give theirs back.
const RETAINED_ROWS: usize = 2 * HEAD_ROWS;

/// The parts of a decoder.
pub struct DecoderParts<E: Dtype> {
    /// One entry per layer.
    pub layers: Vec<Layer<E>>,
    /// The table of token vectors.
    pub embedding: Embedding<E>,
    /// Norm before the LM head, `[hidden]`.
    pub final_norm: Vec<f32>,
    /// Product from hidden to vocabulary.
    pub head: Linear<E>,
    /// The head of the whole decoder, for drafters beside a part of it; `None` where `head` is that, or nobody drafts.
    pub whole_head: Option<Linear<E>>,
    /// Geometry of the attention, one entry per layer.
    pub attention: AttentionConfig,
    /// Maximum rows of a batch.
    pub max_rows: usize,
    /// The part of a divided decoder; `None` = the whole decoder.
    pub split: Option<Split>,
}

/// The input of one forward.
#[derive(Debug, Clone, Copy)]
pub struct Step<'a> {
    /// The rows, and their places in the cache.
    pub batch: &'a Batch,
    /// The token of each row.
    pub tokens: &'a [i32],
    /// Rows whose logits are kept, ascending.
    pub sample_rows: &'a [i32],
    /// Rows whose likeliest tokens are returned, ascending.
    pub top_rows: &'a [i32],
}

/// The likeliest tokens of the top rows, as [`crate::top_k`] computes them.
#[derive(Debug, Clone, PartialEq)]
pub struct TopTokens {
    /// `[top rows, 8]`.
    pub ids: Vec<i32>,
    /// `[top rows, 8]`.
    pub probabilities: Vec<f32>,
}

/// A decoder with its weights, key-value cache and workspaces.
///
/// The residual stream is `f32` whatever `E` is: adding in bfloat16 would cost accuracy and save
/// nothing, because the norm that follows reads the stream once either way.
pub struct Decoder<E: Dtype> {
    layers: Vec<Layer<E>>,
    embedding: Embedding<E>,
    final_norm: Vec<f32>,
    head: Linear<E>,
    whole_head: Option<Linear<E>>,
    attention: Attention<E>,
    split: Split,
    epsilon: f32,
    max_rows: usize,
    workspace: Workspace<E>,
    logits: Buffer<f32>,
    /// Sample rows of the last forward.
    num_samples: usize,
}

#[allow(unsafe_code)] // the residual stream is written by several threads
impl<E: Dtype> Decoder<E> {
    /// Checks that the parts fit each other, and reserves cache and logits. The system provides their
    /// memory as it is first used.
    ///
    /// # Errors
    /// [`CpuError::Size`] or [`CpuError::Length`] for parts that do not fit, [`CpuError::Memory`] when
    /// cache or logits cannot be allocated.
    pub fn new(parts: DecoderParts<E>) -> Result<Self, CpuError> {
        let hidden = parts.head.in_features();
        let config = &parts.attention;
        let attended = parts.split.as_ref().map(|split| split.attended.total);
        let attended = attended.unwrap_or(config.out_width());
        let mut widths = Widths::new(hidden, config.qkv_width(), attended);
        for layer in &parts.layers {
            layer.widen(&mut widths);
        }
        let tokens = parts.head.out_features();
        let split = parts.split.unwrap_or_else(|| Split::whole(widths, tokens));
        let vocabulary = split.vocabulary.total;
        split.check(widths)?;
        let whole_head = parts.whole_head.as_ref();
        Target::new(&parts.embedding, &parts.head, whole_head).check(vocabulary)?;
        let mut sizes = vec![
            (
                "layers of the attention",
                config.layers.len(),
                parts.layers.len(),
            ),
            ("final norm", parts.final_norm.len(), hidden),
            (
                "heads of this part",
                config.out_width(),
                split.attended.count,
            ),
            (
                "output of the head",
                parts.head.out_features(),
                split.vocabulary.count,
            ),
        ];
        if let Some(whole) = &parts.whole_head {
            sizes.extend([
                ("input of the whole head", whole.in_features(), hidden),
                ("output of the whole head", whole.out_features(), vocabulary),
            ]);
        }
        for layer in &parts.layers {
            sizes.extend(layer.sizes(hidden, widths.qkv, &split));
        }
        for (what, given, expected) in sizes {
            if given != expected {
                return Err(CpuError::Length {
                    what,
                    given,
                    expected,
                });
            }
        }
        if parts.max_rows == 0 {
            return Err(CpuError::Size {
                what: "max_rows",
                given: 0,
                allowed: "at least 1",
            });
        }
        let logits = Buffer::zeroed((parts.max_rows + HEAD_ROWS) * vocabulary)?;
        Ok(Self {
            epsilon: config.norm_epsilon,
            attention: Attention::new(parts.attention)?,
            layers: parts.layers,
            embedding: parts.embedding,
            final_norm: parts.final_norm,
            head: parts.head,
            whole_head: parts.whole_head,
            split,
            max_rows: parts.max_rows,
            workspace: Workspace::new(widths),
            logits,
            num_samples: 0,
        })
    }

    /// Performs the batch's cache moves and computes its rows. Returns the likeliest tokens of the top
    /// rows; the logits of the sample rows are the first rows of [`Decoder::logits`].
    ///
    /// # Errors
    /// [`CpuError::Length`] or [`CpuError::Entry`] for a step that contradicts itself, before anything is
    /// changed; [`CpuError::Panicked`] on a bug.
    pub fn forward(&mut self, team: &Team, step: &Step<'_>) -> Result<TopTokens, CpuError> {
        self.forward_tapped(team, step, None)
    }

    /// As [`Decoder::forward`]; also keeps the features of all rows. Taps change no bit of the result.
    ///
    /// # Errors
    /// As [`Decoder::forward`].
    pub fn forward_tapped(
        &mut self,
        team: &Team,
        step: &Step<'_>,
        features: Option<&mut Features<E>>,
    ) -> Result<TopTokens, CpuError> {
        let tapped = features.map(|features| Tapped {
            features,
            follower: None,
        });
        self.forward_followed(team, step, tapped.into_iter().collect())
    }

    /// As [`Decoder::forward_tapped`], for each of `tapped`; its follower runs behind the layers of each block, with
    /// its features.
    pub(crate) fn forward_followed(
        &mut self,
        team: &Team,
        step: &Step<'_>,
        tapped: Vec<Tapped<'_, E>>,
    ) -> Result<TopTokens, CpuError> {
        let num_rows = self.check(step)?;
        let output = output_rows(num_rows, BLOCK_ROWS, step.sample_rows, step.top_rows)?;
        let num_top = step.top_rows.len() * TOP_K;
        let mut top = TopTokens {
            ids: vec![-1; num_top],
            probabilities: vec![0.0; num_top],
        };
        self.attention.move_slots(step.batch);
        if self.num_samples + HEAD_ROWS > RETAINED_ROWS {
            let retained = RETAINED_ROWS * self.head.out_features();
            self.logits.release(retained);
        }
        self.num_samples = step.sample_rows.len();
        let target = Target::new(&self.embedding, &self.head, self.whole_head.as_ref());
        let hidden = self.head.in_features();
        let buffers = self.workspace.buffers(num_rows.min(BLOCK_ROWS));
        let attention = self.attention.pass(step.batch, num_rows.min(BLOCK_ROWS));
        let lm_head = LmHead {
            final_norm: &self.final_norm,
            head: &self.head,
            epsilon: self.epsilon,
            with_delta: !self.layers.is_empty(),
            split: &self.split,
            logits: SharedSlice::new(self.logits.as_mut_slice()),
            ids: SharedSlice::new(&mut top.ids),
            probabilities: SharedSlice::new(&mut top.probabilities),
        };
        let with_delta = !self.layers.is_empty();
        let tapped = tapped.into_iter().map(|tapped| {
            let (norm, features) = (&self.final_norm, tapped.features);
            let tapping = features.writer(num_rows, norm, self.epsilon, with_delta);
            (tapping, tapped.follower)
        });
        let tapped: Vec<_> = tapped.collect();
        team.run(&|member| {
            for (block, output) in output.iter().enumerate() {
                let rows = block * BLOCK_ROWS..num_rows.min((block + 1) * BLOCK_ROWS);
                let tokens = &step.tokens[rows.clone()];
                share_out(member, tokens.len(), 4, |row| {
                    // SAFETY: each row is taken once.
                    let to = unsafe { buffers.residual.part(row * hidden, hidden) };
                    target.look_up(tokens[row] as usize, to);
                });
                member.barrier();
                for (index, layer) in self.layers.iter().enumerate() {
                    let pass = LayerPass {
                        index,
                        attention: &attention,
                        buffers,
                        split: &self.split,
                        epsilon: self.epsilon,
                    };
                    layer.run(member, &pass, rows.clone());
                    for (tapping, _) in &tapped {
                        tapping.after_layer(member, index, buffers, rows.clone());
                    }
                }
                for (tapping, follower) in &tapped {
                    tapping.after_layers(member, buffers, rows.clone());
                    if let Some(follower) = follower {
                        follower.follow(member, rows.clone(), tapping.values, target);
                    }
                }
                lm_head.run(member, buffers, output);
            }
        })?;
        Ok(top)
    }

    /// What a drafter may read.
    pub(crate) fn target(&self) -> Target<'_, E> {
        Target::new(&self.embedding, &self.head, self.whole_head.as_ref())
    }

    /// Performs a batch's cache moves alone.
    pub(crate) fn move_slots(&mut self, batch: &Batch) {
        self.attention.move_slots(batch);
    }

    /// Width of the residual stream.
    pub fn hidden(&self) -> usize {
        self.head.in_features()
    }

    /// Pages of the cache, and the limit of positions.
    pub(crate) fn room(&self) -> (usize, usize) {
        self.attention.room()
    }

    /// Whether drafters find the rows of all tokens here: not beside a part that has its own rows alone.
    pub(crate) fn has_whole_head(&self) -> bool {
        self.target().head.out_features() == self.vocabulary()
    }

    /// Room for the features of a batch, for [`Decoder::forward_tapped`] of this decoder.
    ///
    /// # Errors
    /// [`CpuError::Size`] without taps or for a layer that does not exist, [`CpuError::Memory`].
    pub fn features(&self, taps: Vec<Tap>) -> Result<Features<E>, CpuError> {
        if taps.is_empty() {
            return Err(CpuError::Size {
                what: "taps",
                given: 0,
                allowed: "at least one",
            });
        }
        self.features_or_none(taps)
    }

    /// As [`Decoder::features`]; without taps there are none.
    pub(crate) fn features_or_none(&self, taps: Vec<Tap>) -> Result<Features<E>, CpuError> {
        let hidden = self.head.in_features();
        Features::new(taps, self.layers.len(), hidden, self.max_rows)
    }

    /// Logits, `[max_rows, vocabulary]`; the first rows are the sample rows of the last forward.
    pub fn logits(&self) -> &[f32] {
        &self.logits.as_slice()[..self.max_rows * self.vocabulary()]
    }

    /// Number of tokens in the vocabulary.
    pub fn vocabulary(&self) -> usize {
        self.split.vocabulary.total
    }

    /// Bytes of weights and activations, without cache and logits.
    pub fn bytes(&self) -> usize {
        let layers: usize = self.layers.iter().map(Layer::bytes).sum();
        layers
            + self.head.bytes()
            + self.whole_head.as_ref().map_or(0, Linear::bytes)
            + self.embedding.bytes()
            + size_of_val(self.final_norm.as_slice())
            + self.workspace.bytes()
    }

    /// Checks a step; returns its rows.
    pub(crate) fn check(&self, step: &Step<'_>) -> Result<usize, CpuError> {
        let num_rows = step.batch.num_rows();
        if step.tokens.len() != num_rows {
            return Err(CpuError::Length {
                what: "tokens",
                given: step.tokens.len(),
                expected: num_rows,
            });
        }
        if num_rows > self.max_rows {
            return Err(CpuError::Length {
                what: "rows of the batch",
                given: num_rows,
                expected: self.max_rows,
            });
        }
        let vocabulary = self.vocabulary();
        for (index, &token) in step.tokens.iter().enumerate() {
            if usize::try_from(token).is_ok_and(|token| token < vocabulary) {
                continue;
            }
            return Err(CpuError::Entry {
                what: "tokens",
                index,
                given: i64::from(token),
                expected: format!("0..{vocabulary}"),
            });
        }
        Ok(num_rows)
    }
}
