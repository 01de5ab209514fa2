//! Vector arithmetic: which instruction set runs, sixteen lanes of it, and the dtypes that lanes hold.

mod bf16;
mod cell;
mod dtype;
mod kernel;
mod lanes;
#[cfg(target_arch = "x86_64")]
mod x86;

pub use bf16::Bf16;
pub use dtype::Dtype;
pub(crate) use dtype::{load_part, store_part};
pub use kernel::arithmetic;
pub(crate) use kernel::{Kernel, launch};
pub(crate) use lanes::{LANES, ROUND, Simd, exp2, maximum, sum};
