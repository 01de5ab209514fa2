//! The exponential, without the library.

/// exp(x) for x ≤ 0 within 2e-7 relative; 0 below −87, for NaN and for minus infinity.
///
/// Written so that the compiler turns a loop over it into vector code, and without library calls,
/// so that its bits are the same on every machine.
#[inline(always)]
pub(crate) fn exp_of_nonpositive(x: f32) -> f32 {
    // Adding 1.5 * 2^23 rounds to the nearest integer and leaves it in the low bits.
    const ROUNDER: f32 = 12_582_912.0;
    const LN2_HIGH: f32 = 0.693_359_4;
    const LN2_LOW: f32 = -2.121_944_4e-4;
    let inside = if x >= -87.0 { x } else { -87.0 };
    let rounded = inside * std::f32::consts::LOG2_E + ROUNDER;
    let power = rounded - ROUNDER;
    let rest = inside - power * LN2_HIGH - power * LN2_LOW;
    let mut value = 1.987_569_1e-4;
    for coefficient in [
        1.398_199_9e-3,
        8.333_452e-3,
        4.166_579_6e-2,
        1.666_666_5e-1,
        0.5,
    ] {
        value = value * rest + coefficient;
    }
    let value = value * rest * rest + rest + 1.0;
    let scale = f32::from_bits(rounded.to_bits().wrapping_add(127) << 23);
    if x >= -87.0 { value * scale } else { 0.0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exponential_is_accurate_and_zero_far_below() {
        for step in 0..80_000 {
            let x = -(step as f32) / 1_000.0;
            let exact = f64::from(x).exp();
            assert!(
                (f64::from(exp_of_nonpositive(x)) / exact - 1.0).abs() < 3e-7,
                "{x}"
            );
        }
        assert_eq!(exp_of_nonpositive(0.0).to_bits(), 1.0_f32.to_bits());
        for x in [-88.0, f32::NEG_INFINITY, f32::NAN] {
            assert_eq!(exp_of_nonpositive(x).to_bits(), 0);
        }
    }
}
