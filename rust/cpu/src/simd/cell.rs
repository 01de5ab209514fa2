//! The unit of packed weights: 64 bytes, which meet sixteen outputs in one step of a product.

use crate::simd::bf16::Bf16;
use crate::simd::lanes::{LANES, Simd};

/// How weights of a dtype lie in cells and meet an activation.
///
/// A `f32` cell holds one weight of each of sixteen outputs. A bfloat16 cell holds two neighbouring
/// ones of each, as the instruction for products of pairs reads them.
#[doc(hidden)]
pub trait Packed: Sized {
    /// Weights of sixteen outputs for `STEP` inputs.
    type Cell: Copy + Send + Sync + 'static;
    /// What one product takes of a cell or of the inputs, in registers.
    type Factor<S: Simd>: Copy;
    /// Inputs of a cell.
    const STEP: usize;
    /// Puts the weight of output `lane` for input `input` of the cell into its place.
    fn place(cell: &mut Self::Cell, lane: usize, input: usize, weight: Self);
    /// What [`Packed::place`] put there.
    fn placed(cell: &Self::Cell, lane: usize, input: usize) -> Self;
    /// Products that a step takes, and words that hold the inputs of one.
    fn products<S: Simd>() -> usize;
    /// Writes the inputs of a row as [`Packed::inputs`] reads them; a missing last one becomes zero.
    fn prepare<S: Simd>(x: &[Self], to: &mut [f32]);
    /// What a step's `product` takes of a cell.
    fn weights<S: Simd>(cell: &Self::Cell, product: usize) -> Self::Factor<S>;
    /// The same of a row's inputs of one step, in every lane.
    fn inputs<S: Simd>(words: &[f32], product: usize) -> Self::Factor<S>;
    /// `total` with one product added.
    fn multiply_add<S: Simd>(
        inputs: Self::Factor<S>,
        weights: Self::Factor<S>,
        total: S::V,
    ) -> S::V;
}

impl Packed for f32 {
    type Cell = [f32; LANES];
    type Factor<S: Simd> = S::V;
    const STEP: usize = 1;
    #[inline(always)]
    fn place(cell: &mut Self::Cell, lane: usize, _input: usize, weight: Self) {
        cell[lane] = weight;
    }
    #[inline(always)]
    fn placed(cell: &Self::Cell, lane: usize, _input: usize) -> Self {
        cell[lane]
    }
    #[inline(always)]
    fn weights<S: Simd>(cell: &Self::Cell, _product: usize) -> S::V {
        S::load(cell)
    }
    #[inline(always)]
    fn products<S: Simd>() -> usize {
        1
    }
    #[inline(always)]
    fn prepare<S: Simd>(x: &[Self], to: &mut [f32]) {
        to.copy_from_slice(x);
    }
    #[inline(always)]
    fn inputs<S: Simd>(words: &[f32], _product: usize) -> S::V {
        S::splat(words[0])
    }
    #[inline(always)]
    fn multiply_add<S: Simd>(inputs: S::V, weights: S::V, total: S::V) -> S::V {
        S::fma(inputs, weights, total)
    }
}

impl Packed for Bf16 {
    type Cell = [Bf16; 2 * LANES];
    type Factor<S: Simd> = S::Numbers;
    const STEP: usize = 2;
    #[inline(always)]
    fn place(cell: &mut Self::Cell, lane: usize, input: usize, weight: Self) {
        cell[2 * lane + input] = weight;
    }
    #[inline(always)]
    fn placed(cell: &Self::Cell, lane: usize, input: usize) -> Self {
        cell[2 * lane + input]
    }
    #[inline(always)]
    fn weights<S: Simd>(cell: &Self::Cell, product: usize) -> S::Numbers {
        S::load_pairs(cell, product)
    }
    #[inline(always)]
    fn products<S: Simd>() -> usize {
        S::PAIR_PRODUCTS
    }
    #[inline(always)]
    fn prepare<S: Simd>(x: &[Self], to: &mut [f32]) {
        if S::PAIR_PRODUCTS == 2 {
            for (to, x) in to.iter_mut().zip(x) {
                *to = x.widened();
            }
            to[x.len()..].fill(0.0);
        } else {
            let word =
                |low: Self, high: Self| f32::from_bits(u32::from(high.0) << 16 | u32::from(low.0));
            let (pairs, last) = x.as_chunks::<2>();
            for (to, pair) in to.iter_mut().zip(pairs) {
                *to = word(pair[0], pair[1]);
            }
            if let [last] = *last {
                to[pairs.len()] = word(last, Self::default());
            }
        }
    }
    #[inline(always)]
    fn inputs<S: Simd>(words: &[f32], product: usize) -> S::Numbers {
        S::splat_pair(words, product)
    }
    #[inline(always)]
    fn multiply_add<S: Simd>(inputs: S::Numbers, weights: S::Numbers, total: S::V) -> S::V {
        S::fma_pairs(inputs, weights, total)
    }
}
