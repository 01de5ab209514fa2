//! Running work compiled for an instruction set.
#![allow(unsafe_code)] // calls functions compiled for instructions that the CPU has by proof

use crate::isa::{Avx2, Avx512, Avx512Bf16, Isa};

/// A piece of work. `run` and all it calls in its loops must be `#[inline(always)]`, or they are
/// compiled without the instructions.
pub trait Work {
    /// Its result.
    type Output;
    /// Does the work.
    fn run(self) -> Self::Output;
}

impl Isa {
    /// Runs `work`, compiled for this instruction set.
    #[inline]
    pub fn run<W: Work>(self, work: W) -> W::Output {
        match self {
            Self::Portable => work.run(),
            Self::Avx2(isa) => isa.run(work),
            Self::Avx512(isa) => isa.run(work),
            Self::Avx512Bf16(isa) => isa.run(work),
        }
    }
}

/// `run` of a proof: the copy of a work that is compiled for its instructions. On other architectures
/// the proof cannot exist, and the work runs as it is.
macro_rules! run_compiled_for {
    ($proof:ident, $features:literal) => {
        impl $proof {
            /// Runs `work`, compiled for these instructions.
            #[inline]
            pub fn run<W: Work>(self, work: W) -> W::Output {
                #[cfg(target_arch = "x86_64")]
                {
                    #[target_feature(enable = $features)]
                    unsafe fn compiled<W: Work>(work: W) -> W::Output {
                        work.run()
                    }
                    // SAFETY: `self` proves that the CPU has the instructions.
                    unsafe { compiled(work) }
                }
                #[cfg(not(target_arch = "x86_64"))]
                work.run()
            }
        }
    };
}

run_compiled_for!(Avx2, "avx2,fma");
run_compiled_for!(Avx512, "avx512f,avx512bw,avx512dq,avx512vl,avx2,fma");
run_compiled_for!(
    Avx512Bf16,
    "avx512f,avx512bw,avx512dq,avx512vl,avx512bf16,avx2,fma"
);

#[cfg(test)]
#[allow(clippy::inline_always)] // only inlined code is compiled for the instructions
mod tests {
    use super::*;

    /// Sums, products, quotients and roots that a compiler could fuse or reorder if it were allowed to.
    struct Sample<'a>(&'a [f32]);

    impl Work for Sample<'_> {
        type Output = Vec<u32>;
        #[inline(always)]
        fn run(self) -> Vec<u32> {
            let mut sum = 0.0f32;
            self.0
                .iter()
                .map(|&x| {
                    let y = x * 0.3 + 1.7;
                    let z = if y > 0.5 { y.sqrt() } else { x / (y - 3.0) };
                    sum += z * x;
                    (sum - z * 1e-3 + x).to_bits()
                })
                .collect()
        }
    }

    #[test]
    fn plain_code_gives_the_same_bits_under_every_instruction_set() {
        let mut input: Vec<f32> = (0..4096).map(|i| (i as f32 * 0.77).sin() * 20.0).collect();
        input.extend([0.0, -0.0, 1e-40, -1e-40, 3e38, f32::MIN_POSITIVE]);
        let plain = Sample(&input).run();
        for isa in Isa::supported() {
            assert_eq!(isa.run(Sample(&input)), plain, "{}", isa.name());
        }
    }
}
