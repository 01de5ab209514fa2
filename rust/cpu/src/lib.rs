//! CPU operators on raw tensor memory, each row computed alone in a fixed order.
//!
//! A decoder layer needs four matrix products, which the caller does, and the four operators of this
//! crate: [`Attention::attend`] (rotary embedding, write to the paged cache, attention over chunks and
//! draft trees), [`rms_norm`], [`add_rms_norm`] and [`silu_mul`]. [`top_k`] reads what the last
//! product gives.
//!
//! # Exactness
//! The result of a row is a pure function of its own inputs. It never depends on how many rows the call
//! has, on the row's place among them, on the thread count, or on whether its keys were written as a
//! prompt chunk, one by one, or as the path of a draft tree. All arithmetic is single precision in
//! lanes of sixteen with a fixed order of additions. CPUs with fused multiply-add (AVX2+FMA, AVX-512,
//! aarch64) all give the same bits; others differ, which [`Level::name`] tells.

// Code is compiled for the detected instructions only where it is inlined into `level.rs`.
#![allow(clippy::inline_always)]

mod activation;
mod attention;
mod batch;
mod cache;
mod element;
mod error;
mod huge_pages;
mod level;
mod memory;
mod norm;
mod pool;
mod prepare;
mod rotary;
mod simd;
mod softmax;
mod top_k;
#[cfg(target_arch = "x86_64")]
mod x86;

pub use activation::silu_mul;
pub use attention::{Attention, AttentionConfig, LayerConfig};
pub use batch::{Batch, BatchArrays, PAGE_SIZE};
pub use element::{Bf16, Element};
pub use error::CpuError;
pub use huge_pages::use_huge_pages;
pub use level::Level;
pub use norm::{add_rms_norm, rms_norm};
pub use pool::shares_openmp;
pub use top_k::{TOP_K, top_k};
