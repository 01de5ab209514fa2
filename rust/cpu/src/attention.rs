//! Attention of chunks and draft trees over the paged cache.

use std::ops::Range;

use crate::batch::{Batch, PAGE_SIZE};
use crate::cache::LayerCache;
use crate::element::Element;
use crate::error::CpuError;
use crate::level::{Level, launch};
use crate::memory::Shared;
use crate::pool;
use crate::rotary::{MAX_HEAD_DIM, Preparation};
use crate::simd::LANES;
use crate::softmax::Item;

/// Multiply-adds from which a second thread pays: about 20 us of one core.
const PARALLEL_WORK: usize = 1 << 19;

/// What one layer does besides the common geometry.
#[derive(Debug, Clone, Default)]
pub struct LayerConfig {
    /// Whether queries and keys are rotated (some families skip it in every fourth layer).
    pub rotary: bool,
    /// Keys that a row sees, itself included; `None` = all.
    pub window: Option<usize>,
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
    /// Positions are below this.
    pub max_context: usize,
    /// Factor of the scores, usually `head_dim^-0.5`.
    pub scale: f32,
    /// Added to the mean of squares in the query and key norms.
    pub norm_epsilon: f32,
    /// Cosines `[max_context, rotated / 2]`.
    pub cosines: Vec<f32>,
    /// Sines, likewise.
    pub sines: Vec<f32>,
    /// One entry per layer.
    pub layers: Vec<LayerConfig>,
}

/// The attention operator of all layers, with the key-value cache it owns.
pub struct Attention<E> {
    config: AttentionConfig,
    caches: Vec<LayerCache<E>>,
    queries: Vec<f32>,
    width: usize,
    half: usize,
}

