//! Which instruction set runs, chosen once per process, and the way into it.
#![allow(unsafe_code)] // calls functions compiled for instructions that were just detected

use std::sync::OnceLock;

#[cfg(target_arch = "x86_64")]
use crate::simd::lanes::{LANES, Portable, Simd};
#[cfg(target_arch = "x86_64")]
use crate::simd::x86::{Avx2, Avx512, Avx512Bf16};

/// The instruction set that the operators use on this CPU.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Level {
    /// What the build's baseline allows.
    Portable,
    /// AVX2 with FMA.
    Avx2,
    /// AVX-512 (F, BW, DQ, VL).
    Avx512,
    /// AVX-512 with products of bfloat16 pairs (BF16).
    Avx512Bf16,
}

impl Level {
    /// The level to use on this CPU: the best one that is quick.
    pub fn detect() -> Self {
        static LEVEL: OnceLock<Level> = OnceLock::new();
        *LEVEL.get_or_init(|| {
            Self::supported()
                .find(|&level| level != Self::Avx512Bf16 || pairs_are_quick())
                .unwrap_or(Self::Portable)
        })
    }

    /// The levels that this CPU can run, the best first.
    pub fn supported() -> impl Iterator<Item = Self> {
        [Self::Avx512Bf16, Self::Avx512, Self::Avx2, Self::Portable]
            .into_iter()
            .filter(|level| level.is_supported())
    }

    /// Whether this CPU can run it.
    pub fn is_supported(self) -> bool {
        #[cfg(target_arch = "x86_64")]
        {
            let fma = is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma");
            let wide = fma
                && is_x86_feature_detected!("avx512f")
                && is_x86_feature_detected!("avx512bw")
                && is_x86_feature_detected!("avx512dq")
                && is_x86_feature_detected!("avx512vl");
            match self {
                Self::Portable => true,
                Self::Avx2 => fma,
                Self::Avx512 => wide,
                Self::Avx512Bf16 => wide && is_x86_feature_detected!("avx512bf16"),
            }
        }
        #[cfg(not(target_arch = "x86_64"))]
        matches!(self, Self::Portable)
    }

    /// A name of the arithmetic: levels of equal name give equal bits.
    pub fn name(self) -> &'static str {
        match self {
            Self::Portable if cfg!(target_arch = "aarch64") => "lanes16-fused",
            Self::Portable => "lanes16-unfused",
            Self::Avx2 | Self::Avx512 => "lanes16-fused",
            // Differs in bfloat16 products alone; denormal numbers, for one, are zero to the instruction.
            Self::Avx512Bf16 => "lanes16-fused-pairs",
        }
    }
}

/// Whether one product of bfloat16 pairs is quicker than two fused multiply-adds of widened numbers.
///
/// Intel's cores start one every other cycle, and two multiply-adds each cycle: 89 against 178 GFLOP/s
/// of one Emerald Rapids core at 3 GHz. AMD's start as many as multiply-adds.
#[cfg(target_arch = "x86_64")]
fn pairs_are_quick() -> bool {
    // SAFETY: every x86-64 CPU has the instruction. The function is safe in newer Rust.
    #[allow(unused_unsafe)]
    let vendor = unsafe { std::arch::x86_64::__cpuid(0) };
    [vendor.ebx, vendor.edx, vendor.ecx]
        .map(u32::to_le_bytes)
        .as_flattened()
        == b"AuthenticAMD"
}

#[cfg(not(target_arch = "x86_64"))]
fn pairs_are_quick() -> bool {
    false
}

/// A piece of work written once over [`Simd`]; `run` must be `#[inline(always)]`, and so must all it
/// calls, or it is compiled without the instructions.
pub(crate) trait Kernel {
    fn run<S: Simd>(self);
}

/// Runs `kernel` with the instructions of `level`.
#[inline]
pub(crate) fn launch<K: Kernel>(level: Level, kernel: K) {
    match level {
        Level::Portable => kernel.run::<Portable>(),
        #[cfg(target_arch = "x86_64")]
        // SAFETY: `Level::detect` gives only levels that the CPU has, others are checked where they are given.
        Level::Avx2 => unsafe { avx2(kernel) },
        #[cfg(target_arch = "x86_64")]
        // SAFETY: as above.
        Level::Avx512 => unsafe { avx512(kernel) },
        #[cfg(target_arch = "x86_64")]
        // SAFETY: as above.
        Level::Avx512Bf16 => unsafe { avx512_bf16(kernel) },
        #[cfg(not(target_arch = "x86_64"))]
        Level::Avx2 | Level::Avx512 | Level::Avx512Bf16 => kernel.run::<Portable>(),
    }
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,fma")]
unsafe fn avx2<K: Kernel>(kernel: K) {
    const { assert!(LANES == 16) };
    kernel.run::<Avx2>();
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx2,fma")]
unsafe fn avx512<K: Kernel>(kernel: K) {
    const { assert!(LANES == 16) };
    kernel.run::<Avx512>();
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512bf16,avx2,fma")]
unsafe fn avx512_bf16<K: Kernel>(kernel: K) {
    const { assert!(LANES == 16) };
    kernel.run::<Avx512Bf16>();
}

#[cfg(all(test, target_arch = "x86_64"))]
mod tests {
    use super::*;
    use crate::simd::lanes::{exp2, sum};

    struct Sample<'a> {
        input: &'a [f32],
        output: &'a mut Vec<u32>,
    }

    impl Kernel for Sample<'_> {
        #[inline(always)]
        fn run<S: Simd>(self) {
            let mut total = S::splat(0.0);
            for part in self.input.as_chunks::<LANES>().0 {
                let x = S::load(part);
                total = S::fma(exp2::<S>(x), x, total);
                self.output.push(sum::<S>(total).to_bits());
            }
        }
    }

    #[test]
    fn instruction_sets_of_one_name_give_the_same_bits() {
        let input: Vec<f32> = (0..4096).map(|i| (i as f32 * 0.77).sin() * 20.0).collect();
        let levels = Level::supported().filter(|level| level.name() == "lanes16-fused");
        let results = levels.map(|level| {
            let mut output = Vec::new();
            launch(
                level,
                Sample {
                    input: &input,
                    output: &mut output,
                },
            );
            (level.name(), output)
        });
        let results: Vec<_> = results.collect();
        assert!(results.windows(2).all(|pair| pair[0] == pair[1]));
        assert!(results.iter().all(|(_, bits)| bits.len() == 256));
    }
}
