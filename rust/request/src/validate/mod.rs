//! Checks of a request that need no tokenizer: every limit written in the proto file.
//!
//! All violations are gathered, each with the field, what was given and what is allowed.

mod checker;
mod request;
mod sampling;
mod structured;
#[cfg(test)]
mod tests;
mod token_ids;

pub use request::{check_chat, check_request};
pub use token_ids::check_id_list;
