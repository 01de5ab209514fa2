//! The forward of a decoder on a CPU, each row computed alone in a fixed order.
//!
//! [`Decoder::forward`] takes the rows of a [`Batch`] from tokens to logits in one call: its members of a
//! [`Team`] share every product ([`Linear`]) and operator, and meet at barriers where data flows. The
//! operators can be called alone: [`Attention::attend`] (rotary embedding, write to the paged cache,
//! attention over chunks and draft trees), [`rms_norm`], [`add_rms_norm`], [`silu_mul`] and [`top_k`].
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
mod cell;
mod decoder;
mod element;
mod embedding;
mod error;
mod layer;
mod level;
mod linear;
mod member;
mod memory;
mod mixture;
mod mlp;
mod norm;
mod packing;
mod prepare;
mod product;
mod reading;
mod rest;
mod rotary;
mod share;
mod simd;
mod softmax;
mod split;
mod team;
mod tile;
mod top_k;
mod wanted;
mod workspace;
#[cfg(target_arch = "x86_64")]
mod x86;

pub use activation::silu_mul;
pub use attention::{Attention, AttentionConfig, LayerConfig};
pub use batch::{Batch, BatchArrays, PAGE_SIZE};
pub use decoder::{Decoder, DecoderParts, Step, TopTokens};
pub use element::{Bf16, Element};
pub use embedding::Embedding;
pub use error::CpuError;
pub use layer::Layer;
pub use level::Level;
pub use linear::Linear;
pub use member::Member;
pub use mixture::Mixture;
pub use mlp::{Dense, Mlp};
pub use norm::{add_rms_norm, rms_norm};
pub use packing::{Source, Stored, pack_all};
pub use split::{Columns, Exchange, Split, Whole};
pub use team::Team;
pub use top_k::{TOP_K, top_k};
