//! From a drafter's states to tokens: the heads that name them.

mod low_rank;
mod selector;
mod vocabulary;

pub use low_rank::LowRank;
pub use selector::{Selector, Shaped};
pub(crate) use vocabulary::Answering;
pub use vocabulary::{Cut, Vocabulary};
