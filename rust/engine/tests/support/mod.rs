//! A model that is a hash of its visible prefix, and the plainest possible way to decode with it.
#![allow(dead_code, reason = "each test file uses its part")]

pub(crate) mod device;
pub(crate) mod distribution;
pub(crate) mod driver;
pub(crate) mod early;
pub(crate) mod expression;
pub(crate) mod head;
pub(crate) mod model;
pub(crate) mod options;
pub(crate) mod packed;
pub(crate) mod playing;
pub(crate) mod reference;
pub(crate) mod scenario;
pub(crate) mod simulation;
mod table_head;
pub(crate) mod text_head;
