//! What a running stream holds ready for a client that is cut.

use std::time::{SystemTime, UNIX_EPOCH};

use spectrie_proto::v1;
use spectrie_proto::worker_v1::TokenLogprob;
use spectrie_request::AnswerDelta;

use crate::failover::ResumeToken;

/// What a stream that can be resumed has.
#[derive(Debug)]
pub(crate) struct Keeping {
    pub(in crate::generation) token: ResumeToken,
    /// Whether the client has it.
    pub(super) is_known: bool,
    /// Unix time in seconds, as the client hears it.
    pub(in crate::generation) created: i64,
    /// What an API wrote down to form its answer again.
    pub(super) form: Option<String>,
}

impl Keeping {
    /// For a stream that begins now; none while there is no token to be had.
    pub(in crate::generation) fn new(form: Option<String>) -> Option<Self> {
        let since = SystemTime::now().duration_since(UNIX_EPOCH);
        Some(Self {
            token: ResumeToken::draw()?,
            is_known: false,
            created: since.unwrap_or_default().as_secs() as i64,
            form,
        })
    }
}

/// What a choice sent beside its tokens.
#[derive(Debug, Default)]
pub(crate) struct Kept {
    /// The number of each token's source.
    pub(super) sources: Vec<u8>,
    pub(super) logprobs: Vec<TokenLogprob>,
    pub(in crate::generation) end: Option<v1::Finished>,
}

impl Kept {
    pub(in crate::generation) fn add(&mut self, delta: &AnswerDelta) {
        let sources = delta.sources.iter();
        self.sources
            .extend(sources.map(|source| u8::try_from(*source).unwrap_or(0)));
        self.logprobs.extend_from_slice(&delta.logprobs);
    }
}
