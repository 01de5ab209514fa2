//! What is kept of a stream whose client is gone: all that another attempt goes on from.

use std::mem::size_of;

use prost::Message as _;
use spectrie_proto::v1;
use spectrie_proto::worker_v1::{RequestStats, TokenLogprob};
use spectrie_request::ResolvedRequest;

use super::blame::Blame;
use super::resume_token::ResumeToken;

/// A stream as it was when its client went. Plain values and messages: nothing here belongs to this
/// process, so a record can be written down and read elsewhere.
#[derive(Clone, Debug)]
pub(crate) struct Record {
    /// Its client's secret.
    pub(crate) token: ResumeToken,
    /// Prompt, options, seed, namespace and tenant, with every default filled in.
    pub(crate) request: ResolvedRequest,
    /// Tenant of the API key that sent it; none when everyone may call.
    pub(crate) tenant: Option<String>,
    /// Served name of the model, and what its weights and its text side are known by.
    pub(crate) model: String,
    pub(crate) model_hash: String,
    pub(crate) model_digest: String,
    /// Unix time in seconds, as the client heard it.
    pub(crate) created: i64,
    /// When the answer is of no more use, in milliseconds of Unix time.
    pub(crate) deadline_ms: i64,
    /// What an API wrote down to form its answer again; none of gRPC's.
    pub(crate) form: Option<String>,
    /// By index.
    pub(crate) choices: Vec<RecordedChoice>,
}

/// One choice of it.
#[derive(Clone, Debug, Default)]
pub(crate) struct RecordedChoice {
    /// The attempts that it had.
    pub(crate) attempt: u32,
    /// The tokens that count.
    pub(crate) emitted: Vec<u32>,
    /// The number of each token's source.
    pub(crate) sources: Vec<u8>,
    /// One for each token, where they were asked for.
    pub(crate) logprobs: Vec<TokenLogprob>,
    /// Those of the prompt, as far as they came.
    pub(crate) prompt_logprobs: Vec<TokenLogprob>,
    /// Numeric fingerprint under which the first tokens were computed.
    pub(crate) fingerprint: Option<String>,
    pub(crate) numerics_changed: bool,
    /// Sums over its attempts.
    pub(crate) stats: RequestStats,
    /// What is held against it since its last token.
    pub(crate) blame: Blame,
    /// Its end, if it has ended.
    pub(crate) end: Option<v1::Finished>,
}

impl Record {
    /// The request's name among those of its tenant.
    pub(crate) fn id(&self) -> &str {
        &self.request.request_id
    }

    /// About what it takes in memory, in bytes.
    pub(crate) fn num_bytes(&self) -> usize {
        let request = &self.request;
        let texts = [&request.request_id, &request.wire_name, &request.namespace];
        let texts = texts.map(String::len).iter().sum::<usize>();
        let ids = request.prompt_ids.len() + request.prediction_ids.as_ref().map_or(0, Vec::len);
        let structured = request.structured.as_ref();
        let options = request.sampling.encoded_len()
            + request.stopping.encoded_len()
            + structured.map_or(0, prost::Message::encoded_len);
        let form = self.form.as_ref().map_or(0, String::len);
        let choices = self.choices.iter().map(RecordedChoice::num_bytes);
        // Messages take several times their encoded size; a prompt's ids are nearly all of it.
        size_of::<Self>() + texts + 4 * ids + 4 * options + form + choices.sum::<usize>()
    }
}

impl RecordedChoice {
    fn num_bytes(&self) -> usize {
        let worker = |entry: &TokenLogprob| {
            size_of::<TokenLogprob>() + 4 * (entry.top_ids.len() + entry.top_logprobs.len())
        };
        let client = |entry: &v1::TokenLogprob| {
            let top = entry.top.iter();
            let top = top.map(|top| size_of::<v1::TopLogprob>() + top.text.len());
            size_of::<v1::TokenLogprob>() + entry.text.len() + top.sum::<usize>()
        };
        let logprobs = self.logprobs.iter().chain(&self.prompt_logprobs);
        let ended = self.end.iter().flat_map(|end| &end.prompt_logprobs);
        size_of::<Self>()
            + 5 * self.emitted.len()
            + logprobs.map(worker).sum::<usize>()
            + ended.map(client).sum::<usize>()
    }
}
