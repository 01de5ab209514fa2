//! The gated activation of the MLP.

use crate::element::{Element, load_part, store_part};
use crate::error::CpuError;
use crate::level::{Kernel, Level, launch};
use crate::memory::Shared;
use crate::pool;
use crate::simd::{LANES, Simd, exp2};

/// Elements from which rows are worth splitting over threads: about 20 us of one core.
const PARALLEL_ELEMENTS: usize = 1 << 15;

/// Writes `silu(gate) * up`, with silu(g) = g / (1 + e^-g).
///
/// `gate_up: [rows, 2 * width]`, gate first; `out: [rows, width]`.
///
/// # Errors
/// [`CpuError::Length`] when the sizes do not fit.
#[allow(unsafe_code)] // rows are written from several threads
pub fn silu_mul<E: Element>(
    gate_up: &[E],
    width: usize,
    out: &mut [E],
    threads: usize,
) -> Result<(), CpuError> {
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
    let rows = out.len() / width;
    let threads = if out.len() < PARALLEL_ELEMENTS {
        1
    } else {
        threads
    };
    let level = Level::detect();
    let out = Shared::new(out);
    let tasks = if threads == 1 {
        1
    } else {
        rows.min(threads * 4)
    };
    pool::run(threads, tasks, &|task| {
        let (start, end) = (rows * task / tasks, rows * (task + 1) / tasks);
        // SAFETY: tasks cover disjoint rows.
        let out = unsafe { out.part(start * width, (end - start) * width) };
        let gate_up = &gate_up[2 * start * width..2 * end * width];
        launch(
            level,
            Rows {
                gate_up,
                width,
                out,
            },
        );
    })
}

struct Rows<'a, E> {
    gate_up: &'a [E],
    width: usize,
    out: &'a mut [E],
}

impl<E: Element> Kernel for Rows<'_, E> {
    #[inline(always)]
    fn run<S: Simd>(self) {
        let log2_e = S::splat(-std::f32::consts::LOG2_E);
        let one = S::splat(1.0);
        for (both, out) in self
            .gate_up
            .chunks_exact(2 * self.width)
            .zip(self.out.chunks_exact_mut(self.width))
        {
            let (gate, up) = both.split_at(self.width);
            for ((gate, up), out) in gate
                .chunks(LANES)
                .zip(up.chunks(LANES))
                .zip(out.chunks_mut(LANES))
            {
                let gate = load_part::<S, E>(gate);
                let silu = S::div(gate, S::add(one, exp2::<S>(S::mul(gate, log2_e))));
                store_part::<S, E>(S::mul(silu, load_part::<S, E>(up)), out);
            }
        }
    }
}
