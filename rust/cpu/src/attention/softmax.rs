//! The second half of attention: one row against the keys it sees, for the heads of one key-value head.
//!
//! Keys are taken in ascending position, in blocks of 256 by absolute position. With scores s (base 2),
//! running maximum m, sum l and weighted values a, a block B updates
//! `m' = max(m, max_B s)`, `l' = l 2^(m-m') + sum_B 2^(s-m')`, `a' = a 2^(m-m') + sum_B 2^(s-m') v`,
//! and the result is `a / l` (online softmax: Milakov and Gimelshein 2018). Nothing in this order
//! depends on other rows, and a key's place in the cache only decides where its bytes are read.

// Loops over the heads of a tile index several arrays; iterators would hide which.
#![allow(clippy::needless_range_loop)]

use crate::attention::batch::PAGE_SIZE;
use crate::attention::cache::page_offset;
use crate::attention::rotary::MAX_HEAD_DIM;
use crate::simd::{Dtype, Kernel, LANES, Simd, exp2, maximum, store_part, sum};

/// Query heads computed together, sharing the loads of keys and values.
pub(crate) const TILE_HEADS: usize = 4;
/// Keys of a softmax block.
const BLOCK: usize = 256;

/// One row and one key-value head.
pub(crate) struct AttendRow<'a, E> {
    /// `[group * width]` in tiles of heads, scaled.
    pub(crate) queries: &'a [f32],
    pub(crate) keys: &'a [E],
    pub(crate) values: &'a [E],
    /// The request's page table.
    pub(crate) pages: &'a [u32],
    /// Slots of the keys from `direct_end` on.
    pub(crate) path: &'a [u32],
    /// Of the last key that it sees.
    pub(crate) position: usize,
    /// Its own, which the window ends at.
    pub(crate) own: usize,
    pub(crate) direct_end: usize,
    pub(crate) window: usize,
    pub(crate) first_key: usize,
    pub(crate) kv_heads: usize,
    pub(crate) head: usize,
    pub(crate) group: usize,
    pub(crate) head_dim: usize,
    pub(crate) width: usize,
    /// `[group * head_dim]`.
    pub(crate) out: &'a mut [E],
}

impl<E: Dtype> Kernel for AttendRow<'_, E> {
    #[inline(always)]
    fn run<S: Simd>(mut self) {
        let mut first = 0;
        while first < self.group {
            let heads = (self.group - first).min(TILE_HEADS);
            match heads {
                1 => tile::<S, E, 1>(&mut self, first),
                2 => tile::<S, E, 2>(&mut self, first),
                3 => tile::<S, E, 3>(&mut self, first),
                _ => tile::<S, E, 4>(&mut self, first),
            }
            first += heads;
        }
    }
}

/// Scores, later weights, of one block and where its values lie.
struct Block<const G: usize> {
    scores: [[f32; BLOCK]; G],
    offsets: [u32; BLOCK],
}

#[inline(always)]
fn tile<S: Simd, E: Dtype, const G: usize>(item: &mut AttendRow<'_, E>, first_head: usize) {
    let queries = &item.queries[first_head * item.width..(first_head + G) * item.width];
    let num_keys = item.position + 1;
    let first_key = (item.own + 1)
        .saturating_sub(item.window)
        .max(item.first_key);
    let mut best = [f32::NEG_INFINITY; G];
    let mut total = [S::splat(0.0); G];
    let mut sums = [[0.0f32; MAX_HEAD_DIM]; G];
    let mut block = Block {
        scores: [[0.0; BLOCK]; G],
        offsets: [0; BLOCK],
    };

    let mut base = first_key / BLOCK * BLOCK;
    while base < num_keys {
        let len = (num_keys - base).min(BLOCK);
        let skip = first_key.saturating_sub(base);
        fill::<S, E, G>(item, queries, base, skip, len, &mut block);
        let mut rescale = [S::splat(0.0); G];
        for g in 0..G {
            let scores = &mut block.scores[g];
            scores[..skip].fill(f32::NEG_INFINITY);
            let padded = len.next_multiple_of(LANES);
            scores[len..padded].fill(f32::NEG_INFINITY);
            let (vectors, _) = scores[..padded].as_chunks_mut::<LANES>();
            let mut top = S::splat(f32::NEG_INFINITY);
            for vector in vectors.iter() {
                top = S::max(top, S::load(vector));
            }
            let top = maximum::<S>(top);
            let top = if top > best[g] { top } else { best[g] };
            rescale[g] = exp2::<S>(S::splat(best[g] - top));
            best[g] = top;
            let top = S::splat(top);
            total[g] = S::mul(total[g], rescale[g]);
            for vector in vectors {
                let weight = exp2::<S>(S::sub(S::load(vector), top));
                S::store(weight, vector);
                total[g] = S::add(total[g], weight);
            }
        }
        let mut d = 0;
        while d < item.width {
            if item.width - d >= 4 * LANES {
                weigh::<S, E, G, 4>(item, &block, skip, len, d, &rescale, &mut sums);
                d += 4 * LANES;
            } else {
                weigh::<S, E, G, 1>(item, &block, skip, len, d, &rescale, &mut sums);
                d += LANES;
            }
        }
        base += BLOCK;
    }
    for g in 0..G {
        let inverse = S::splat(1.0 / sum::<S>(total[g]));
        let start = (first_head + g) * item.head_dim;
        let out = &mut item.out[start..start + item.head_dim];
        let (vectors, _) = sums[g].as_chunks::<LANES>();
        for (out, vector) in out.chunks_mut(LANES).zip(vectors) {
            store_part::<S, E>(S::mul(S::load(vector), inverse), out);
        }
    }
}

