//! Attention of chunks and draft trees over the paged cache.

use std::ops::Range;

use spectrie_simd::Isa;

use crate::attention::batch::{Batch, PAGE_SIZE};
use crate::attention::cache::{CacheWriter, LayerCache};
use crate::attention::config::AttentionConfig;
use crate::attention::rotary::Preparation;
use crate::attention::softmax::AttendRow;
use crate::attention::write_kv::WriteKv;
use crate::buffer::{Columns, SharedSlice};
use crate::error::CpuError;
use crate::simd::{Dtype, launch};
use crate::threads::{Member, Team, share_out};

/// The attention operator of all layers, with the key-value cache it owns.
pub struct Attention<E> {
    config: AttentionConfig,
    caches: Vec<LayerCache<E>>,
    queries: Vec<f32>,
    width: usize,
    half: usize,
}

impl<E: Dtype> Attention<E> {
    /// Checks the geometry and reserves the cache. The system provides memory as pages are first used.
    ///
    /// # Errors
    /// [`CpuError::Size`] or [`CpuError::Length`] for an unsupported geometry, [`CpuError::Memory`] when
    /// the cache cannot be allocated.
    pub fn new(config: AttentionConfig) -> Result<Self, CpuError> {
        let (width, half) = config.check()?;
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

    /// Pages of the cache, and the limit of positions.
    pub(crate) fn room(&self) -> (usize, usize) {
        (self.config.num_pages, self.config.max_context)
    }

    /// Bytes of a page in the caches of all layers.
    pub fn page_bytes(&self) -> usize {
        2 * self.caches.len() * self.config.kv_heads * PAGE_SIZE * self.width * size_of::<E>()
    }

    /// Writes one number to all keys and values; for tests.
    pub(crate) fn fill(&mut self, value: f32) {
        for cache in &mut self.caches {
            cache.fill(E::from_f32(value), self.config.head_dim);
        }
    }

    /// Performs the plan's cache moves, in order, in every layer.
    pub fn move_slots(&mut self, batch: &Batch) {
        for cache in &mut self.caches {
            for &(from, to) in &batch.moves {
                cache.move_slot(from as usize, to as usize);
            }
        }
    }

    /// Computes the attention of one layer for some rows of `batch`.
    ///
    /// `qkv: [rows, (heads + 2 kv_heads) * head_dim]` holds queries, keys and values before rotation;
    /// keys and values are written to the cache first, then each row attends to the keys visible to it.
    /// `out: [rows, heads * head_dim]`. Split a batch over several calls in ascending order only.
    ///
    /// # Errors
    /// [`CpuError::Size`] for a layer that does not exist, [`CpuError::Length`] when buffers do not fit
    /// the batch, [`CpuError::Panicked`] on a bug.
    pub fn attend(
        &mut self,
        team: &Team,
        layer: usize,
        batch: &Batch,
        rows: Range<usize>,
        qkv: &[E],
        out: &mut [E],
    ) -> Result<(), CpuError> {
        if rows.start > rows.end || rows.end > batch.rows.len() {
            return Err(CpuError::Length {
                what: "rows of the batch",
                given: rows.end,
                expected: batch.rows.len(),
            });
        }
        if layer >= self.caches.len() {
            return Err(CpuError::Size {
                what: "layer",
                given: layer,
                allowed: "below the number of layers",
            });
        }
        for (what, given, expected) in [
            ("qkv", qkv.len(), rows.len() * self.config.qkv_width()),
            ("out", out.len(), rows.len() * self.config.out_width()),
        ] {
            if given != expected {
                return Err(CpuError::Length {
                    what,
                    given,
                    expected,
                });
            }
        }
        let pass = self.pass(batch, rows.len());
        let (out, columns) = (SharedSlice::new(out), Columns::all(pass.config.out_width()));
        team.run(&|member| {
            pass.write_kv(member, layer, rows.clone(), qkv);
            member.barrier();
            pass.attend(member, layer, rows.clone(), out, columns);
        })
    }

    /// What the members of a team need to attend for blocks of up to `max_rows` rows.
    pub(crate) fn pass<'a>(
        &'a mut self,
        batch: &'a Batch,
        max_rows: usize,
    ) -> AttentionPass<'a, E> {
        let len = max_rows * self.config.heads * self.width;
        if self.queries.len() < len {
            self.queries.resize(len, 0.0);
        }
        AttentionPass {
            config: &self.config,
            batch,
            caches: self.caches.iter_mut().map(LayerCache::writer).collect(),
            queries: SharedSlice::new(&mut self.queries),
            width: self.width,
            half: self.half,
            isa: Isa::detect(),
        }
    }
}

