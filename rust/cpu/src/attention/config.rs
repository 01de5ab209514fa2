//! Geometry of attention, and what of it is supported.

use crate::attention::batch::PAGE_SIZE;
use crate::attention::rotary::MAX_HEAD_DIM;
use crate::error::CpuError;
use crate::simd::LANES;

/// Attention settings of one layer.
#[derive(Debug, Clone, Default)]
pub struct LayerConfig {
    /// Rotates queries and keys (some families skip it in every fourth layer).
    pub rotary: bool,
    /// Sliding window: keys that a row attends to, its own included; `None` = all.
    pub window: Option<usize>,
    /// Whether rows of a block see the rows behind them too.
    pub looks_ahead: bool,
    /// First position that has a key; 0 but for draft layers, where nothing comes before the first token.
    pub first_key: usize,
    /// Weights of the norm over each query head, `head_dim` long.
    pub query_norm: Option<Vec<f32>>,
    /// Weights of the norm over each key head, `head_dim` long.
    pub key_norm: Option<Vec<f32>>,
}

/// Geometry of a decoder's attention.
#[derive(Debug, Clone)]
pub struct AttentionConfig {
    /// Query heads.
    pub heads: usize,
    /// Key-value heads; divides `heads`.
    pub kv_heads: usize,
    /// Dimensions of a head, at most 256.
    pub head_dim: usize,
    /// Pages of the cache.
    pub num_pages: usize,
    /// Limit of positions, exclusive.
    pub max_context: usize,
    /// Factor on the scores, usually `head_dim^-0.5`.
    pub scale: f32,
    /// Added to the mean of squares in the query and key norms.
    pub norm_epsilon: f32,
    /// Cosines `[max_context, rotated / 2]`.
    pub cosines: Vec<f32>,
    /// Sines `[max_context, rotated / 2]`.
    pub sines: Vec<f32>,
    /// One entry per layer.
    pub layers: Vec<LayerConfig>,
}

impl AttentionConfig {
    /// Width of a row of queries, keys and values.
    pub(crate) fn qkv_width(&self) -> usize {
        (self.heads + 2 * self.kv_heads) * self.head_dim
    }

    /// Width of a row of results.
    pub(crate) fn out_width(&self) -> usize {
        self.heads * self.head_dim
    }

    /// Checks the geometry. Returns the padded width of a head in the cache and half of the dimensions
    /// that are rotated.
    ///
    /// # Errors
    /// [`CpuError::Size`] or [`CpuError::Length`] for an unsupported geometry.
    pub(crate) fn check(&self) -> Result<(usize, usize), CpuError> {
        let size = |what, given, allowed| {
            Err(CpuError::Size {
                what,
                given,
                allowed,
            })
        };
        if self.kv_heads == 0 || !self.heads.is_multiple_of(self.kv_heads) {
            return size("kv_heads", self.kv_heads, "a divisor of heads");
        }
        if self.heads == 0 {
            return size("heads", 0, "at least 1");
        }
        if self.head_dim == 0 || self.head_dim > MAX_HEAD_DIM {
            return size("head_dim", self.head_dim, "1..=256");
        }
        if self.num_pages == 0 || self.num_pages > (i32::MAX as usize) / PAGE_SIZE {
            return size("num_pages", self.num_pages, "at least 1, slots below 2^31");
        }
        let half = self.cosines.len() / self.max_context.max(1);
        if self.cosines.len() != half * self.max_context || 2 * half > self.head_dim {
            return size(
                "cosines",
                self.cosines.len(),
                "max_context x at most head_dim / 2",
            );
        }
        let (given, expected) = (self.sines.len(), self.cosines.len());
        if given != expected {
            return Err(CpuError::Length {
                what: "sines",
                given,
                expected,
            });
        }
        for layer in &self.layers {
            for norm in [&layer.query_norm, &layer.key_norm].into_iter().flatten() {
                let (given, expected) = (norm.len(), self.head_dim);
                if given != expected {
                    return Err(CpuError::Length {
                        what: "head norm",
                        given,
                        expected,
                    });
                }
            }
            if layer.window == Some(0) {
                return size("window", 0, "at least 1");
            }
        }
        let width = self.head_dim.next_multiple_of(LANES);
        // Values are found by offsets of whole vectors held in 32 bits.
        let vectors = self.num_pages * PAGE_SIZE * self.kv_heads * (width / LANES);
        if u32::try_from(vectors).is_err() {
            return size(
                "num_pages",
                self.num_pages,
                "a layer's cache below 2^36 elements",
            );
        }
        Ok((width, half))
    }
}
