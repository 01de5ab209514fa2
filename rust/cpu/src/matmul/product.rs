//! A part of a product: some panels for a group of rows.

use std::cell::RefCell;

use crate::buffer::SharedSlice;
use crate::matmul::tile::{Ahead, BLOCK_WORDS, CELLS, Inputs, PANEL, tile};
use crate::simd::{Dtype, Kernel, LANES, Simd, store_part};

/// What a thread keeps from part to part.
#[derive(Default)]
pub(crate) struct Scratch {
    /// Prepared inputs `[blocks][rows]` of one group of rows.
    inputs: Vec<Inputs>,
    sums: Vec<[f32; PANEL]>,
}

thread_local! {
    pub(crate) static SCRATCH: RefCell<Scratch> = RefCell::default();
}

/// The product of a group of rows with consecutive panels.
pub(crate) struct PanelProduct<'a, E: Dtype, O> {
    /// The group's rows `[rows, in_features]`.
    pub(crate) x: &'a [E],
    pub(crate) in_features: usize,
    /// Whether the scratch already holds these rows.
    pub(crate) prepared: bool,
    pub(crate) scratch: &'a mut Scratch,
    /// `[panels][steps]`.
    pub(crate) weights: &'a [[E::Cell; CELLS]],
    /// What this thread will probably read after `weights`.
    pub(crate) next: *const [E::Cell; CELLS],
    pub(crate) bias: &'a [[f32; PANEL]],
    /// Where the panels' columns begin in the group's first row of the output.
    pub(crate) out: SharedSlice<'a, O>,
    pub(crate) out_start: usize,
    pub(crate) out_stride: usize,
    /// Outputs of the panels.
    pub(crate) columns: usize,
}

impl<E: Dtype, O: Dtype> Kernel for PanelProduct<'_, E, O> {
    #[inline(always)]
    fn run<S: Simd>(mut self) {
        let steps = self.in_features.div_ceil(E::STEP);
        let blocks = (steps * E::products::<S>()).div_ceil(BLOCK_WORDS);
        let rows = self.x.len() / self.in_features;
        if !self.prepared {
            self.prepare::<S>(steps, blocks, rows);
        }
        let (inputs, sums) = (&self.scratch.inputs, &mut self.scratch.sums);
        sums.resize(rows, [0.0; PANEL]);
        let end = self.weights.as_ptr_range().end;
        for (panel, weights) in self.weights.chunks_exact(steps).enumerate() {
            sums.fill(self.bias[panel]);
            let column = panel * PANEL;
            for row in 0..rows {
                // Rows of the output are far apart, and each would be waited for when it is written.
                let start = self.out_start + row * self.out_stride + column;
                for line in (0..PANEL).step_by(64 / size_of::<O>()) {
                    S::prefetch_far(self.out.address(start + line));
                }
            }
            for block in 0..blocks {
                let [start, stop] = [block, block + 1].map(|block| steps * block / blocks);
                let inputs = &inputs[block * rows..][..rows];
                let cells = &weights[start..stop];
                let following = weights.as_ptr_range().start.wrapping_add(stop);
                let following = if following == end {
                    self.next
                } else {
                    following
                };
                multiply::<S, E>(inputs, cells, following, sums);
            }
            let columns = PANEL.min(self.columns - column);
            for (row, sums) in sums.iter().enumerate() {
                let start = self.out_start + row * self.out_stride + column;
                // SAFETY: the caller of `Linear::run` leaves these elements to the member with this part.
                #[allow(unsafe_code)]
                let out = unsafe { self.out.part(start, columns) };
                for (sums, out) in sums
                    .as_chunks::<LANES>()
                    .0
                    .iter()
                    .zip(out.chunks_mut(LANES))
                {
                    store_part::<S, O>(S::load(sums), out);
                }
            }
        }
    }
}

impl<E: Dtype, O> PanelProduct<'_, E, O> {
    #[inline(always)]
    fn prepare<S: Simd>(&mut self, steps: usize, blocks: usize, rows: usize) {
        let inputs = &mut self.scratch.inputs;
        inputs.resize(inputs.len().max(blocks * rows), [0.0; _]);
        for block in 0..blocks {
            let [start, stop] = [block, block + 1].map(|block| steps * block / blocks);
            let columns = start * E::STEP..self.in_features.min(stop * E::STEP);
            for (row, x) in self.x.chunks_exact(self.in_features).enumerate() {
                let words = (stop - start) * E::products::<S>();
                E::prepare::<S>(
                    &x[columns.clone()],
                    &mut inputs[block * rows + row][..words],
                );
            }
        }
    }
}

/// Adds the products of all rows with one block to `sums`.
#[inline(always)]
fn multiply<S: Simd, E: Dtype>(
    inputs: &[Inputs],
    cells: &[[E::Cell; CELLS]],
    following: *const [E::Cell; CELLS],
    sums: &mut [[f32; PANEL]],
) {
    let rows = inputs.len();
    // Few rows have room for a whole panel, so that each pass reads all of it.
    let together = if rows * CELLS <= S::ACCUMULATORS {
        CELLS
    } else {
        S::CELLS
    };
    let tiles = rows.div_ceil(S::ACCUMULATORS / together);
    let passes = tiles * (CELLS / together);
    for pass in 0..passes {
        let tile = pass % tiles;
        let taken = Cells {
            first: pass / tiles * together,
            together,
        };
        // Tiles of nearly equal size: a small last one would use the registers badly.
        let (start, end) = (rows * tile / tiles, rows * (tile + 1) / tiles);
        let (inputs, sums) = (&inputs[start..end], &mut sums[start..end]);
        // Each pass fetches its share of the block that comes next.
        let ahead = Ahead {
            from: following
                .cast::<u8>()
                .wrapping_add(size_of_val(cells) * pass / passes),
            stride: size_of::<[E::Cell; CELLS]>() / passes,
        };
        dispatch::<S, E>(inputs, cells, taken, ahead, sums);
    }
}

/// Which cells of a step a pass takes.
#[derive(Clone, Copy)]
struct Cells {
    first: usize,
    together: usize,
}

#[inline(always)]
fn dispatch<S: Simd, E: Dtype>(
    inputs: &[Inputs],
    cells: &[[E::Cell; CELLS]],
    taken: Cells,
    ahead: Ahead,
    sums: &mut [[f32; PANEL]],
) {
    macro_rules! of_rows {
        ($($rows:literal)*) => {
            $(if $rows * S::CELLS <= S::ACCUMULATORS
                && let Ok(inputs) = <&[Inputs; $rows]>::try_from(inputs)
                && let Ok(sums) = <&mut [[f32; PANEL]; $rows]>::try_from(&mut *sums)
            {
                return if $rows * CELLS <= S::ACCUMULATORS && taken.together == CELLS {
                    tile::<S, E, $rows, CELLS>(inputs, cells, taken.first, ahead, sums)
                } else {
                    tile::<S, E, $rows, 1>(inputs, cells, taken.first, ahead, sums)
                };
            })*
        };
    }
    of_rows!(1 2 3 4 5 6 7 8 9 10 11 12);
    unreachable!("a tile of {} rows", inputs.len());
}
