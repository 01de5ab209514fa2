//! Which drafts a step sends, and what they gained.

mod ask;
mod asking;
mod bid;
mod budget;
mod drafting;
mod gain;
mod grammar_drafts;
mod heads;
mod plain_step;
mod questions;
mod speculator;
mod step;
#[cfg(test)]
mod testing;
mod tiers;
mod tree;

pub(crate) use drafting::Drafting;
pub(crate) use gain::Trial;
pub use heads::DrafterInfo;
pub(crate) use heads::LevelRow;
pub(crate) use plain_step::PlainStep;

pub(crate) use questions::{Questions, Reach};
pub(crate) use speculator::{EndedStep, Speculator};
pub(crate) use step::Candidate;
pub(crate) use tree::SentTree;
