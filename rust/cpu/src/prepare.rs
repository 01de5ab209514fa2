//! The first half of attention: one row's queries into scratch, its keys and values into the cache.

use crate::cache::CacheWriter;
use crate::element::Element;
use crate::level::Kernel;
use crate::rotary::{MAX_HEAD_DIM, Preparation, prepare_head};
use crate::simd::Simd;
use crate::softmax::TILE_HEADS;

/// One row of the batch.
pub(crate) struct Row<'a, E> {
    pub(crate) qkv: &'a [E],
    pub(crate) queries: &'a mut [f32],
    pub(crate) writer: CacheWriter<'a, E>,
    pub(crate) slot: usize,
    pub(crate) kv_heads: usize,
    pub(crate) group: usize,
    pub(crate) head_dim: usize,
    pub(crate) width: usize,
    pub(crate) scale: f32,
    pub(crate) query: Preparation<'a>,
    pub(crate) key: Preparation<'a>,
}

impl<E: Element> Kernel for Row<'_, E> {
    #[inline(always)]
    fn run<S: Simd>(self) {
        let mut buffer = [0.0; MAX_HEAD_DIM];
        let heads = self.kv_heads * self.group;
        let (queries, keys_values) = self.qkv.split_at(heads * self.head_dim);
        let (keys, values) = keys_values.split_at(self.kv_heads * self.head_dim);
        for (head, query) in queries.chunks_exact(self.head_dim).enumerate() {
            prepare_head::<S, E>(self.query, query, &mut buffer);
            // A tile of heads is stored dimension by dimension: `[width][heads of the tile]`.
            let member = head % self.group;
            let tile = member / TILE_HEADS * TILE_HEADS;
            let tile_heads = (self.group - tile).min(TILE_HEADS);
            let start = (head - member + tile) * self.width + member - tile;
            for (d, &value) in buffer[..self.head_dim].iter().enumerate() {
                self.queries[start + d * tile_heads] = value * self.scale;
            }
        }
        let pairs = keys
            .chunks_exact(self.head_dim)
            .zip(values.chunks_exact(self.head_dim));
        for (head, (key, value)) in pairs.enumerate() {
            prepare_head::<S, E>(self.key, key, &mut buffer);
            // SAFETY: the caller gives each slot to one row.
            #[allow(unsafe_code)]
            unsafe {
                self.writer
                    .write(self.slot, head, &buffer[..self.head_dim], value);
            }
        }
    }
}
