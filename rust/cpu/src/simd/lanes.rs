//! Sixteen lanes of `f32` with one meaning on every CPU, and what is built from them.

use crate::simd::bf16::Bf16;

/// Lanes of every vector: the operators' order of additions is defined by it, whatever the registers.
pub(crate) const LANES: usize = 16;

/// Vector arithmetic of one instruction set. Lanes never mix, so a lane's result is the scalar result.
#[doc(hidden)]
pub trait Simd: Copy {
    /// Sixteen `f32`.
    type V: Copy;
    /// What a product of bfloat16 takes: sixteen numbers widened, or sixteen pairs.
    type Numbers: Copy;
    /// How many `V` a product may keep in registers, with room for its operands.
    const ACCUMULATORS: usize;
    /// Cells that a product takes side by side.
    const CELLS: usize;
    /// Products that a pair of bfloat16 takes, and words that hold one prepared: 2 when widened, 1 when
    /// taken as it is.
    const PAIR_PRODUCTS: usize;
    fn splat(value: f32) -> Self::V;
    fn load(from: &[f32; LANES]) -> Self::V;
    fn load_bf16(from: &[Bf16; LANES]) -> Self::V;
    fn store(value: Self::V, to: &mut [f32; LANES]);
    fn add(a: Self::V, b: Self::V) -> Self::V;
    fn sub(a: Self::V, b: Self::V) -> Self::V;
    fn mul(a: Self::V, b: Self::V) -> Self::V;
    fn div(a: Self::V, b: Self::V) -> Self::V;
    fn max(a: Self::V, b: Self::V) -> Self::V;
    fn min(a: Self::V, b: Self::V) -> Self::V;
    /// `a * b + c`, fused where the instruction set fuses.
    fn fma(a: Self::V, b: Self::V, c: Self::V) -> Self::V;
    /// 2 to the power of the integer that [`ROUND`] + n holds in its low mantissa bits.
    fn pow2_of_rounded(value: Self::V) -> Self::V;
    /// What the pairs' first or second product takes; the first one is of their second numbers.
    fn load_pairs(from: &[Bf16; 2 * LANES], product: usize) -> Self::Numbers;
    /// The same of one prepared pair, in every lane.
    fn splat_pair(words: &[f32], product: usize) -> Self::Numbers;
    /// `c` with a product added.
    fn fma_pairs(a: Self::Numbers, b: Self::Numbers, c: Self::V) -> Self::V;
    /// Asks for the cache line at an address, which need not be valid, to be near when it is read.
    fn prefetch<T>(_address: *const T) {}
    /// The same for the second-level cache, to be read much later.
    fn prefetch_far<T>(_address: *const T) {}
}

/// 1.5 * 2^23: adding it rounds an `f32` to an integer held in the low mantissa bits.
pub(crate) const ROUND: f32 = 12_582_912.0;
/// What turns those bits into a biased exponent.
pub(crate) const EXPONENT_OFFSET: u32 = 127u32.wrapping_sub(0x4B40_0000);

/// Lane-wise 2^x by a degree-7 Taylor polynomial; |relative error| < 1e-7. Inputs are clamped to
/// [-126, 126], so nothing overflows and -inf gives 2^-126.
#[inline(always)]
pub(crate) fn exp2<S: Simd>(x: S::V) -> S::V {
    // ln(2)^k / k!
    const C: [f32; 8] = [
        1.0,
        std::f32::consts::LN_2,
        0.240_226_5,
        0.055_504_11,
        0.009_618_129,
        0.001_333_355_8,
        0.000_154_035_3,
        0.000_015_252_734,
    ];
    let x = S::max(S::min(x, S::splat(126.0)), S::splat(-126.0));
    let rounded = S::add(x, S::splat(ROUND));
    let f = S::sub(x, S::sub(rounded, S::splat(ROUND)));
    let mut y = S::splat(C[7]);
    for k in (0..7).rev() {
        y = S::fma(y, f, S::splat(C[k]));
    }
    S::mul(y, S::pow2_of_rounded(rounded))
}

/// The sum of all lanes, added pairwise in a fixed order.
#[inline(always)]
pub(crate) fn sum<S: Simd>(value: S::V) -> f32 {
    let mut a = [0.0; LANES];
    S::store(value, &mut a);
    let mut half = LANES / 2;
    while half > 0 {
        for i in 0..half {
            a[i] += a[i + half];
        }
        half /= 2;
    }
    a[0]
}

/// The largest lane.
#[inline(always)]
pub(crate) fn maximum<S: Simd>(value: S::V) -> f32 {
    let mut a = [0.0; LANES];
    S::store(value, &mut a);
    let mut half = LANES / 2;
    while half > 0 {
        for i in 0..half {
            a[i] = if a[i] > a[i + half] {
                a[i]
            } else {
                a[i + half]
            };
        }
        half /= 2;
    }
    a[0]
}

