//! From an OpenAI request body to requests for the core.

mod api_request;
#[cfg(test)]
pub(super) mod asked;
mod fields;
mod options;
mod prompt;
mod request;
mod structured;
#[cfg(test)]
mod tests;
mod unsupported;

pub(super) use api_request::{ApiRequest, Endpoint, Extras, Names};
pub(super) use prompt::{MAX_PROMPTS, TOOL_FIELDS};
pub(super) use request::convert;
pub(super) use unsupported::{WITHOUT_EFFECT, refused_fields};
