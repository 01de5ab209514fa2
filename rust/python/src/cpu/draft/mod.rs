//! Drafters as Python hands them over, and their levels.

mod dflash;
mod eagle3;
mod fused;
mod level;
mod model;
mod tensors;
mod vocabulary;

pub(crate) use level::{arrays_of_level, level_of};
pub(crate) use tensors::{AttentionTensors, DrafterTensors};
