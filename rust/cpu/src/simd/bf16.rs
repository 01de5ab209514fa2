//! The bfloat16 number.

/// A bfloat16 number: the upper half of an `f32`'s bits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[repr(transparent)]
pub struct Bf16(pub u16);

impl Bf16 {
    /// The value as `f32`, exactly.
    #[inline(always)]
    pub(crate) fn widened(self) -> f32 {
        f32::from_bits(u32::from(self.0) << 16)
    }

    /// The nearest bfloat16 number, ties to even.
    #[inline(always)]
    pub(crate) fn nearest(value: f32) -> Self {
        let bits = value.to_bits();
        // Adding 0x7fff plus the lowest kept bit rounds to nearest, ties to even; a NaN must not be
        // rounded into an infinity, so it keeps its upper bits and is made quiet.
        let rounded = bits.wrapping_add(0x7fff + ((bits >> 16) & 1)) >> 16;
        let quiet = (bits >> 16) | 0x40;
        Self(if bits & 0x7fff_ffff > 0x7f80_0000 {
            quiet
        } else {
            rounded
        } as u16)
    }
}
