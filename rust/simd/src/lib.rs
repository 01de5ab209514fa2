//! Which instruction sets this CPU has, and code compiled for them. It depends on nothing.
//!
//! Write a [`Work`] once; [`Isa::run`] compiles it for every instruction set and calls the copy for
//! one that was detected:
//!
//! ```
//! use spectrie_simd::{Isa, Work};
//!
//! struct Sum<'a>(&'a [f32]);
//!
//! impl Work for Sum<'_> {
//!     type Output = f32;
//!     #[inline(always)]
//!     fn run(self) -> f32 {
//!         self.0.iter().sum()
//!     }
//! }
//!
//! assert_eq!(Isa::detect().run(Sum(&[1.0, 2.0])), 3.0);
//! ```
//!
//! An [`Isa`] holds a proof that the CPU has it, so no safe call can run instructions that are missing.
//!
//! # Exactness
//! Plain Rust gives the same bits under every instruction set: the compiler vectorises it, and neither
//! fuses nor reorders floating-point operations. Only intrinsics can make a difference.

mod isa;
mod work;

pub use isa::{Avx2, Avx512, Avx512Bf16, Isa};
pub use work::Work;
