//! Drafters: networks that guess the tokens behind a decoder's rows, most of them from the rows' features.
//!
//! A drafter has a few layers of keys and values of its own. They have the target's slots, so what moves,
//! shares or frees a page needs nothing new. The entry at position p is made of the token at p and the
//! feature of p - 1, so there is none at 0. It is written behind the target's forward, at once or with those of other
//! forwards. That of a model that reads no features is made of the tokens up to p, when the model is asked.

mod arrays;
mod drafter;
mod drafting;
mod fill;
mod kinds;
mod level;
mod naming;
mod pending;
mod room;
mod runs;
mod store;
mod upkeep;

pub use arrays::{Answers, DraftArrays, FeatureMoves, UpkeepArrays};
pub use drafting::{DraftSizes, Drafting};
pub use kinds::{
    Around, Convolution, DflashParts, DrafterParts, Eagle3Parts, FusedParts, Mask, ModelParts,
    Parallel,
};
pub use naming::{Cut, LowRank, Selector, Shaped, Vocabulary};
pub use pending::MAX_PENDING;
