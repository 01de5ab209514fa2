//! All kinds of drafters.

mod convolution;
mod dflash;
mod eagle3;
mod fused;
mod model;
mod stages;

pub use convolution::Convolution;
use dflash::Dflash;
pub use dflash::{Around, DflashParts, Mask};
use eagle3::Eagle3;
pub use eagle3::{Eagle3Parts, Parallel};
use fused::Fused;
pub use fused::FusedParts;
use model::Model;
pub use model::ModelParts;
pub(crate) use stages::Size;

use crate::draft::drafter::Drafter;
use crate::error::CpuError;
use crate::simd::Dtype;

/// A drafter's weights; one variant for each kind.
pub enum DrafterParts<E: Dtype> {
    /// One or more layers over token vectors and states, as EAGLE-3 has them.
    Eagle3(Eagle3Parts<E>),
    /// Layers behind one product of token vectors and states, as EAGLE-2 and multi-token prediction have them.
    Fused(FusedParts<E>),
    /// Layers that fill in a block at once, as DFLASH has them.
    Dflash(DflashParts<E>),
    /// A whole decoder.
    Model(ModelParts<E>),
}

impl<E: Dtype> DrafterParts<E> {
    /// Checks that the parts fit each other, for a target of a width and attention of these widths.
    pub(crate) fn build(
        self,
        target_hidden: usize,
        qkv: usize,
        attended: usize,
    ) -> Result<Box<dyn Drafter<E>>, CpuError> {
        match self {
            Self::Eagle3(parts) => Ok(Box::new(Eagle3::new(parts, target_hidden, qkv, attended)?)),
            Self::Fused(parts) => Ok(Box::new(Fused::new(parts, target_hidden, qkv, attended)?)),
            Self::Dflash(parts) => Ok(Box::new(Dflash::new(parts, target_hidden, qkv, attended)?)),
            Self::Model(parts) => Ok(Box::new(Model::new(parts, qkv, attended)?)),
        }
    }
}
