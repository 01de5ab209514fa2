//! Asking for drafts: what it costs, how often each request is worth it, and the threads that help.

#[expect(
    clippy::module_inception,
    reason = "the owner of the room is named by it"
)]
mod asking;
mod backoff;
mod helpers;
mod mean_ms;
mod sharing;

pub(crate) use asking::Asking;
pub(crate) use backoff::Backoff;
pub(crate) use helpers::{Helpers, Job};
pub(crate) use mean_ms::MeanMs;
pub(crate) use sharing::Sharing;
