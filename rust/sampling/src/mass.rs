//! The mass of a token, as an integer: sums of it are the same in any order.
//!
//! # Definition
//!
//! The weight of a token is exp(score - greatest score), from 0 to 1, in 32-bit floating point. All
//! operations are rounded on their own, none are fused; constants are 32-bit numbers, and `x` is the
//! difference of the scores.
//!
//! ```text
//! inside = x if x >= -87 else -87
//! rounded = inside * 1.442695 + 12582912
//! power = rounded - 12582912
//! rest = inside - power * 0.6933594 - power * -2.1219444e-4
//! value = 1.9875691e-4
//! for c in [1.3981999e-3, 8.333452e-3, 4.1665796e-2, 1.6666665e-1, 0.5]:
//!     value = value * rest + c
//! value = value * rest * rest + rest + 1
//! weight = value * 2^power if x >= -87 else 0
//! ```
//!
//! Its mass is the weight in units of 2^-40, rounded to the nearest, ties to even: the likeliest
//! token has 2^40, and one e^28.4 times less likely has none.
//!
//! A row of 2^20 tokens sums to at most 2^60, so sums never overflow, and rounding moves the share of
//! a set of tokens by at most 2^-21.
//!
//! A set of tokens reaches the share `p` when its mass is at least `p` times that of all, the product
//! in 64-bit floating point without its fraction, and at least 1.

use crate::exp::exp_of_nonpositive;

/// Mass of the likeliest token, as a power of two.
#[cfg(test)]
const UNIT_BITS: u32 = 40;

/// Weights that are added to this have units of 2^-40 in their last place.
const ROUNDER: f64 = 4096.0;

/// The mass of a token whose score minus the greatest is `below`, at most 0; none for NaN.
#[inline(always)]
#[must_use]
pub fn mass(below: f32) -> u64 {
    rounded(f64::from(exp_of_nonpositive(below)))
}

/// The masses of some tokens, as [`mass`] gives them, in `masses`.
///
/// In two steps, as vectors of 64-bit numbers are half as long as those of weights.
#[inline(always)]
pub(crate) fn masses_of<const LANES: usize>(below: &[f32; LANES], masses: &mut [u64; LANES]) {
    let mut weights = [0.0; LANES];
    for (weight, &below) in weights.iter_mut().zip(below) {
        *weight = exp_of_nonpositive(below);
    }
    for (mass, &weight) in masses.iter_mut().zip(&weights) {
        *mass = rounded(f64::from(weight));
    }
}

/// A value from 0 to 4,095 in units of 2^-40.
#[inline(always)]
pub(crate) fn rounded(value: f64) -> u64 {
    (value + ROUNDER).to_bits() - ROUNDER.to_bits()
}

/// The least mass that reaches `share` of `total`.
#[inline]
pub(crate) fn needed(share: f32, total: u64) -> u64 {
    let product = f64::from(share) * total as f64;
    (product as u64).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn masses_are_rounded_weights_and_none_far_below() {
        assert_eq!(mass(0.0), 1 << UNIT_BITS);
        for step in 0..40_000 {
            let below = -(step as f32) / 1_000.0;
            let exact = f64::from(exp_of_nonpositive(below)) * (1_u64 << UNIT_BITS) as f64;
            assert_eq!(mass(below), exact.round_ties_even() as u64, "{below}");
        }
        assert_eq!((mass(-28.4), mass(-28.5)), (1, 0));
        for below in [-88.0, f32::NEG_INFINITY, f32::NAN] {
            assert_eq!(mass(below), 0);
        }
    }

    #[test]
    fn a_share_needs_some_mass_and_never_more_than_there_is() {
        let most = (1 << UNIT_BITS) << 20;
        let below_one = 1.0_f32.next_down();
        for total in [1, 3, (1 << 40) + 1, (1 << 53) + 1, most - 1, most] {
            assert!((1..=total).contains(&needed(below_one, total)));
            assert_eq!(needed(f32::MIN_POSITIVE, total), 1);
        }
        assert_eq!(needed(0.5, 1 << 41), 1 << 40);
        assert!(most.checked_mul(4).is_some());
    }
}
