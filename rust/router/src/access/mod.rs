//! Access control: API keys of clients, shared secrets of workers and operators.

mod api_keys;
mod token;

pub use api_keys::ApiKeys;
pub(crate) use token::Token;
