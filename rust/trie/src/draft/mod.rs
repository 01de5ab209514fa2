//! The draft tree of one request.

pub(crate) mod best_first;
pub(crate) mod corpus_order;
mod credit;
pub(crate) mod drafter;
pub(crate) mod fixed_modes;
pub(crate) mod head;
pub(crate) mod head_modes;
pub(crate) mod inquiry;
pub(crate) mod tree;
pub(crate) mod tree_builder;
