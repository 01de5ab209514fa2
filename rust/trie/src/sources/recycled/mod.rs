//! Recycled tokens: the model's latest runner-up tokens by the last token and by the last pair.
//!
//! Every row that a forward computes, accepted or not, tells the model's likeliest next tokens in
//! its own words (Token Recycling, arXiv 2408.08696, keyed by pairs as well). The newest answer
//! for a key replaces the older one.

pub(crate) mod answer;
pub(crate) mod growing;
#[cfg(all(test, loom))]
mod interleavings;
mod slots;
pub(crate) mod table;
