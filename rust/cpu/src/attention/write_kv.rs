//! The first half of attention: queries into scratch, keys and values into the cache.

use crate::attention::cache::CacheWriter;
use crate::attention::rotary::{MAX_HEAD_DIM, Preparation, prepare_head};
use crate::attention::softmax::TILE_HEADS;
use crate::simd::{Dtype, Kernel, Simd};

/// One row and one key-value head.
pub(crate) struct WriteKv<'a, E> {
    /// The query heads of the group, one after the other.
    pub(crate) query: &'a [E],
    pub(crate) key: &'a [E],
    pub(crate) value: &'a [E],
    /// `[group * width]`, written in tiles of heads.
    pub(crate) scaled: &'a mut [f32],
    pub(crate) writer: CacheWriter<'a, E>,
    pub(crate) slot: usize,
    pub(crate) head: usize,
    pub(crate) width: usize,
    pub(crate) scale: f32,
    pub(crate) query_how: Preparation<'a>,
    pub(crate) key_how: Preparation<'a>,
}

impl<E: Dtype> Kernel for WriteKv<'_, E> {
    #[inline(always)]
    fn run<S: Simd>(self) {
        let mut buffer = [0.0; MAX_HEAD_DIM];
        let head_dim = self.key.len();
        let group = self.query.len() / head_dim;
        for (member, query) in self.query.chunks_exact(head_dim).enumerate() {
            prepare_head::<S, E>(self.query_how, query, &mut buffer);
            // A tile of heads is stored dimension by dimension: `[width][heads of the tile]`.
            let tile = member / TILE_HEADS * TILE_HEADS;
            let tile_heads = (group - tile).min(TILE_HEADS);
            let start = tile * self.width + member - tile;
            for (d, &value) in buffer[..head_dim].iter().enumerate() {
                self.scaled[start + d * tile_heads] = value * self.scale;
            }
        }
        prepare_head::<S, E>(self.key_how, self.key, &mut buffer);
        let key = &buffer[..head_dim];
        // SAFETY: the caller gives each slot and head to one item.
        #[allow(unsafe_code)]
        unsafe {
            self.writer.write(self.slot, self.head, key, self.value);
        }
    }
}
