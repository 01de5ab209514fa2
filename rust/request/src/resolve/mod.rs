//! From a checked request to orders for an engine: nothing is left for a worker to default.

mod context;
mod namespace;
mod parameters;
mod prompt;
mod request;

pub use namespace::Naming;
pub use prompt::{chat_text_and_ids, check_reach, encode};
pub use request::{
    Caller, OutputOptions, ResolvedRequest, chat_bytes, held_bytes, resolve, text_bytes, wire_name,
};
