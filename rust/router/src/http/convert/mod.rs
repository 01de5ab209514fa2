//! From an OpenAI request body to requests for the core.

mod api_request;
mod fields;
mod options;
mod prompt;
mod request;
mod structured;
#[cfg(test)]
mod tests;
mod unsupported;

pub(super) use api_request::{ApiRequest, Endpoint, Extras, Names};
pub(super) use request::convert;
