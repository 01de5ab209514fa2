//! Drafters: networks that guess the tokens behind a decoder's rows, most of them from the rows' features.
//!
//! A drafter has a few layers of keys and values of its own. They have the target's slots, so what moves,
//! shares or frees a page needs nothing new. The entry at position p is made of the token at p and the
//! feature of p - 1, so there is none at 0. It is written in the target's own forward. That of a model that reads
//! no features is made of the tokens up to p, when the model is asked.

mod arrays;
mod dflash;
mod drafter;
mod drafting;
mod eagle3;
mod fill;
mod fused;
mod kinds;
mod level;
mod low_rank;
mod model;
mod room;
mod stages;
mod store;
mod upkeep;
mod vocabulary;

pub use arrays::{Answers, DraftArrays, FeatureMoves, UpkeepArrays};
pub use dflash::{DflashParts, Mask};
pub use drafting::{DraftSizes, Drafting};
pub use eagle3::Eagle3Parts;
pub use fused::FusedParts;
pub use kinds::DrafterParts;
pub use low_rank::LowRank;
pub use model::ModelParts;
pub use vocabulary::{Cut, Vocabulary};
