//! Packing of weights from a checkpoint, by all members of a team.

use std::borrow::Cow;
use std::sync::OnceLock;

use spectrie_simd::Isa;

use crate::error::CpuError;
use crate::matmul::linear::Linear;
use crate::simd::{Bf16, Dtype};
use crate::threads::Team;

/// Borrowed numbers of a checkpoint.
#[derive(Debug, Clone, Copy)]
pub enum Stored<'a> {
    /// Single precision.
    F32(&'a [f32]),
    /// bfloat16.
    Bf16(&'a [Bf16]),
    /// Half precision (IEEE 754), as bits.
    F16(&'a [u16]),
}

impl Stored<'_> {
    /// The number of elements.
    pub fn len(&self) -> usize {
        match self {
            Self::F32(values) => values.len(),
            Self::Bf16(values) => values.len(),
            Self::F16(values) => values.len(),
        }
    }

    /// Whether it has no elements.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Appends all numbers, each rounded to the nearest of the dtype.
    pub fn append_to<E: Dtype>(&self, to: &mut Vec<E>) {
        match self {
            Self::F32(values) => to.extend(values.iter().map(|&value| E::from_f32(value))),
            Self::Bf16(values) => to.extend(values.iter().map(|&v| E::from_f32(v.to_f32()))),
            Self::F16(values) => to.extend(values.iter().map(|&bits| E::from_f32(half(bits)))),
        }
    }
}

/// What a [`Linear`] is packed from: stacked matrices `[out, in_features]` and a bias over all outputs.
#[derive(Debug, Clone)]
pub struct LinearSource<'a> {
    /// The matrices, row-major.
    pub parts: Vec<Stored<'a>>,
    /// Bias, one entry for each output.
    pub bias: Option<Vec<f32>>,
    /// Inputs of every matrix.
    pub in_features: usize,
}

impl LinearSource<'_> {
    fn pack<E: Dtype>(&self, isa: Isa) -> Result<Linear<E>, CpuError> {
        let len: usize = self.parts.iter().map(Stored::len).sum();
        if self.in_features == 0 || !len.is_multiple_of(self.in_features) {
            return Err(CpuError::Length {
                what: "weight",
                given: len,
                expected: self.in_features,
            });
        }
        let as_it_is = match self.parts.as_slice() {
            [Stored::F32(values)] => E::of_f32(values),
            [Stored::Bf16(values)] => E::of_bf16(values),
            _ => None,
        };
        let weight = as_it_is.map_or_else(
            || {
                let mut all = Vec::with_capacity(len);
                for part in &self.parts {
                    part.append_to(&mut all);
                }
                Cow::Owned(all)
            },
            Cow::Borrowed,
        );
        let out_features = len / self.in_features;
        let bias = self.bias.as_deref();
        Linear::pack(&weight, bias, self.in_features, out_features, isa)
    }
}

/// Packs every source. A converted copy of a source exists only while a member packs it.
///
/// # Errors
/// [`CpuError::Length`] for matrices and biases that do not fit, [`CpuError::Panicked`] on a bug.
pub fn pack_all<E: Dtype>(
    team: &Team,
    sources: &[LinearSource<'_>],
) -> Result<Vec<Linear<E>>, CpuError> {
    let packed: Vec<OnceLock<Result<Linear<E>, CpuError>>> =
        sources.iter().map(|_| OnceLock::new()).collect();
    let isa = Isa::detect();
    team.run(&|member| {
        member.share(sources.len(), |index| {
            packed[index].get_or_init(|| sources[index].pack(isa));
        });
    })?;
    packed
        .into_iter()
        .map(|linear| linear.into_inner().unwrap_or(Err(CpuError::Panicked)))
        .collect()
}

/// The value of a half-precision number.
fn half(bits: u16) -> f32 {
    let sign = u32::from(bits & 0x8000) << 16;
    let (exponent, mantissa) = (u32::from(bits >> 10) & 0x1f, u32::from(bits & 0x3ff));
    let magnitude = match exponent {
        // Below the smallest normal number: a multiple of 2^-24.
        0 => (mantissa as f32 / 16_777_216.0).to_bits(),
        31 => 0x7f80_0000 | (mantissa << 13),
        _ => ((exponent + 112) << 23) | (mantissa << 13),
    };
    f32::from_bits(sign | magnitude)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn half_precision_keeps_its_value() {
        for (bits, value) in [
            (0x0000u16, 0.0f32),
            (0x3c00, 1.0),
            (0xc000, -2.0),
            (0x7bff, 65504.0),
            (0x0400, 6.103_515_6e-5),
            (0x0001, 5.960_464_5e-8),
            (0x83ff, -6.097_555e-5),
            (0xfc00, f32::NEG_INFINITY),
        ] {
            assert_eq!(half(bits).to_bits(), value.to_bits(), "{bits:#x}");
        }
        assert!(half(0x7e00).is_nan());
    }
}
