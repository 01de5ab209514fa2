//! The paged key-value cache of one layer, laid out for sixteen keys at a time.
//!
//! A page holds, per key-value head, its keys as `[head_dim][16 slots]` and its values as
//! `[16 slots][head_dim]`: a score vector of sixteen keys is a chain of multiply-adds over `head_dim`
//! with no horizontal sum, so a key's score does not depend on the lane it sits in. `head_dim` is
//! padded with zeros to a multiple of sixteen.

use crate::attention::batch::PAGE_SIZE;
use crate::buffer::{Buffer, SharedSlice};
use crate::error::CpuError;
use crate::simd::Dtype;

/// Keys and values of one layer.
pub(crate) struct LayerCache<E> {
    pub(crate) keys: Buffer<E>,
    pub(crate) values: Buffer<E>,
    kv_heads: usize,
    width: usize,
}

/// Where a head's part of a page starts.
#[inline(always)]
pub(crate) fn page_offset(page: usize, kv_heads: usize, head: usize, width: usize) -> usize {
    (page * kv_heads + head) * PAGE_SIZE * width
}

impl<E: Dtype> LayerCache<E> {
    /// A cache of `num_pages` pages; `width` is the padded head dimension.
    pub(crate) fn new(num_pages: usize, kv_heads: usize, width: usize) -> Result<Self, CpuError> {
        let len = num_pages * kv_heads * PAGE_SIZE * width;
        Ok(Self {
            keys: Buffer::zeroed(len)?,
            values: Buffer::zeroed(len)?,
            kv_heads,
            width,
        })
    }

    /// Copies the keys and values of one slot to another.
    pub(crate) fn move_slot(&mut self, from: usize, to: usize) {
        for head in 0..self.kv_heads {
            let source = page_offset(from / PAGE_SIZE, self.kv_heads, head, self.width);
            let target = page_offset(to / PAGE_SIZE, self.kv_heads, head, self.width);
            let (from, to) = (from % PAGE_SIZE, to % PAGE_SIZE);
            let keys = self.keys.as_mut_slice();
            for d in 0..self.width {
                keys[target + d * PAGE_SIZE + to] = keys[source + d * PAGE_SIZE + from];
            }
            let start = source + from * self.width;
            self.values
                .as_mut_slice()
                .copy_within(start..start + self.width, target + to * self.width);
        }
    }

    /// Writes one number to all keys and values, of heads of `head_dim`; what pads them stays zero.
    pub(crate) fn fill(&mut self, value: E, head_dim: usize) {
        for page in self
            .keys
            .as_mut_slice()
            .chunks_exact_mut(self.width * PAGE_SIZE)
        {
            page[..head_dim * PAGE_SIZE].fill(value);
        }
        for slot in self.values.as_mut_slice().chunks_exact_mut(self.width) {
            slot[..head_dim].fill(value);
        }
    }

    /// The cache as something that several threads write.
    pub(crate) fn writer(&mut self) -> CacheWriter<'_, E> {
        CacheWriter {
            keys: SharedSlice::new(self.keys.as_mut_slice()),
            values: SharedSlice::new(self.values.as_mut_slice()),
            kv_heads: self.kv_heads,
            width: self.width,
        }
    }
}

/// Writes single slots.
#[derive(Clone, Copy)]
pub(crate) struct CacheWriter<'a, E> {
    keys: SharedSlice<'a, E>,
    values: SharedSlice<'a, E>,
    kv_heads: usize,
    width: usize,
}

#[allow(unsafe_code)] // disjoint writes from several threads
impl<'a, E: Dtype> CacheWriter<'a, E> {
    /// All keys and all values.
    ///
    /// # Safety
    /// No slot of the pages read is written while the results live.
    pub(crate) unsafe fn read(&self) -> (&'a [E], &'a [E]) {
        // SAFETY: by the caller's promise.
        unsafe { (self.keys.all(), self.values.all()) }
    }

    /// Writes one head's key and value of one slot.
    ///
    /// # Safety
    /// No other thread writes or reads this slot at the same time.
    #[inline(always)]
    pub(crate) unsafe fn write(&self, slot: usize, head: usize, key: &[f32], value: &[E]) {
        let page = page_offset(slot / PAGE_SIZE, self.kv_heads, head, self.width);
        let lane = slot % PAGE_SIZE;
        for (d, &element) in key.iter().enumerate() {
            let index = page + d * PAGE_SIZE + lane;
            // SAFETY: the slot is this thread's by the caller's promise.
            unsafe { self.keys.write(index, E::from_f32(element)) };
        }
        // SAFETY: as above.
        let row = unsafe { self.values.part(page + lane * self.width, value.len()) };
        row.copy_from_slice(value);
    }
}
