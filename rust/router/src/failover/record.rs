//! What is kept of a stream whose client is gone: all that another attempt goes on from.

use std::mem::size_of;

use prost::Message as _;
use spectrie_proto::v1;
use spectrie_proto::worker_v1::{RequestStats, TokenLogprob};
use spectrie_request::ResolvedRequest;

use super::blame::Blame;
use super::resume_token::ResumeToken;

/// What the tables take that a record is found by, beside its names, in bytes.
const TABLE_BYTES: usize = 256;

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
    /// When the request came, in milliseconds of Unix time.
    pub(crate) begun_ms: i64,
    /// How often it went on.
    pub(crate) num_resumes: u32,
    /// When the answer is of no more use, in milliseconds of Unix time.
    pub(crate) deadline_ms: i64,
    /// What an API wrote down to form its answer again; none of gRPC's.
    pub(crate) form: Option<String>,
    /// As whose the fleet knows it, if it does.
    pub(crate) holder: Option<String>,
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
    /// Numeric fingerprint under which the first tokens were computed, or are to be.
    pub(crate) fingerprint: Option<String>,
    pub(crate) numerics_changed: bool,
    /// Sums over its attempts.
    pub(crate) stats: RequestStats,
    /// What is held against it since its last token.
    pub(crate) blame: Blame,
    /// Position that its client may have, where it went on elsewhere: tokens up to it may be missing here.
    pub(crate) mark: u32,
    /// Its end, if it has ended.
    pub(crate) end: Option<v1::Finished>,
}

impl Record {
    /// The request's name among those of its tenant.
    pub(crate) fn id(&self) -> &str {
        &self.request.request_id
    }

    /// Its client may have tokens that are not in it: another router went on with it, or wrote no more.
    pub(crate) fn may_be_behind(&mut self) {
        let most = self.request.max_tokens;
        for choice in &mut self.choices {
            choice.mark = most;
        }
    }

    /// Its next attempts have higher numbers than those that this router made, of which its `own` record says:
    /// what another router wrote may not know of all of them, and their outputs may be on their way.
    pub(crate) fn numbers_behind(&mut self, own: &Self) {
        for (choice, own) in self.choices.iter_mut().zip(&own.choices) {
            choice.attempt = choice.attempt.max(own.attempt);
        }
    }

    /// Whether every choice has ended.
    pub(crate) fn has_ended(&self) -> bool {
        self.choices.iter().all(|choice| choice.end.is_some())
    }

    /// About what it takes in memory, in bytes.
    pub(crate) fn num_bytes(&self) -> usize {
        let request = &self.request;
        let texts = [
            &request.request_id,
            &request.wire_name,
            &request.namespace,
            &self.model,
            &self.model_hash,
            &self.model_digest,
        ];
        let texts = texts.map(String::capacity).iter().sum::<usize>();
        let options = [
            request.prompt_cache_key.as_ref(),
            request.tenant.as_ref(),
            self.form.as_ref(),
            self.holder.as_ref(),
        ];
        let optional = options.into_iter().flatten().map(String::capacity);
        // The tables that it is found by repeat its names.
        let tenant = 3 * self.tenant.as_ref().map_or(0, String::len);
        let names = tenant + 2 * request.request_id.len() + TABLE_BYTES;
        let prediction = request.prediction_ids.as_ref();
        let ids = request.prompt_ids.capacity() + prediction.map_or(0, Vec::capacity);
        let structured = request.structured.as_ref();
        let options = request.sampling.encoded_len()
            + request.stopping.encoded_len()
            + structured.map_or(0, prost::Message::encoded_len);
        let texts = texts + optional.sum::<usize>() + names;
        let choices = self.choices.iter().map(RecordedChoice::num_bytes);
        // Messages take several times their encoded size; a prompt's ids are nearly all of it.
        size_of::<Self>() + texts + 4 * ids + 4 * options + choices.sum::<usize>()
    }
}

impl RecordedChoice {
    pub(crate) fn num_bytes(&self) -> usize {
        let fingerprint = self.fingerprint.as_ref().map_or(0, String::capacity);
        size_of::<Self>()
            + 4 * self.emitted.capacity()
            + self.sources.capacity()
            + logprobs_bytes(&self.logprobs)
            + logprobs_bytes(&self.prompt_logprobs)
            + fingerprint
            + 4 * self.stats.accepted_by_source.capacity()
            + self.end.as_ref().map_or(0, end_bytes)
    }
}

/// What a worker's log-probabilities take in memory, in bytes.
fn logprobs_bytes(entries: &Vec<TokenLogprob>) -> usize {
    let spare = entries.capacity() - entries.len();
    entries.iter().map(logprob_bytes).sum::<usize>() + spare * size_of::<TokenLogprob>()
}

/// What one of them takes.
pub(crate) fn logprob_bytes(entry: &TokenLogprob) -> usize {
    size_of::<TokenLogprob>() + 4 * (entry.top_ids.capacity() + entry.top_logprobs.capacity())
}

/// What a choice's end takes in memory beside itself, in bytes.
pub(crate) fn end_bytes(end: &v1::Finished) -> usize {
    let entry = |entry: &v1::TokenLogprob| {
        let top = entry.top.iter();
        let top =
            top.map(|top| size_of::<v1::TopLogprob>() + top.bytes.len() + top.text.capacity());
        size_of::<v1::TokenLogprob>()
            + entry.bytes.len()
            + entry.text.capacity()
            + top.sum::<usize>()
    };
    // What else has a size of its own takes about what it takes on the wire.
    let rest = v1::Finished {
        prompt_logprobs: Vec::new(),
        speculation: end.speculation.clone(),
        ..v1::Finished::default()
    };
    end.prompt_logprobs.iter().map(entry).sum::<usize>() + 4 * rest.encoded_len()
}
