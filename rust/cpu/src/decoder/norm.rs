//! Root-mean-square norm of rows, alone or after the residual addition.
#![allow(unsafe_code)] // rows of the buffers are written by several threads

use spectrie_simd::Isa;

use crate::decoder::workspace::Buffers;
use crate::error::CpuError;
use crate::simd::{Dtype, Kernel, LANES, Simd, launch, load_part, store_part, sum};
use crate::threads::{Member, share_out};

/// Writes `x / rms(x) * weight` for each row of `x`.
///
/// `x` and `out` are `[rows, weight.len()]`; `epsilon` is added to the mean of squares.
///
/// # Errors
/// [`CpuError::Length`] when the sizes do not fit.
pub fn rms_norm<E: Dtype>(
    x: &mut [f32],
    weight: &[f32],
    epsilon: f32,
    out: &mut [E],
) -> Result<(), CpuError> {
    normalise::<E>(x, None, weight, epsilon, out)
}

/// Adds `delta` to the residual stream `x` in place, then writes the norm of the sum as [`rms_norm`].
///
/// # Errors
/// [`CpuError::Length`] when the sizes do not fit.
pub fn add_rms_norm<E: Dtype>(
    x: &mut [f32],
    delta: &[E],
    weight: &[f32],
    epsilon: f32,
    out: &mut [E],
) -> Result<(), CpuError> {
    if delta.len() != x.len() {
        let (given, expected) = (delta.len(), x.len());
        return Err(CpuError::Length {
            what: "delta",
            given,
            expected,
        });
    }
    normalise(x, Some(delta), weight, epsilon, out)
}

fn normalise<E: Dtype>(
    x: &mut [f32],
    delta: Option<&[E]>,
    weight: &[f32],
    epsilon: f32,
    out: &mut [E],
) -> Result<(), CpuError> {
    let width = weight.len();
    if width == 0 || !x.len().is_multiple_of(width) {
        return Err(CpuError::Length {
            what: "x",
            given: x.len(),
            expected: width,
        });
    }
    if out.len() != x.len() {
        return Err(CpuError::Length {
            what: "out",
            given: out.len(),
            expected: x.len(),
        });
    }
    let rows = NormRows {
        x,
        delta,
        weight,
        epsilon,
        out,
    };
    launch(Isa::detect(), rows);
    Ok(())
}

/// `NormRows` of fitting sizes.
pub(crate) struct NormRows<'a, E> {
    pub(crate) x: &'a mut [f32],
    pub(crate) delta: Option<&'a [E]>,
    pub(crate) weight: &'a [f32],
    pub(crate) epsilon: f32,
    pub(crate) out: &'a mut [E],
}

impl<E: Dtype> Kernel for NormRows<'_, E> {
    #[inline(always)]
    fn run<S: Simd>(self) {
        let width = self.weight.len();
        for (row, (x, out)) in self
            .x
            .chunks_exact_mut(width)
            .zip(self.out.chunks_exact_mut(width))
            .enumerate()
        {
            let mut squares = S::splat(0.0);
            if let Some(delta) = self.delta {
                let delta = &delta[row * width..(row + 1) * width];
                for (x, delta) in x.chunks_mut(LANES).zip(delta.chunks(LANES)) {
                    let total = S::add(load_part::<S, f32>(x), load_part::<S, E>(delta));
                    squares = S::fma(total, total, squares);
                    store_part::<S, f32>(total, x);
                }
            } else {
                for x in x.chunks(LANES) {
                    let x = load_part::<S, f32>(x);
                    squares = S::fma(x, x, squares);
                }
            }
            let mean = sum::<S>(squares) / width as f32;
            let inverse = S::splat(1.0 / (mean + self.epsilon).sqrt());
            for ((x, weight), out) in x
                .chunks(LANES)
                .zip(self.weight.chunks(LANES))
                .zip(out.chunks_mut(LANES))
            {
                let scaled = S::mul(load_part::<S, f32>(x), inverse);
                store_part::<S, E>(S::mul(scaled, load_part::<S, f32>(weight)), out);
            }
        }
    }
}

/// Adds what the last stage left in `delta` to the residual stream, if there is any, and writes the
/// norm of the sum to `normed`.
pub(crate) fn add_norm<E: Dtype>(
    member: &Member<'_>,
    buffers: Buffers<'_, E>,
    rows: usize,
    weight: &[f32],
    epsilon: f32,
    with_delta: bool,
) {
    share_out(member, rows, 4, |row| {
        add_norm_row(buffers, row, row, weight, epsilon, with_delta);
    });
    member.barrier();
}

/// As [`add_norm`] for one row, which is written as row `to` of `normed`.
pub(crate) fn add_norm_row<E: Dtype>(
    buffers: Buffers<'_, E>,
    row: usize,
    to: usize,
    weight: &[f32],
    epsilon: f32,
    with_delta: bool,
) {
    let width = weight.len();
    // SAFETY: each row is taken once, and `delta` was written by an earlier stage.
    let kernel = unsafe {
        NormRows {
            x: buffers.residual.part(row * width, width),
            delta: with_delta.then(|| buffers.delta.read(row * width, width)),
            weight,
            epsilon,
            out: buffers.normed.part(to * width, width),
        }
    };
    launch(Isa::detect(), kernel);
}

/// As [`add_norm`] without a norm: `normed` is the sum.
pub(crate) fn add<E: Dtype>(
    member: &Member<'_>,
    buffers: Buffers<'_, E>,
    rows: usize,
    width: usize,
    with_delta: bool,
) {
    share_out(member, rows, 4, |row| {
        // SAFETY: each row is taken once, and `delta` was written by an earlier stage.
        unsafe {
            let x = buffers.residual.part(row * width, width);
            if with_delta {
                add_delta(x, buffers.delta.read(row * width, width));
            }
            narrow(x, buffers.normed.part(row * width, width));
        }
    });
    member.barrier();
}

/// Adds a row of `delta` to a row of the residual stream.
pub(crate) fn add_delta<E: Dtype>(x: &mut [f32], delta: &[E]) {
    for (x, delta) in x.iter_mut().zip(delta) {
        *x += delta.to_f32();
    }
}

/// Rounds numbers to the element type.
pub(crate) fn narrow<E: Dtype>(from: &[f32], to: &mut [E]) {
    for (to, &from) in to.iter_mut().zip(from) {
        *to = E::from_f32(from);
    }
}
