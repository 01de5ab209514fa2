//! A packed weight and its product.

use spectrie_simd::Isa;

use crate::buffer::{Piece, SharedSlice};
use crate::error::CpuError;
use crate::matmul::product::{PanelProduct, SCRATCH};
use crate::matmul::tile::{CELLS, PANEL};
use crate::simd::{Dtype, LANES, launch};
use crate::threads::{Member, Team};

/// Rows that a thread prepares and multiplies together.
const GROUP_ROWS: usize = 72;
/// Maximum bytes of weights of a part.
const PART_BYTES: usize = 256 << 10;
/// Minimum parts for each thread, when there are that many panels.
const PARTS_EACH: usize = 8;

/// A weight `[out, in]` packed for products with few or many rows.
///
/// The bits of a row of the product do not depend on the other rows, on their number or on the threads.
/// Accumulation is in single precision.
pub struct Linear<E: Dtype> {
    in_features: usize,
    out_features: usize,
    isa: Isa,
    /// `[panels][steps][CELLS]`; a panel is read from its beginning to its end.
    cells: Piece<[E::Cell; CELLS]>,
    /// Zero where there is none, up to the end of the last panel.
    bias: Vec<[f32; PANEL]>,
}

impl<E: Dtype> Linear<E> {
    /// Packs `weight: [out, in]`, row by row, and `bias: [out]` for the instructions of `isa`.
    ///
    /// # Errors
    /// [`CpuError::Length`] when the sizes do not fit, [`CpuError::Size`] for a size of 0,
    /// [`CpuError::Memory`] when the packed weight cannot be allocated.
    pub fn pack(
        weight: &[E],
        bias: Option<&[f32]>,
        in_features: usize,
        out_features: usize,
        isa: Isa,
    ) -> Result<Self, CpuError> {
        for (what, given) in [("in_features", in_features), ("out_features", out_features)] {
            if given == 0 {
                let allowed = "1 or more";
                return Err(CpuError::Size {
                    what,
                    given,
                    allowed,
                });
            }
        }
        check_len(
            "weight",
            weight.len(),
            in_features.saturating_mul(out_features),
        )?;
        let mut padded = vec![[0.0; PANEL]; out_features.div_ceil(PANEL)];
        if let Some(bias) = bias {
            check_len("bias", bias.len(), out_features)?;
            padded.as_flattened_mut()[..out_features].copy_from_slice(bias);
        }
        let steps = in_features.div_ceil(E::STEP);
        let mut cells: Piece<[E::Cell; CELLS]> = Piece::zeroed(padded.len() * steps)?;
        let panels = cells.as_mut_slice().chunks_exact_mut(steps);
        for (panel, rows) in panels.zip(weight.chunks(PANEL * in_features)) {
            for (step, cells) in panel.iter_mut().enumerate() {
                let inputs = step * E::STEP..in_features.min((step + 1) * E::STEP);
                for (row, weights) in rows.chunks_exact(in_features).enumerate() {
                    for (input, &weight) in weights[inputs.clone()].iter().enumerate() {
                        E::place(&mut cells[row / LANES], row % LANES, input, weight);
                    }
                }
            }
        }
        Ok(Self {
            in_features,
            out_features,
            isa,
            cells,
            bias: padded,
        })
    }

    /// Number of inputs.
    pub fn in_features(&self) -> usize {
        self.in_features
    }

    /// Number of outputs.
    pub fn out_features(&self) -> usize {
        self.out_features
    }

    /// Bytes of the packed weight, padding and bias included.
    pub fn bytes(&self) -> usize {
        size_of_val(self.cells.as_slice()) + size_of_val(self.bias.as_slice())
    }

    /// Writes `x W^T + b` to `out: [rows, out]` on all threads of `team`; `x: [rows, in]`.
    ///
    /// # Errors
    /// [`CpuError::Length`] when the sizes do not fit.
    pub fn apply<O: Dtype>(&self, team: &Team, x: &[E], out: &mut [O]) -> Result<(), CpuError> {
        let rows = x.len() / self.in_features;
        check_len("x", x.len(), rows * self.in_features)?;
        check_len("out", out.len(), rows * self.out_features)?;
        let out = SharedSlice::new(out);
        team.run(&|member| {
            // SAFETY: `out` is borrowed for this product alone.
            #[allow(unsafe_code)]
            unsafe {
                self.run(member, x, rows, out, self.out_features);
            }
        })
    }

