//! The dtypes of activations, weights and cache: `f32` and [`Bf16`].

use crate::simd::bf16::Bf16;
use crate::simd::cell::Packed;
use crate::simd::lanes::{LANES, Simd};

mod sealed {
    pub trait Sealed {}
    impl Sealed for f32 {}
    impl Sealed for crate::simd::bf16::Bf16 {}
}

/// A number type of weights, activations and cache; arithmetic is always in `f32`.
pub trait Dtype: sealed::Sealed + Packed + Copy + Default + Send + Sync + 'static {
    /// The value as `f32`, exactly.
    fn to_f32(self) -> f32;
    /// The nearest value, ties to even.
    fn from_f32(value: f32) -> Self;
    /// The slice itself when it already has this type.
    #[doc(hidden)]
    fn of_f32(values: &[f32]) -> Option<&[Self]>;
    /// As [`Dtype::of_f32`].
    #[doc(hidden)]
    fn of_bf16(values: &[Bf16]) -> Option<&[Self]>;
    /// Sixteen values widened.
    #[doc(hidden)]
    fn load<S: Simd>(from: &[Self; LANES]) -> S::V;
    /// Sixteen values narrowed as [`Dtype::from_f32`] does.
    #[doc(hidden)]
    fn store<S: Simd>(value: S::V, to: &mut [Self; LANES]);
}

impl Dtype for f32 {
    #[inline(always)]
    fn to_f32(self) -> f32 {
        self
    }
    #[inline(always)]
    fn from_f32(value: f32) -> Self {
        value
    }
    fn of_f32(values: &[f32]) -> Option<&[Self]> {
        Some(values)
    }
    fn of_bf16(_: &[Bf16]) -> Option<&[Self]> {
        None
    }
    #[inline(always)]
    fn load<S: Simd>(from: &[Self; LANES]) -> S::V {
        S::load(from)
    }
    #[inline(always)]
    fn store<S: Simd>(value: S::V, to: &mut [Self; LANES]) {
        S::store(value, to);
    }
}

impl Dtype for Bf16 {
    #[inline(always)]
    fn to_f32(self) -> f32 {
        self.widened()
    }
    #[inline(always)]
    fn from_f32(value: f32) -> Self {
        Self::nearest(value)
    }
    fn of_f32(_: &[f32]) -> Option<&[Self]> {
        None
    }
    fn of_bf16(values: &[Self]) -> Option<&[Self]> {
        Some(values)
    }
    #[inline(always)]
    fn load<S: Simd>(from: &[Self; LANES]) -> S::V {
        S::load_bf16(from)
    }
    #[inline(always)]
    fn store<S: Simd>(value: S::V, to: &mut [Self; LANES]) {
        let mut wide = [0.0; LANES];
        S::store(value, &mut wide);
        for (narrow, wide) in to.iter_mut().zip(wide) {
            *narrow = Self::from_f32(wide);
        }
    }
}

/// Up to sixteen values widened, the missing ones zero.
#[inline(always)]
pub(crate) fn load_part<S: Simd, E: Dtype>(from: &[E]) -> S::V {
    if let Ok(whole) = <&[E; LANES]>::try_from(from) {
        return E::load::<S>(whole);
    }
    let mut padded = [E::default(); LANES];
    for (to, &from) in padded.iter_mut().zip(from) {
        *to = from;
    }
    E::load::<S>(&padded)
}

/// The first `to.len()` of sixteen values narrowed.
#[inline(always)]
pub(crate) fn store_part<S: Simd, E: Dtype>(value: S::V, to: &mut [E]) {
    if let Ok(whole) = <&mut [E; LANES]>::try_from(&mut *to) {
        return E::store::<S>(value, whole);
    }
    let mut padded = [E::default(); LANES];
    E::store::<S>(value, &mut padded);
    for (to, from) in to.iter_mut().zip(padded) {
        *to = from;
    }
}
