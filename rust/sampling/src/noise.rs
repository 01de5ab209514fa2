//! The seeded noise that makes sampling a pure function of (choice seed, position, token).
//!
//! # Definition
//!
//! All integers are unsigned and wrap. The 32-bit hash `x` is `MurmurHash3_x86_32` (Austin Appleby,
//! public domain) with seed 0 over the sixteen little-endian bytes of `(seed mod 2^32, seed >> 32,
//! position, token)`:
//!
//! ```text
//! h = 0
//! for word in [seed_lo, seed_hi, position, token]:
//!     k = word * 0xCC9E2D51;  k = rotate_left(k, 15);  k = k * 0x1B873593
//!     h = h ^ k;              h = rotate_left(h, 13);  h = h * 5 + 0xE6546B64
//! h = h ^ 16
//! h = h ^ (h >> 16);  h = h * 0x85EBCA6B
//! h = h ^ (h >> 13);  h = h * 0xC2B2AE35
//! x = h ^ (h >> 16)
//! ```
//!
//! `u = (x + 0.5) * 2^-32` and `gumbel = -ln(-ln u)`, both in 64-bit floating point, then rounded
//! to 32 bits, to the nearest and of ties to the even one. `u` is never 0 or 1, so the noise is
//! finite: it lies in about [-3.13, 22.88]. In 32-bit floating point the top ~129 integers would
//! round to 1 and hand the token infinite noise.
//!
//! `ln` is this, in 64-bit floating point, each operation rounded on its own and none fused:
//!
//! ```text
//! x = 2^k * m, with m in [sqrt(1/2), sqrt(2)): from bits(x) + (bits(1) - bits(sqrt(1/2))),
//!     where the upper 12 bits are k + 1023, and the lower 52 plus bits(sqrt(1/2)) are bits(m)
//! f = m - 1
//! h = (f * 0.5) * f
//! s = f / (f + 2)
//! z = s * s
//! w = z * z
//! even = z * (R[0] + w * (R[2] + w * (R[4] + w * R[6])))
//! odd = w * (R[1] + w * (R[3] + w * R[5]))
//! ln x = k * LN_2_HIGH - ((h - (s * (h + (even + odd)) + k * LN_2_LOW)) - f)
//! ```
//!
//! So the noise has the same bits in Rust, NumPy and on a GPU. It differs from the exact value by
//! less than 2^-51 (1 + |gumbel|) before it is rounded, so the result is the nearest 32-bit number
//! or a neighbour of it wherever |gumbel| is above 2^-25.
//!
//! `tests/golden/noise.json` holds the constants, with `R`, and 1,000 cases that every
//! implementation of this definition must meet.

use crate::ln::ln;
pub use crate::ln::{LN_2_HIGH, LN_2_LOW, R};

/// First multiplier of a word of the message.
pub const WORD_MULTIPLIER_1: u32 = 0xCC9E_2D51;
/// Second multiplier of a word of the message.
pub const WORD_MULTIPLIER_2: u32 = 0x1B87_3593;
/// Added to the state after each word.
pub const STATE_INCREMENT: u32 = 0xE654_6B64;
/// First multiplier of the finalizer.
pub const FINAL_MULTIPLIER_1: u32 = 0x85EB_CA6B;
/// Second multiplier of the finalizer.
pub const FINAL_MULTIPLIER_2: u32 = 0xC2B2_AE35;
/// Length of the message in bytes, folded in before the finalizer.
pub const MESSAGE_BYTES: u32 = 16;

/// An upper bound of `gumbel` per leading one bit of the hash: a little above ln 2, so that
/// rounding stays below it.
const BOUND_PER_BIT: f32 = 0.6932;

/// The noise of one position of one choice, for every token.
#[derive(Clone, Copy, Debug)]
pub struct NoiseRow {
    state: u32,
}

impl NoiseRow {
    /// The noise of the token drawn at `position`, its index in prompt ++ output.
    pub fn new(choice_seed: u64, position: u32) -> Self {
        let state = absorb(0, choice_seed as u32);
        let state = absorb(state, (choice_seed >> 32) as u32);
        Self {
            state: absorb(state, position),
        }
    }

    /// The 32-bit hash of this position and `token`.
    #[inline(always)]
    pub fn bits(self, token: u32) -> u32 {
        let mut hash = absorb(self.state, token) ^ MESSAGE_BYTES;
        hash = (hash ^ (hash >> 16)).wrapping_mul(FINAL_MULTIPLIER_1);
        hash = (hash ^ (hash >> 13)).wrapping_mul(FINAL_MULTIPLIER_2);
        hash ^ (hash >> 16)
    }

    /// The Gumbel noise of this position and `token`.
    pub fn gumbel(self, token: u32) -> f32 {
        gumbel(self.bits(token))
    }
}

/// The Gumbel noise of a hash value.
pub fn gumbel(bits: u32) -> f32 {
    let uniform = (f64::from(bits) + 0.5) * (1.0 / 4_294_967_296.0);
    (-ln(-ln(uniform))) as f32
}

/// A value that [`gumbel`] of a hash with that many leading ones never exceeds, without logarithm:
/// −ln(−ln u) ≤ −ln(1 − u).
#[inline(always)]
fn gumbel_bound(leading_ones: u32) -> f32 {
    (leading_ones + 1) as f32 * BOUND_PER_BIT
}

/// The least hash with whose noise `score` might reach `target`; `None` when none can.
#[inline(always)]
pub(crate) fn least_bits(target: f32, score: f32) -> Option<u32> {
    // Below 33 leading ones, and one early so that rounding cannot hide the right one.
    let estimate = (target - score) / BOUND_PER_BIT - 2.0;
    let ones = (estimate.max(0.0) as u32..=u32::BITS)
        .find(|&ones| score + gumbel_bound(ones) >= target)?;
    Some(!u32::MAX.checked_shr(ones).unwrap_or(0))
}

#[inline(always)]
fn absorb(state: u32, word: u32) -> u32 {
    let word = word
        .wrapping_mul(WORD_MULTIPLIER_1)
        .rotate_left(15)
        .wrapping_mul(WORD_MULTIPLIER_2);
    (state ^ word)
        .rotate_left(13)
        .wrapping_mul(5)
        .wrapping_add(STATE_INCREMENT)
}

#[cfg(test)]
mod tests {
    use super::*;
    use spectrie_types::seed::splitmix;

    #[test]
    fn bound_is_never_below_the_noise_and_noise_is_finite() {
        let mut values: Vec<u32> = (0..40)
            .flat_map(|bit| [1_u32 << (bit % 32), u32::MAX << (bit % 32)])
            .collect();
        values.extend((0..1_000_000_u32).map(|i| splitmix(u64::from(i)) as u32));
        values.extend([0, 1, u32::MAX, u32::MAX - 1]);
        for bits in values {
            let noise = gumbel(bits);
            assert!(noise.is_finite());
            assert!(noise <= gumbel_bound(bits.leading_ones()), "{bits:#x}");
            for score in [-20.0, 0.0, 3.7, 1.0e4] {
                let reached = score + noise;
                assert!(least_bits(reached, score).is_some_and(|least| bits >= least));
            }
        }
        assert_eq!(least_bits(0.0, -30.0), None);
        assert_eq!(least_bits(0.0, 5.0), Some(0));
    }
}