impl<E: Element> Attention<E> {
    /// Checks the geometry and reserves the cache. Memory is taken from the system as pages are used.
    ///
    /// # Errors
    /// [`CpuError::Size`] or [`CpuError::Length`] for a geometry that is not supported,
    /// [`CpuError::Memory`] when the cache does not fit.
    pub fn new(config: AttentionConfig) -> Result<Self, CpuError> {
        let size = |what, given, allowed| {
            Err(CpuError::Size {
                what,
                given,
                allowed,
            })
        };
        if config.kv_heads == 0 || !config.heads.is_multiple_of(config.kv_heads) {
            return size("kv_heads", config.kv_heads, "a divisor of heads");
        }
        if config.heads == 0 {
            return size("heads", 0, "at least 1");
        }
        if config.head_dim == 0 || config.head_dim > MAX_HEAD_DIM {
            return size("head_dim", config.head_dim, "1..=256");
        }
        if config.num_pages == 0 || config.num_pages > (i32::MAX as usize) / PAGE_SIZE {
            return size(
                "num_pages",
                config.num_pages,
                "at least 1, slots below 2^31",
            );
        }
        let half = config.cosines.len() / config.max_context.max(1);
        if config.cosines.len() != half * config.max_context || 2 * half > config.head_dim {
            return size(
                "cosines",
                config.cosines.len(),
                "max_context x at most head_dim / 2",
            );
        }
        let (given, expected) = (config.sines.len(), config.cosines.len());
        if given != expected {
            return Err(CpuError::Length {
                what: "sines",
                given,
                expected,
            });
        }
        for layer in &config.layers {
            for norm in [&layer.query_norm, &layer.key_norm].into_iter().flatten() {
                let (given, expected) = (norm.len(), config.head_dim);
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
        let width = config.head_dim.next_multiple_of(LANES);
        // Values are found by offsets of whole vectors held in 32 bits.
        let vectors = config.num_pages * PAGE_SIZE * config.kv_heads * (width / LANES);
        if u32::try_from(vectors).is_err() {
            return size(
                "num_pages",
                config.num_pages,
                "a layer's cache below 2^36 elements",
            );
        }
        let caches = config
            .layers
            .iter()
            .map(|_| LayerCache::new(config.num_pages, config.kv_heads, width))
            .collect::<Result<_, _>>()?;
        Ok(Self {
            config,
            caches,
            queries: Vec::new(),
            width,
            half,
        })
    }

    /// Bytes of cache that a page takes over all layers.
    pub fn page_bytes(&self) -> usize {
        2 * self.caches.len() * self.config.kv_heads * PAGE_SIZE * self.width * size_of::<E>()
    }

    /// Does the plan's cache moves, in order, in every layer.
    pub fn move_slots(&mut self, batch: &Batch) {
        for cache in &mut self.caches {
            for &(from, to) in &batch.moves {
                cache.move_slot(from as usize, to as usize);
            }
        }
    }

    /// Attention of one layer for some rows of `batch`.
    ///
    /// `qkv: [rows, (heads + 2 kv_heads) * head_dim]` holds queries, keys and values before rotation;
    /// keys and values are written to the cache first, then each row attends to the keys it sees.
    /// `out: [rows, heads * head_dim]`. A batch taken in several calls must be taken in order.
    ///
    /// # Errors
    /// [`CpuError::Size`] for a layer that does not exist, [`CpuError::Length`] when buffers do not fit
    /// the batch, [`CpuError::Panicked`] on a bug.
    #[allow(unsafe_code)] // rows are written from several threads
    pub fn attend(
        &mut self,
        layer: usize,
        batch: &Batch,
        rows: Range<usize>,
        qkv: &[E],
        out: &mut [E],
        threads: usize,
    ) -> Result<(), CpuError> {
        let config = &self.config;
        let (heads, kv_heads, head_dim) = (config.heads, config.kv_heads, config.head_dim);
        let (group, width) = (heads / kv_heads, self.width);
        let Some(batch_rows) = batch.rows.get(rows.clone()) else {
            let (given, expected) = (rows.end, batch.rows.len());
            return Err(CpuError::Length {
                what: "rows of the batch",
                given,
                expected,
            });
        };
        let rows = batch_rows.len();
        let Some(cache) = self.caches.get_mut(layer) else {
            let allowed = "below the number of layers";
            return Err(CpuError::Size {
                what: "layer",
                given: layer,
                allowed,
            });
        };
        let row_len = (heads + 2 * kv_heads) * head_dim;
        for (what, given, expected) in [
            ("qkv", qkv.len(), rows * row_len),
            ("out", out.len(), rows * heads * head_dim),
        ] {
            if given != expected {
                return Err(CpuError::Length {
                    what,
                    given,
                    expected,
                });
            }
        }
        if self.queries.len() < rows * heads * width {
            self.queries.resize(rows * heads * width, 0.0);
        }
        let keys: usize = batch_rows.iter().map(|row| row.position as usize + 1).sum();
        let threads = if keys * heads * head_dim < PARALLEL_WORK {
            1
        } else {
            threads
        };
        let level = Level::detect();

        let queries = Shared::new(&mut self.queries);
        let writer = cache.writer();
        let settings = &config.layers[layer];
        let parts = if threads == 1 {
            1
        } else {
            rows.min(threads * 4)
        };
        pool::run(threads, parts, &|part| {
            for index in rows * part / parts..rows * (part + 1) / parts {
                let row = batch_rows[index];
                let half = row.position as usize * self.half;
                let rotation = settings.rotary.then(|| {
                    let range = half..half + self.half;
                    (&config.cosines[range.clone()], &config.sines[range])
                });
                // SAFETY: each row is prepared once; slots are distinct (checked in `Batch::new`).
                let queries = unsafe { queries.part(index * heads * width, heads * width) };
                launch(
                    level,
                    crate::prepare::Row {
                        qkv: &qkv[index * row_len..(index + 1) * row_len],
                        queries,
                        writer,
                        slot: row.slot as usize,
                        kv_heads,
                        group,
                        head_dim,
                        width,
                        // 2^x replaces e^x, so log2(e) joins the factor of the scores.
                        scale: config.scale * std::f32::consts::LOG2_E,
                        query: Preparation {
                            norm: settings
                                .query_norm
                                .as_deref()
                                .map(|w| (w, config.norm_epsilon)),
                            rotation,
                        },
                        key: Preparation {
                            norm: settings
                                .key_norm
                                .as_deref()
                                .map(|w| (w, config.norm_epsilon)),
                            rotation,
                        },
                    },
                );
            }
        })?;

        let queries = &self.queries;
        let (keys, values) = (cache.keys.as_slice(), cache.values.as_slice());
        let out = Shared::new(out);
        let items = rows * kv_heads;
        let parts = if threads == 1 {
            1
        } else {
            items.min(threads * 16)
        };
        pool::run(threads, parts, &|part| {
            for item in items * part / parts..items * (part + 1) / parts {
                // Rows of one head follow each other, so its pages stay in the core's cache.
                let (head, index) = (item / rows, item % rows);
                let row = batch_rows[index];
                let query = (index * heads + head * group) * width;
                // SAFETY: each (row, head) pair is computed once.
                let out = unsafe {
                    out.part((index * heads + head * group) * head_dim, group * head_dim)
                };
                launch(
                    level,
                    Item {
                        queries: &queries[query..query + group * width],
                        keys,
                        values,
                        pages: &batch.page_ids[row.page_start as usize..],
                        path: &batch.path_slots[row.path_start as usize..],
                        position: row.position as usize,
                        direct_end: row.direct_end as usize,
                        window: settings.window.unwrap_or(usize::MAX),
                        kv_heads,
                        head,
                        group,
                        head_dim,
                        width,
                        out,
                    },
                );
            }
        })
    }
}
