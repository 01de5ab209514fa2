//! AVX-512 and AVX2+FMA lanes. Both fuse multiply-add, so they give the same bits.
#![allow(unsafe_code)] // vector intrinsics; `kernel.rs` selects a type only where the CPU has it

use std::arch::x86_64::{
    __m256, __m512, __m512bh, _MM_HINT_T0, _MM_HINT_T1, _mm_loadu_si128, _mm_prefetch,
    _mm256_add_epi32, _mm256_add_ps, _mm256_and_si256, _mm256_castps_si256, _mm256_castsi256_ps,
    _mm256_cvtepu16_epi32, _mm256_div_ps, _mm256_fmadd_ps, _mm256_loadu_ps, _mm256_loadu_si256,
    _mm256_max_ps, _mm256_min_ps, _mm256_mul_ps, _mm256_set1_epi32, _mm256_set1_ps,
    _mm256_slli_epi32, _mm256_storeu_ps, _mm256_sub_ps, _mm512_add_epi32, _mm512_add_ps,
    _mm512_and_si512, _mm512_castps_si512, _mm512_castsi512_ps, _mm512_cvtepu16_epi32,
    _mm512_div_ps, _mm512_dpbf16_ps, _mm512_fmadd_ps, _mm512_loadu_ps, _mm512_loadu_si512,
    _mm512_max_ps, _mm512_min_ps, _mm512_mul_ps, _mm512_set1_epi32, _mm512_set1_ps,
    _mm512_slli_epi32, _mm512_storeu_ps, _mm512_sub_ps,
};

use std::mem::transmute;

use spectrie_simd::{Avx2, Avx512, Avx512Bf16};

use crate::simd::bf16::Bf16;
use crate::simd::lanes::{EXPONENT_OFFSET, LANES, Simd, widened_pairs};

// SAFETY for every block below: `launch` names these types only inside `Avx2::run`, `Avx512::run` and
// `Avx512Bf16::run`, whose proofs the CPU gave; pointers come from array references of full length.

macro_rules! lanewise {
    ($($name:ident $wide:ident $half:ident;)*) => {
        macro_rules! wide { () => { $(
            #[inline(always)]
            fn $name(a: Self::V, b: Self::V) -> Self::V {
                // SAFETY: see above.
                unsafe { $wide(a, b) }
            })* } }
        macro_rules! half { () => { $(
            #[inline(always)]
            fn $name(a: Self::V, b: Self::V) -> Self::V {
                // SAFETY: see above.
                unsafe { [$half(a[0], b[0]), $half(a[1], b[1])] }
            })* } }
    };
}

lanewise! {
    add _mm512_add_ps _mm256_add_ps;
    sub _mm512_sub_ps _mm256_sub_ps;
    mul _mm512_mul_ps _mm256_mul_ps;
    div _mm512_div_ps _mm256_div_ps;
    max _mm512_max_ps _mm256_max_ps;
    min _mm512_min_ps _mm256_min_ps;
}

/// What AVX-512 does with and without BF16.
macro_rules! avx512 {
    () => {
        type V = __m512;
        const ACCUMULATORS: usize = 24;
        const CELLS: usize = 2;
        wide!();
        prefetches!();
        #[inline(always)]
        fn splat(value: f32) -> Self::V {
            // SAFETY: see above.
            unsafe { _mm512_set1_ps(value) }
        }
        #[inline(always)]
        fn load(from: &[f32; LANES]) -> Self::V {
            // SAFETY: see above.
            unsafe { _mm512_loadu_ps(from.as_ptr()) }
        }
        #[inline(always)]
        fn load_bf16(from: &[Bf16; LANES]) -> Self::V {
            // SAFETY: see above.
            unsafe {
                let narrow = _mm256_loadu_si256(from.as_ptr().cast());
                _mm512_castsi512_ps(_mm512_slli_epi32::<16>(_mm512_cvtepu16_epi32(narrow)))
            }
        }
        #[inline(always)]
        fn store(value: Self::V, to: &mut [f32; LANES]) {
            // SAFETY: see above.
            unsafe { _mm512_storeu_ps(to.as_mut_ptr(), value) }
        }
        #[inline(always)]
        fn fma(a: Self::V, b: Self::V, c: Self::V) -> Self::V {
            // SAFETY: see above.
            unsafe { _mm512_fmadd_ps(a, b, c) }
        }
        #[inline(always)]
        fn pow2_of_rounded(value: Self::V) -> Self::V {
            // SAFETY: see above.
            unsafe {
                let offset = _mm512_set1_epi32(EXPONENT_OFFSET as i32);
                let biased = _mm512_add_epi32(_mm512_castps_si512(value), offset);
                _mm512_castsi512_ps(_mm512_slli_epi32::<23>(biased))
            }
        }
    };
}

macro_rules! prefetches {
    () => {
        #[inline(always)]
        fn prefetch<T>(address: *const T) {
            // SAFETY: a hint, which ignores addresses that are not mapped.
            unsafe { _mm_prefetch::<_MM_HINT_T0>(address.cast()) }
        }
        #[inline(always)]
        fn prefetch_far<T>(address: *const T) {
            // SAFETY: as above.
            unsafe { _mm_prefetch::<_MM_HINT_T1>(address.cast()) }
        }
    };
}