    /// Writes `x W^T + b` to the first `out_features` elements of `rows` rows of `out`, `out_stride`
    /// apart; `x: [rows, in]`. Every member of a run calls it; it ends without a barrier.
    ///
    /// # Safety
    /// From the moment the first member calls this to the next barrier, no other code touches those
    /// elements of `out`.
    ///
    /// # Panics
    /// When `x` or `out` is too short.
    #[allow(unsafe_code)]
    pub(crate) unsafe fn run<O: Dtype>(
        &self,
        member: &Member<'_>,
        x: &[E],
        rows: usize,
        out: SharedSlice<'_, O>,
        out_stride: usize,
    ) {
        // SAFETY: the caller's promise covers all outputs.
        unsafe { self.run_from(member, x, rows, out, out_stride, 0) }
    }

    /// As [`Linear::run`] for the outputs from `first_output` on alone, and for some before it.
    ///
    /// # Safety
    /// As [`Linear::run`].
    ///
    /// # Panics
    /// When `x` or `out` is too short, or there is no such output.
    #[allow(unsafe_code)]
    pub(crate) unsafe fn run_from<O: Dtype>(
        &self,
        member: &Member<'_>,
        x: &[E],
        rows: usize,
        out: SharedSlice<'_, O>,
        out_stride: usize,
        first_output: usize,
    ) {
        assert!(x.len() >= rows * self.in_features, "x ends before its rows");
        let steps = self.in_features.div_ceil(E::STEP);
        let skipped = first_output / PANEL;
        let weights = &self.weights()[skipped * steps..];
        let panels = self.bias.len() - skipped;
        // Large enough that taking one costs nothing, many enough that no wait at the end is long.
        let max_chunk = PART_BYTES / (steps * size_of::<[E::Cell; CELLS]>());
        let chunk = (panels / (member.threads() * PARTS_EACH))
            .min(max_chunk)
            .max(1);
        let chunks = panels.div_ceil(chunk);
        let groups = rows.div_ceil(GROUP_ROWS);
        SCRATCH.with_borrow_mut(|scratch| {
            let mut prepared = None;
            member.share(groups * chunks, |part| {
                let (group, first) = (part / chunks, part % chunks * chunk);
                let last = panels.min(first + chunk);
                let [start, end] = [group, group + 1].map(|group| rows * group / groups);
                // When all members are equally quick, this one's next part is so much further.
                let next = (part + member.threads()) % chunks * chunk;
                let column = (skipped + first) * PANEL;
                launch(
                    self.isa,
                    PanelProduct {
                        x: &x[start * self.in_features..end * self.in_features],
                        in_features: self.in_features,
                        prepared: prepared == Some(group),
                        scratch,
                        weights: &weights[first * steps..last * steps],
                        next: &raw const weights[next * steps],
                        bias: &self.bias[skipped + first..skipped + last],
                        out,
                        out_start: start * out_stride + column,
                        out_stride,
                        columns: self.out_features - column,
                    },
                );
                prepared = Some(group);
            });
        });
    }

    /// `[panels][steps]`.
    fn weights(&self) -> &[[E::Cell; CELLS]] {
        self.cells.as_slice()
    }

    /// Writes the weights of output `row` to `to: [in]`, widened: an embedding from a tied head.
    ///
    /// # Panics
    /// When there is no such output, or `to` has another length.
    pub fn weight_row(&self, row: usize, to: &mut [f32]) {
        assert!(
            row < self.out_features && to.len() == self.in_features,
            "row {row} of {} into {} of {} elements",
            self.out_features,
            to.len(),
            self.in_features
        );
        let steps = self.in_features.div_ceil(E::STEP);
        let (panel, cell) = (row / PANEL, row % PANEL / LANES);
        let steps = &self.weights()[panel * steps..][..steps];
        for (to, cells) in to.chunks_mut(E::STEP).zip(steps) {
            for (input, to) in to.iter_mut().enumerate() {
                *to = E::placed(&cells[cell], row % LANES, input).to_f32();
            }
        }
    }
}

fn check_len(what: &'static str, given: usize, expected: usize) -> Result<(), CpuError> {
    if given == expected {
        return Ok(());
    }
    Err(CpuError::Length {
        what,
        given,
        expected,
    })
}
