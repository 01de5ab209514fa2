//! What happens to one head's query or key before attention: optional norm, rotary embedding.

use crate::simd::{Dtype, LANES, Simd, load_part, sum};

/// Largest head dimension.
pub(crate) const MAX_HEAD_DIM: usize = 256;

/// How one row's heads are prepared.
#[derive(Clone, Copy)]
pub(crate) struct Preparation<'a> {
    /// Root-mean-square norm over the head before the rotation: weights and epsilon.
    pub(crate) norm: Option<(&'a [f32], f32)>,
    /// Cosines and sines of the row's position, each half the rotated dimensions long; the rotation
    /// pairs dimension i with i + half.
    pub(crate) rotation: Option<(&'a [f32], &'a [f32])>,
}

/// Widens one head into `to`, and applies norm and rotation.
#[inline(always)]
pub(crate) fn prepare_head<S: Simd, E: Dtype>(
    how: Preparation<'_>,
    head: &[E],
    to: &mut [f32; MAX_HEAD_DIM],
) {
    let to = &mut to[..head.len()];
    for (wide, narrow) in to.iter_mut().zip(head) {
        *wide = narrow.to_f32();
    }
    if let Some((weight, epsilon)) = how.norm {
        let mut squares = S::splat(0.0);
        for part in to.chunks(LANES) {
            let x = load_part::<S, f32>(part);
            squares = S::fma(x, x, squares);
        }
        let mean = sum::<S>(squares) / to.len() as f32;
        let inverse = 1.0 / (mean + epsilon).sqrt();
        for (x, weight) in to.iter_mut().zip(weight) {
            *x = *x * inverse * weight;
        }
    }
    if let Some((cosines, sines)) = how.rotation {
        let (low, high) = to.split_at_mut(cosines.len());
        for (((a, b), cos), sin) in low.iter_mut().zip(high).zip(cosines).zip(sines) {
            let (x, y) = (*a, *b);
            *a = x * cos - y * sin;
            *b = y * cos + x * sin;
        }
    }
}
