//! Which drafts a step sends, and what they gained.

mod asking;
mod backoff;
mod bid;
mod budget;
mod calibration;
#[cfg(test)]
mod choices;
mod drafting;
mod gain;
mod grammar_drafts;
mod mean_ms;
mod speculator;
mod step;
mod tiers;
mod tree;

pub(crate) use drafting::Drafting;
pub(crate) use gain::Trial;
pub(crate) use speculator::{EndedStep, Speculator};
pub(crate) use step::Candidate;
pub(crate) use tree::SentTree;