/// The attention of one batch, called by all members of a team.
pub(crate) struct AttentionPass<'a, E> {
    config: &'a AttentionConfig,
    batch: &'a Batch,
    caches: Vec<CacheWriter<'a, E>>,
    queries: SharedSlice<'a, f32>,
    width: usize,
    half: usize,
    isa: Isa,
}

#[allow(unsafe_code)] // rows are written from several threads
impl<E: Dtype> AttentionPass<'_, E> {
    /// Writes the rows' keys and values, and their queries into scratch.
    pub(crate) fn write_kv(
        &self,
        member: &Member<'_>,
        layer: usize,
        rows: Range<usize>,
        qkv: &[E],
    ) {
        let config = self.config;
        let (settings, writer) = (&config.layers[layer], self.caches[layer]);
        let (head_dim, group) = (config.head_dim, config.heads / config.kv_heads);
        let rows = &self.batch.rows[rows];
        share_out(member, rows.len() * config.kv_heads, 4, |item| {
            let (index, head) = (item / config.kv_heads, item % config.kv_heads);
            let row = rows[index];
            let half = row.position as usize * self.half;
            let rotation = settings.rotary.then(|| {
                let range = half..half + self.half;
                (&config.cosines[range.clone()], &config.sines[range])
            });
            let qkv = &qkv[index * config.qkv_width()..(index + 1) * config.qkv_width()];
            let (queries, keys_values) = qkv.split_at(config.heads * head_dim);
            let (keys, values) = keys_values.split_at(config.kv_heads * head_dim);
            let one = head * head_dim..(head + 1) * head_dim;
            let start = (index * config.heads + head * group) * self.width;
            // SAFETY: each item has a part of its own.
            let scaled = unsafe { self.queries.part(start, group * self.width) };
            let kernel = WriteKv {
                query: &queries[group * one.start..group * one.end],
                key: &keys[one.clone()],
                value: &values[one],
                scaled,
                // Slots are distinct, which `Batch::new` checks.
                writer,
                slot: row.slot as usize,
                head,
                width: self.width,
                // 2^x replaces e^x, so log2(e) joins the factor of the scores.
                scale: config.scale * std::f32::consts::LOG2_E,
                query_how: Preparation {
                    norm: head_norm(settings.query_norm.as_deref(), config.norm_epsilon),
                    rotation,
                },
                key_how: Preparation {
                    norm: head_norm(settings.key_norm.as_deref(), config.norm_epsilon),
                    rotation,
                },
            };
            launch(self.isa, kernel);
        });
    }

    /// Attends for rows that all members have prepared, into `columns` of the rows of `out`.
    pub(crate) fn attend(
        &self,
        member: &Member<'_>,
        layer: usize,
        rows: Range<usize>,
        out: SharedSlice<'_, E>,
        columns: Columns,
    ) {
        let config = self.config;
        let (head_dim, group) = (config.head_dim, config.heads / config.kv_heads);
        let window = config.layers[layer].window.unwrap_or(usize::MAX);
        let looks_ahead = config.layers[layer].looks_ahead;
        let rows = &self.batch.rows[rows];
        // SAFETY: this layer's keys, values and queries were written before the barrier.
        let ((keys, values), queries) = unsafe { (self.caches[layer].read(), self.queries.all()) };
        share_out(member, rows.len() * config.kv_heads, 16, |item| {
            // Rows of one head follow each other, so its pages stay in the core's cache.
            let (head, index) = (item / rows.len(), item % rows.len());
            let row = rows[index];
            let first_head = index * config.heads + head * group;
            let first = index * columns.total + columns.first + head * group * head_dim;
            // SAFETY: each (row, head) pair is computed once.
            let out = unsafe { out.part(first, group * head_dim) };
            let kernel = AttendRow {
                queries: &queries[first_head * self.width..(first_head + group) * self.width],
                keys,
                values,
                pages: &self.batch.page_ids[row.page_start as usize..],
                path: &self.batch.path_slots[row.path_start as usize..],
                position: if looks_ahead { row.last } else { row.position } as usize,
                own: row.position as usize,
                direct_end: row.direct_end as usize,
                window,
                first_key: config.layers[layer].first_key.max(row.first as usize),
                kv_heads: config.kv_heads,
                head,
                group,
                head_dim,
                width: self.width,
                out,
            };
            launch(self.isa, kernel);
        });
    }
}

fn head_norm(weight: Option<&[f32]>, epsilon: f32) -> Option<(&[f32], f32)> {
    weight.map(|weight| (weight, epsilon))
}
