//! What a running stream holds ready for a client that is cut.

use std::mem::size_of;

use spectrie_proto::v1;
use spectrie_proto::worker_v1::TokenLogprob;
use spectrie_request::AnswerDelta;

use crate::failover::{Held, Outline, Part, ResumeToken, end_bytes, logprob_bytes};
use crate::generation::resolve::Resolved;
use crate::sync::unix_time;

/// What a stream that can be resumed has.
#[derive(Debug)]
pub(crate) struct Keeping {
    pub(in crate::generation) token: ResumeToken,
    /// Whether the client has it.
    pub(super) is_known: bool,
    /// Unix time in seconds, as the client hears it.
    pub(in crate::generation) created: i64,
    /// How often it went on.
    pub(super) num_resumes: u32,
    /// What an API wrote down to form its answer again.
    pub(super) form: Option<String>,
    pub(super) part: Part,
}

impl Keeping {
    /// For a stream that begins now; none while there is no token to be had.
    pub(in crate::generation) fn new(form: Option<String>, held: &Held) -> Option<Self> {
        Some(Self {
            token: ResumeToken::draw()?,
            is_known: false,
            created: unix_time().as_secs() as i64,
            num_resumes: 0,
            form,
            part: held.part(),
        })
    }

    /// What its client is checked against.
    pub(in crate::generation) fn outline(&self, resolved: &Resolved) -> Outline {
        let (request, model) = (&resolved.request, &resolved.model);
        Outline {
            token: self.token.clone(),
            has_form: self.form.is_some(),
            model: model.name.clone(),
            model_hash: model.model_hash.clone(),
            model_digest: model.digest.clone(),
            priority: request.priority,
            share: request.share().to_owned(),
            num_tokens: vec![0; request.num_choices as usize],
            has_ended: vec![false; request.num_choices as usize],
        }
    }
}

/// What a choice sent beside its tokens.
#[derive(Debug, Default)]
pub(crate) struct Kept {
    /// The number of each token's source.
    pub(super) sources: Vec<u8>,
    pub(super) logprobs: Vec<TokenLogprob>,
    pub(in crate::generation) end: Option<v1::Finished>,
    /// About what it takes in memory.
    pub(super) num_bytes: usize,
}

impl Kept {
    /// What was sent before.
    pub(super) fn again(
        sources: Vec<u8>,
        logprobs: Vec<TokenLogprob>,
        end: Option<v1::Finished>,
    ) -> Self {
        let ended = end.as_ref().map_or(0, end_bytes);
        let num_bytes = sources.len() + logprobs.iter().map(logprob_bytes).sum::<usize>() + ended;
        Self {
            sources,
            logprobs,
            end,
            num_bytes,
        }
    }

    pub(in crate::generation) fn add(&mut self, delta: &AnswerDelta) {
        let sources = delta.sources.iter();
        self.sources
            .extend(sources.map(|source| u8::try_from(*source).unwrap_or(0)));
        self.logprobs.extend_from_slice(&delta.logprobs);
        self.num_bytes += delta.sources.len();
        self.num_bytes += delta.logprobs.iter().map(logprob_bytes).sum::<usize>();
    }

    pub(in crate::generation) fn finish(&mut self, finished: &v1::Finished) {
        self.num_bytes += size_of::<v1::Finished>() + end_bytes(finished);
        self.end = Some(finished.clone());
    }
}
