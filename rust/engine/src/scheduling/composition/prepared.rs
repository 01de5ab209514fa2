//! A step in the making: all of it but its drafts.

use super::pacing::Pacing;
use super::step::Chunks;
use crate::request_key::RequestKey;
use crate::scheduling::running::Running;
use crate::speculation::{Candidate, Questions};

/// A step without its drafts.
#[derive(Debug)]
pub(crate) struct Prepared {
    /// When it was begun, by its caller and by the clock.
    pub(in crate::scheduling) now_s: f64,
    pub(in crate::scheduling) began_s: f64,
    pub(in crate::scheduling) chunks: Chunks,
    /// Requests that decode, in the order of their keys.
    pub(in crate::scheduling) decoding: Vec<RequestKey>,
    pub(in crate::scheduling) paced: Vec<RequestKey>,
    pub(in crate::scheduling) limit_ms: f64,
    /// What a drafter is asked for it; `None` before that.
    pub(in crate::scheduling) questions: Option<Questions>,
    /// Up to which token the drafter has keys of a request when it has done what it was given.
    pub(in crate::scheduling) fills: Vec<(RequestKey, usize)>,
    /// Tokens of which it was given to make keys.
    pub(in crate::scheduling) num_filled: usize,
}

/// The requests that decode as they are asked for drafts, in their order.
pub(in crate::scheduling) fn candidates<'a>(
    running: &'a mut Running,
    decoding: &[RequestKey],
    pacing: &Pacing,
) -> Vec<Candidate<'a>> {
    let members = running.iter_mut();
    let members = members.filter(|(key, _)| decoding.binary_search(key).is_ok());
    let candidates = members.map(|(_, one)| {
        let is_limited = pacing.is_ahead(&one.tenant);
        one.candidate(is_limited)
    });
    candidates.collect()
}
