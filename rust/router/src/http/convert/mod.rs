//! From an OpenAI request body to requests for the core.

mod fields;
mod options;
mod prompt;
mod request;
mod structured;
#[cfg(test)]
mod tests;
mod unsupported;

pub(super) use request::{ApiRequest, Endpoint, Extras, Names, convert};
