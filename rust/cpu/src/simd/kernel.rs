//! Work written once over lanes, and the way into it compiled for an instruction set.

use std::marker::PhantomData;

#[cfg(target_arch = "x86_64")]
use spectrie_simd::{Avx2, Avx512, Avx512Bf16};
use spectrie_simd::{Isa, Work};

use crate::simd::lanes::{Portable, Simd};

/// A piece of work written once over [`Simd`]; `run` must be `#[inline(always)]`, and so must all it
/// calls, or it is compiled without the instructions.
pub(crate) trait Kernel {
    fn run<S: Simd>(self);
}

/// A kernel with its lanes chosen.
struct Over<S, K>(K, PhantomData<S>);

impl<S: Simd, K: Kernel> Work for Over<S, K> {
    type Output = ();
    #[inline(always)]
    fn run(self) {
        self.0.run::<S>();
    }
}

/// Runs `kernel` with the instructions of `isa`.
#[inline]
pub(crate) fn launch<K: Kernel>(isa: Isa, kernel: K) {
    match isa {
        #[cfg(target_arch = "x86_64")]
        Isa::Avx2(isa) => isa.run(Over::<Avx2, K>(kernel, PhantomData)),
        #[cfg(target_arch = "x86_64")]
        Isa::Avx512(isa) => isa.run(Over::<Avx512, K>(kernel, PhantomData)),
        #[cfg(target_arch = "x86_64")]
        Isa::Avx512Bf16(isa) => isa.run(Over::<Avx512Bf16, K>(kernel, PhantomData)),
        _ => isa.run(Over::<Portable, K>(kernel, PhantomData)),
    }
}

/// Names the arithmetic of an instruction set, with weights in bfloat16 or single precision: equal
/// names give equal bits.
pub fn arithmetic(isa: Isa, bfloat16: bool) -> &'static str {
    match isa {
        // Differs in bfloat16 products alone; denormal numbers, for one, are zero to the instruction.
        Isa::Avx512Bf16(_) if bfloat16 => "lanes16-fused-pairs",
        Isa::Portable if !cfg!(target_arch = "aarch64") => "lanes16-unfused",
        _ => "lanes16-fused",
    }
}

#[cfg(all(test, target_arch = "x86_64"))]
mod tests {
    use super::*;
    use crate::simd::lanes::{LANES, exp2, sum};

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
        let fused = Isa::supported().filter(|&isa| arithmetic(isa, false) == "lanes16-fused");
        let results = fused.map(|isa| {
            let mut output = Vec::new();
            launch(
                isa,
                Sample {
                    input: &input,
                    output: &mut output,
                },
            );
            output
        });
        let results: Vec<_> = results.collect();
        assert!(results.windows(2).all(|pair| pair[0] == pair[1]));
        assert!(results.iter().all(|bits| bits.len() == 256));
    }
}
