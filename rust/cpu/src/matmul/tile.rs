//! The inner loop of a product: some rows by a block of a panel, with all sums in registers.

use crate::simd::{Dtype, LANES, Simd};

/// Cells side by side in a panel.
pub(crate) const CELLS: usize = 2;
/// Outputs of a panel.
pub(crate) const PANEL: usize = CELLS * LANES;
/// Words of a row that one block covers at most: with twelve rows they fill two thirds of a first-level
/// cache of 48 KiB, and the block's weights a small part of the second level.
pub(crate) const BLOCK_WORDS: usize = 640;
/// Words from row to row, an odd number of cache lines, so that rows do not share the cache's sets.
const STRIDE: usize = BLOCK_WORDS + 16;
/// Bytes that weights are fetched ahead into the first-level cache.
const NEAR: usize = 1024;

/// A row's inputs of one block, prepared by [`Packed::prepare`](crate::simd::cell::Packed::prepare).
pub(crate) type Inputs = [f32; STRIDE];

/// What to fetch while a block is worked on: `stride` bytes further with each step.
#[derive(Clone, Copy)]
pub(crate) struct Ahead {
    pub(crate) from: *const u8,
    pub(crate) stride: usize,
}

/// Adds to `sums` the products of `rows` with `N` cells of each step of `cells: [steps][CELLS]`.
///
/// A sum is one chain of fused multiply-adds in the order of the steps, whatever the tile and the blocks.
#[inline(always)]
pub(crate) fn tile<S: Simd, E: Dtype, const R: usize, const N: usize>(
    rows: &[Inputs; R],
    cells: &[[E::Cell; CELLS]],
    first_cell: usize,
    ahead: Ahead,
    sums: &mut [[f32; PANEL]; R],
) {
    let words = E::products::<S>();
    assert!(
        cells.len() * words <= BLOCK_WORDS,
        "more steps than a block has"
    );
    let mut totals: [[S::V; N]; R] = std::array::from_fn(|r| {
        let sums = &sums[r].as_chunks::<LANES>().0[first_cell..][..N];
        std::array::from_fn(|n| S::load(&sums[n]))
    });
    for (step, cells) in cells.iter().enumerate() {
        let far = ahead.from.wrapping_add(step * ahead.stride);
        S::prefetch_far(far);
        S::prefetch_far(far.wrapping_add(64));
        let cells = &cells[first_cell..][..N];
        for cell in cells {
            S::prefetch((&raw const *cell).wrapping_byte_add(NEAR));
        }
        let inputs: [&[f32]; R] = std::array::from_fn(|r| &rows[r][step * words..][..words]);
        add::<S, E, R, N>(inputs, cells, 0, &mut totals);
        // Not a loop: it would be kept as one, with the sums in memory.
        if words == 2 {
            add::<S, E, R, N>(inputs, cells, 1, &mut totals);
        }
    }
    for (sums, totals) in sums.iter_mut().zip(totals) {
        let sums = &mut sums.as_chunks_mut::<LANES>().0[first_cell..][..N];
        for n in 0..N {
            S::store(totals[n], &mut sums[n]);
        }
    }
}

/// Adds a step's `product` to every sum.
#[inline(always)]
fn add<S: Simd, E: Dtype, const R: usize, const N: usize>(
    inputs: [&[f32]; R],
    cells: &[E::Cell],
    product: usize,
    totals: &mut [[S::V; N]; R],
) {
    let weights: [E::Factor<S>; N] = std::array::from_fn(|n| E::weights::<S>(&cells[n], product));
    for r in 0..R {
        let input = E::inputs::<S>(inputs[r], product);
        for n in 0..N {
            totals[r][n] = E::multiply_add::<S>(input, weights[n], totals[r][n]);
        }
    }
}