/// One 512-bit register.
impl Simd for Avx512 {
    avx512!();
    widened_pairs!();
    #[inline(always)]
    fn load_pairs(from: &[Bf16; 2 * LANES], product: usize) -> Self::Numbers {
        // SAFETY: see above.
        unsafe {
            let pairs = _mm512_loadu_si512(from.as_ptr().cast());
            _mm512_castsi512_ps(if product == 0 {
                _mm512_and_si512(pairs, _mm512_set1_epi32(UPPER))
            } else {
                _mm512_slli_epi32::<16>(pairs)
            })
        }
    }
}

/// The bits of a pair's second number.
const UPPER: i32 = 0xffff_0000_u32 as i32;

/// One 512-bit register, and products of bfloat16 pairs.
impl Simd for Avx512Bf16 {
    avx512!();
    type Numbers = __m512bh;
    const PAIR_PRODUCTS: usize = 1;
    #[inline(always)]
    fn load_pairs(from: &[Bf16; 2 * LANES], _product: usize) -> Self::Numbers {
        // SAFETY: see above; both types are 64 bytes of any content.
        unsafe { transmute(_mm512_loadu_si512(from.as_ptr().cast())) }
    }
    #[inline(always)]
    fn splat_pair(words: &[f32], _product: usize) -> Self::Numbers {
        // SAFETY: as above.
        unsafe { transmute(_mm512_set1_epi32(words[0].to_bits() as i32)) }
    }
    #[inline(always)]
    fn fma_pairs(a: Self::Numbers, b: Self::Numbers, c: Self::V) -> Self::V {
        // SAFETY: see above.
        unsafe { _mm512_dpbf16_ps(c, a, b) }
    }
}

/// Two 256-bit registers.
impl Simd for Avx2 {
    type V = [__m256; 2];
    widened_pairs!();
    const ACCUMULATORS: usize = 6;
    const CELLS: usize = 1;
    half!();
    prefetches!();
    #[inline(always)]
    fn splat(value: f32) -> Self::V {
        // SAFETY: see above.
        unsafe { [_mm256_set1_ps(value); 2] }
    }
    #[inline(always)]
    fn load(from: &[f32; LANES]) -> Self::V {
        // SAFETY: see above; the second half starts eight floats on.
        unsafe {
            [
                _mm256_loadu_ps(from.as_ptr()),
                _mm256_loadu_ps(from.as_ptr().add(8)),
            ]
        }
    }
    #[inline(always)]
    fn load_bf16(from: &[Bf16; LANES]) -> Self::V {
        // SAFETY: see above; the second half starts eight numbers on.
        unsafe {
            let halves = [from.as_ptr().cast(), from.as_ptr().add(8).cast()];
            halves.map(|half| {
                let wide = _mm256_cvtepu16_epi32(_mm_loadu_si128(half));
                _mm256_castsi256_ps(_mm256_slli_epi32::<16>(wide))
            })
        }
    }
    #[inline(always)]
    fn store(value: Self::V, to: &mut [f32; LANES]) {
        // SAFETY: see above; the second half starts eight floats on.
        unsafe {
            _mm256_storeu_ps(to.as_mut_ptr(), value[0]);
            _mm256_storeu_ps(to.as_mut_ptr().add(8), value[1]);
        }
    }
    #[inline(always)]
    fn fma(a: Self::V, b: Self::V, c: Self::V) -> Self::V {
        // SAFETY: see above.
        unsafe {
            [
                _mm256_fmadd_ps(a[0], b[0], c[0]),
                _mm256_fmadd_ps(a[1], b[1], c[1]),
            ]
        }
    }
    #[inline(always)]
    fn pow2_of_rounded(value: Self::V) -> Self::V {
        // SAFETY: see above.
        unsafe {
            let offset = _mm256_set1_epi32(EXPONENT_OFFSET as i32);
            let low = _mm256_add_epi32(_mm256_castps_si256(value[0]), offset);
            let high = _mm256_add_epi32(_mm256_castps_si256(value[1]), offset);
            [
                _mm256_castsi256_ps(_mm256_slli_epi32::<23>(low)),
                _mm256_castsi256_ps(_mm256_slli_epi32::<23>(high)),
            ]
        }
    }
    #[inline(always)]
    fn load_pairs(from: &[Bf16; 2 * LANES], product: usize) -> Self::Numbers {
        // SAFETY: see above; the second half starts sixteen numbers on.
        unsafe {
            let halves = [from.as_ptr(), from.as_ptr().add(16)];
            halves.map(|half| {
                let pairs = _mm256_loadu_si256(half.cast());
                _mm256_castsi256_ps(if product == 0 {
                    _mm256_and_si256(pairs, _mm256_set1_epi32(UPPER))
                } else {
                    _mm256_slli_epi32::<16>(pairs)
                })
            })
        }
    }
}
