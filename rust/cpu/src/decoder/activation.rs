//! The gated activation of the MLP.

use spectrie_simd::Isa;

use crate::error::CpuError;
use crate::simd::{Dtype, Kernel, LANES, Simd, exp2, launch, load_part, store_part};

/// Writes `silu(gate) * up`, with silu(g) = g / (1 + e^-g).
///
/// `gate_up: [rows, 2 * width]`, gate first; `out: [rows, width]`.
///
/// # Errors
/// [`CpuError::Length`] when the sizes do not fit.
pub fn silu_mul<E: Dtype>(gate_up: &[E], width: usize, out: &mut [E]) -> Result<(), CpuError> {
    if width == 0 || !out.len().is_multiple_of(width) {
        return Err(CpuError::Length {
            what: "out",
            given: out.len(),
            expected: width,
        });
    }
    if gate_up.len() != 2 * out.len() {
        let (given, expected) = (gate_up.len(), 2 * out.len());
        return Err(CpuError::Length {
            what: "gate_up",
            given,
            expected,
        });
    }
    for (both, out) in gate_up
        .chunks_exact(2 * width)
        .zip(out.chunks_exact_mut(width))
    {
        let (gate, up) = both.split_at(width);
        launch(Isa::detect(), Gated { gate, up, out });
    }
    Ok(())
}

/// Some elements of a row; slices of one length.
pub(crate) struct Gated<'a, E> {
    pub(crate) gate: &'a [E],
    pub(crate) up: &'a [E],
    pub(crate) out: &'a mut [E],
}

impl<E: Dtype> Kernel for Gated<'_, E> {
    #[inline(always)]
    fn run<S: Simd>(self) {
        let log2_e = S::splat(-std::f32::consts::LOG2_E);
        let one = S::splat(1.0);
        for ((gate, up), out) in self
            .gate
            .chunks(LANES)
            .zip(self.up.chunks(LANES))
            .zip(self.out.chunks_mut(LANES))
        {
            let gate = load_part::<S, E>(gate);
            let silu = S::div(gate, S::add(one, exp2::<S>(S::mul(gate, log2_e))));
            store_part::<S, E>(S::mul(silu, load_part::<S, E>(up)), out);
        }
    }
}
