//! The natural logarithm, without the library: the same bits on every machine.
//!
//! [`crate::noise`] defines it, operation by operation.

/// Coefficients of a polynomial near to minimax for `z R(z) = ln((1 + s) / (1 - s)) / s - 2`, that of
/// the lowest power first. It adds less than 2^-56 to the relative error of the logarithm.
pub const R: [f64; 7] = [
    0.666_666_666_666_667,
    0.399_999_999_998_995_05,
    0.285_714_286_259_754_87,
    0.222_222_111_347_950_8,
    0.181_828_891_252_617_23,
    0.153_317_216_005_560_42,
    0.146_164_496_850_434_06,
];
/// The first 21 bits of ln 2, so that its product with an exponent is exact.
pub const LN_2_HIGH: f64 = 0.693_146_705_627_441_4;
/// The rest of ln 2.
pub const LN_2_LOW: f64 = 4.749_325_039_031_672_6e-7;
/// The bits of sqrt(1/2) and of 1.
const SQRT_HALF_BITS: u64 = 0x3FE6_A09E_667F_3BCD;
const ONE_BITS: u64 = 0x3FF0_0000_0000_0000;
const MANTISSA_BITS: u32 = 52;

/// The natural logarithm of a positive normal number, within one unit in its last place.
#[inline(always)]
pub(crate) fn ln(x: f64) -> f64 {
    // Beginning at sqrt(1/2), powers of two have an exponent of their own.
    let bits = x.to_bits() + (ONE_BITS - SQRT_HALF_BITS);
    let power = f64::from((bits >> MANTISSA_BITS) as i32 - 1023);
    let mantissa = bits & ((1 << MANTISSA_BITS) - 1);
    let f = f64::from_bits(mantissa + SQRT_HALF_BITS) - 1.0;
    let half_square = f * 0.5 * f;
    let s = f / (f + 2.0);
    let z = s * s;
    let w = z * z;
    let even = z * (R[0] + w * (R[2] + w * (R[4] + w * R[6])));
    let odd = w * (R[1] + w * (R[3] + w * R[5]));
    let rest = s * (half_square + (even + odd)) + power * LN_2_LOW;
    power * LN_2_HIGH - ((half_square - rest) - f)
}

#[cfg(test)]
mod tests {
    use spectrie_types::seed::splitmix;

    use super::*;

    /// Distance of the library's logarithm, itself within one unit, in units in the last place.
    fn distance(x: f64) -> u64 {
        let (ours, library) = (ln(x), x.ln());
        ours.to_bits().abs_diff(library.to_bits())
    }

    #[test]
    fn logarithms_are_within_a_unit_of_the_library() {
        for exponent in -1_022..1_023 {
            for mantissa in [
                1.0,
                1.25,
                std::f64::consts::SQRT_2.next_down(),
                std::f64::consts::SQRT_2,
                1.999,
            ] {
                let x = mantissa * 2.0_f64.powi(exponent);
                assert!(distance(x) <= 1, "{x:e}");
            }
        }
        for i in 0..1_000_000_u64 {
            let near_one = 1.0 + (splitmix(i) >> 12) as f64 / 2.0_f64.powi(53 + (i % 40) as i32);
            let any = (splitmix(i) as f64 + 1.0) * 2.0_f64.powi(-60);
            for x in [near_one, 1.0 / near_one, any] {
                assert!(distance(x) <= 1, "{x:e}");
            }
        }
        assert_eq!(ln(1.0).to_bits(), 0.0_f64.to_bits());
    }
}
