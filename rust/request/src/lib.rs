//! One understanding of a request, for the router and for `spectrie.LLM`.
//!
//! A request is checked ([`validate`]), given tokens, defaults and seeds ([`resolve`]) and sent to an
//! engine; the tokens that come back become text, usage and a reason to finish ([`answer`]). It has no
//! server, socket, async runtime or thread of its own: the messages come from `spectrie-proto`, and
//! the caller decides where the work is done.

pub mod answer;
mod model;
mod refusal;
pub mod resolve;
pub mod validate;
mod violation;

pub use answer::{Answer, AnswerDelta};
pub use model::{Model, SamplingDefaults, Unused};
pub use refusal::{Refusal, RefusalKind};
pub use resolve::{Caller, Naming, OutputOptions, ResolvedRequest, resolve, wire_name};
pub use violation::Violation;