/// Scores of the block's keys by position, and the offsets of their values.
#[inline(always)]
fn fill<S: Simd, E: Dtype, const G: usize>(
    item: &AttendRow<'_, E>,
    queries: &[f32],
    base: usize,
    skip: usize,
    len: usize,
    block: &mut Block<G>,
) {
    let mut vectors = [[0.0; LANES]; G];
    let page_len = PAGE_SIZE * item.width;
    let mut position = base + skip / PAGE_SIZE * PAGE_SIZE;
    while position < item.direct_end.min(base + len) {
        let page = item.pages[position / PAGE_SIZE] as usize;
        let start = page_offset(page, item.kv_heads, item.head, item.width);
        score_page::<S, E, G>(queries, &item.keys[start..start + page_len], &mut vectors);
        let at = position - base;
        for g in 0..G {
            block.scores[g][at..at + LANES].copy_from_slice(&vectors[g]);
        }
        for (lane, offset) in block.offsets[at..at + LANES].iter_mut().enumerate() {
            *offset = (start / LANES + lane * (item.width / LANES)) as u32;
        }
        position += PAGE_SIZE;
    }
    let mut scored = usize::MAX;
    for position in item.direct_end.max(base + skip)..base + len {
        let slot = item.path[position - item.direct_end] as usize;
        let start = page_offset(slot / PAGE_SIZE, item.kv_heads, item.head, item.width);
        if start != scored {
            score_page::<S, E, G>(queries, &item.keys[start..start + page_len], &mut vectors);
            scored = start;
        }
        let lane = slot % PAGE_SIZE;
        for g in 0..G {
            block.scores[g][position - base] = vectors[g][lane];
        }
        block.offsets[position - base] = (start / LANES + lane * (item.width / LANES)) as u32;
    }
}

/// Dot products of `G` queries with the sixteen keys of a page: even and odd dimensions apart.
#[inline(always)]
fn score_page<S: Simd, E: Dtype, const G: usize>(
    queries: &[f32],
    keys: &[E],
    scores: &mut [[f32; LANES]; G],
) {
    let mut even = [S::splat(0.0); G];
    let mut odd = [S::splat(0.0); G];
    let (keys, _) = keys.as_chunks::<LANES>();
    let (keys, _) = keys.as_chunks::<2>();
    let (queries, _) = queries.as_chunks::<G>();
    let (queries, _) = queries.as_chunks::<2>();
    for (key, query) in keys.iter().zip(queries) {
        let (low, high) = (E::load::<S>(&key[0]), E::load::<S>(&key[1]));
        for g in 0..G {
            even[g] = S::fma(S::splat(query[0][g]), low, even[g]);
            odd[g] = S::fma(S::splat(query[1][g]), high, odd[g]);
        }
    }
    for g in 0..G {
        S::store(S::add(even[g], odd[g]), &mut scores[g]);
    }
}

/// Adds the block's weighted values to `N` vectors of the running sums, from dimension `d` on.
#[inline(always)]
fn weigh<S: Simd, E: Dtype, const G: usize, const N: usize>(
    item: &AttendRow<'_, E>,
    block: &Block<G>,
    skip: usize,
    len: usize,
    d: usize,
    rescale: &[S::V; G],
    sums: &mut [[f32; MAX_HEAD_DIM]; G],
) {
    let mut a = [[S::splat(0.0); N]; G];
    for g in 0..G {
        let (vectors, _) = sums[g][d..d + N * LANES].as_chunks::<LANES>();
        for n in 0..N {
            a[g][n] = S::mul(S::load(&vectors[n]), rescale[g]);
        }
    }
    for i in skip..len {
        let start = block.offsets[i] as usize * LANES + d;
        let (value, _) = item.values[start..start + N * LANES].as_chunks::<LANES>();
        let mut v = [S::splat(0.0); N];
        for n in 0..N {
            v[n] = E::load::<S>(&value[n]);
        }
        for g in 0..G {
            let weight = S::splat(block.scores[g][i]);
            for n in 0..N {
                a[g][n] = S::fma(weight, v[n], a[g][n]);
            }
        }
    }
    for g in 0..G {
        let (vectors, _) = sums[g][d..d + N * LANES].as_chunks_mut::<LANES>();
        for n in 0..N {
            S::store(a[g][n], &mut vectors[n]);
        }
    }
}
