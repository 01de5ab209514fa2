//! The forward of a decoder on a CPU, each row computed alone in a fixed order.
//!
//! [`Decoder::forward`] takes the rows of a [`Batch`] from tokens to logits in one call. The threads of a
//! [`Team`] share every product ([`Linear`]) and operator, and meet at barriers where data flows. The
//! operators can be called alone: [`Attention::attend`] (rotary embedding, write to the paged cache,
//! attention over chunks and draft trees), [`rms_norm`], [`add_rms_norm`], [`silu_mul`] and [`top_k`].
//! DESIGN.md beside this crate explains how it works.
//!
//! # Exactness
//! The result of a row is a pure function of its own inputs. It does not depend on the number of rows in
//! the call, on the row's index, on the number of threads, or on whether its keys were written as a
//! prompt chunk, one by one, or as the path of a draft tree. All arithmetic is single precision in
//! lanes of sixteen with a fixed order of additions. CPUs with fused multiply-add (AVX2+FMA, AVX-512,
//! aarch64) all give the same bits; others may differ. [`arithmetic`] names the arithmetic of a CPU.

// Code is compiled for the detected instructions only where it is inlined into `spectrie_simd::Work::run`.
#![allow(clippy::inline_always)]

mod attention;
mod buffer;
mod decoder;
mod draft;
mod error;
mod matmul;
mod simd;
mod threads;

pub use attention::{Attention, AttentionConfig, Batch, BatchArrays, LayerConfig, PAGE_SIZE};
pub use buffer::Columns;
pub use decoder::{
    Decoder, DecoderParts, Dense, Embedding, Exchange, Features, Layer, Mixture, Mlp, Split, Step,
    TOP_K, Tap, TopTokens, Whole, add_rms_norm, rms_norm, silu_mul, top_k,
};
pub use draft::{
    Answers, Around, Convolution, Cut, DflashParts, DraftArrays, DraftSizes, DrafterParts,
    Drafting, Eagle3Parts, FeatureMoves, FusedParts, LowRank, MAX_PENDING, Mask, ModelParts,
    Parallel, Selector, Shaped, UpkeepArrays, Vocabulary,
};
pub use error::CpuError;
pub use matmul::{Linear, LinearSource, Stored, pack_all};
pub use simd::{Bf16, Dtype, arithmetic};
pub use spectrie_simd::Isa;
pub use threads::{Member, Team};