/// What instruction sets without products of pairs do: the two numbers of a pair one after the other,
/// widened. Their `load_pairs` gives the upper one first.
macro_rules! widened_pairs {
    () => {
        type Numbers = Self::V;
        const PAIR_PRODUCTS: usize = 2;
        #[inline(always)]
        fn splat_pair(words: &[f32], product: usize) -> Self::Numbers {
            Self::splat(words[1 - product])
        }
        #[inline(always)]
        fn fma_pairs(a: Self::Numbers, b: Self::Numbers, c: Self::V) -> Self::V {
            Self::fma(a, b, c)
        }
    };
}
#[cfg(target_arch = "x86_64")]
pub(crate) use widened_pairs;

/// Plain loops that the compiler vectorises as far as the target's baseline allows.
#[derive(Clone, Copy)]
pub(crate) struct Portable;

#[inline(always)]
fn each(a: [f32; LANES], b: [f32; LANES], f: impl Fn(f32, f32) -> f32) -> [f32; LANES] {
    std::array::from_fn(|i| f(a[i], b[i]))
}

impl Simd for Portable {
    type V = [f32; LANES];
    widened_pairs!();
    const ACCUMULATORS: usize = 6;
    const CELLS: usize = 1;
    #[inline(always)]
    fn splat(value: f32) -> Self::V {
        [value; LANES]
    }
    #[inline(always)]
    fn load(from: &[f32; LANES]) -> Self::V {
        *from
    }
    #[inline(always)]
    fn load_bf16(from: &[Bf16; LANES]) -> Self::V {
        std::array::from_fn(|i| f32::from_bits(u32::from(from[i].0) << 16))
    }
    #[inline(always)]
    fn store(value: Self::V, to: &mut [f32; LANES]) {
        *to = value;
    }
    #[inline(always)]
    fn add(a: Self::V, b: Self::V) -> Self::V {
        each(a, b, |a, b| a + b)
    }
    #[inline(always)]
    fn sub(a: Self::V, b: Self::V) -> Self::V {
        each(a, b, |a, b| a - b)
    }
    #[inline(always)]
    fn mul(a: Self::V, b: Self::V) -> Self::V {
        each(a, b, |a, b| a * b)
    }
    #[inline(always)]
    fn div(a: Self::V, b: Self::V) -> Self::V {
        each(a, b, |a, b| a / b)
    }
    #[inline(always)]
    fn max(a: Self::V, b: Self::V) -> Self::V {
        each(a, b, |a, b| if a > b { a } else { b })
    }
    #[inline(always)]
    fn min(a: Self::V, b: Self::V) -> Self::V {
        each(a, b, |a, b| if a < b { a } else { b })
    }
    #[inline(always)]
    fn fma(a: Self::V, b: Self::V, c: Self::V) -> Self::V {
        std::array::from_fn(|i| multiply_add(a[i], b[i], c[i]))
    }
    #[inline(always)]
    fn pow2_of_rounded(value: Self::V) -> Self::V {
        std::array::from_fn(|i| {
            f32::from_bits(value[i].to_bits().wrapping_add(EXPONENT_OFFSET) << 23)
        })
    }
    #[inline(always)]
    fn load_pairs(from: &[Bf16; 2 * LANES], product: usize) -> Self::Numbers {
        std::array::from_fn(|i| f32::from_bits(u32::from(from[2 * i + 1 - product].0) << 16))
    }
}

/// Fused only where that is one instruction: elsewhere `mul_add` is a slow library call.
#[inline(always)]
fn multiply_add(a: f32, b: f32, c: f32) -> f32 {
    if cfg!(target_arch = "aarch64") {
        a.mul_add(b, c)
    } else {
        a * b + c
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exp2_is_within_one_in_ten_million() {
        for i in -1250..1250 {
            let x = i as f32 * 0.1;
            let got = exp2::<Portable>([x; LANES])[3];
            let want = f64::from(x).exp2();
            assert!(
                (f64::from(got) / want - 1.0).abs() < 2e-7,
                "2^{x} = {got}, want {want}"
            );
        }
    }

    #[test]
    fn exp2_of_minus_infinity_is_finite_and_negligible() {
        let got = exp2::<Portable>([f32::NEG_INFINITY; LANES])[0];
        assert!(got > 0.0 && got < 1.2e-38);
    }

    #[test]
    fn sum_and_maximum_take_every_lane() {
        let values: [f32; LANES] = std::array::from_fn(|i| i as f32);
        assert_eq!(sum::<Portable>(values).to_bits(), 120f32.to_bits());
        assert_eq!(maximum::<Portable>(values).to_bits(), 15f32.to_bits());
    }
}
