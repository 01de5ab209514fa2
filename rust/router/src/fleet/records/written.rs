//! A record as it is written down: a head, and pieces that add what came since.

use prost::Message as _;
use spectrie_proto::worker_v1::{RequestStats, TokenLogprob};
use spectrie_proto::{v1, worker_v1};
use spectrie_request::{OutputOptions, ResolvedRequest};

use crate::failover::{Blame, Record, RecordedChoice, ResumeToken};
use crate::fleet::entry::{Unreadable, open, seal};

const MARK: &[u8; 4] = b"spxs";

/// What came of one choice since the piece before.
#[derive(Clone, Debug)]
pub(crate) struct Piece {
    pub(crate) index: u32,
    /// Tokens before it.
    pub(crate) from: usize,
    pub(crate) choice: RecordedChoice,
}

#[derive(Clone, PartialEq, prost::Message)]
struct Head {
    /// Binds pieces to their head.
    #[prost(fixed64, tag = "1")]
    nonce: u64,
    #[prost(uint64, tag = "2")]
    generation: u64,
    #[prost(bytes = "vec", tag = "3")]
    token_digest: Vec<u8>,
    #[prost(string, optional, tag = "4")]
    tenant: Option<String>,
    #[prost(string, tag = "5")]
    model: String,
    #[prost(string, tag = "6")]
    model_hash: String,
    #[prost(string, tag = "7")]
    model_digest: String,
    #[prost(int64, tag = "8")]
    created: i64,
    #[prost(int64, tag = "9")]
    begun_ms: i64,
    #[prost(uint32, tag = "10")]
    num_resumes: u32,
    #[prost(int64, tag = "11")]
    deadline_ms: i64,
    #[prost(string, optional, tag = "12")]
    form: Option<String>,
    #[prost(message, optional, tag = "13")]
    request: Option<Request>,
}

#[derive(Clone, PartialEq, prost::Message)]
#[expect(
    clippy::struct_excessive_bools,
    clippy::struct_field_names,
    reason = "the fields of a request, by their names there"
)]
struct Request {
    #[prost(string, tag = "1")]
    request_id: String,
    #[prost(string, tag = "2")]
    wire_name: String,
    #[prost(uint32, repeated, tag = "3")]
    prompt_ids: Vec<u32>,
    #[prost(uint32, repeated, tag = "4")]
    prediction_ids: Vec<u32>,
    #[prost(bool, tag = "5")]
    has_prediction: bool,
    #[prost(message, optional, tag = "6")]
    sampling: Option<worker_v1::SamplingParameters>,
    #[prost(fixed64, tag = "7")]
    seed: u64,
    #[prost(uint32, tag = "8")]
    num_choices: u32,
    #[prost(uint32, tag = "9")]
    max_tokens: u32,
    #[prost(message, optional, tag = "10")]
    stopping: Option<v1::Stopping>,
    #[prost(string, tag = "11")]
    namespace: String,
    #[prost(string, optional, tag = "12")]
    prompt_cache_key: Option<String>,
    #[prost(bool, tag = "13")]
    learn: bool,
    #[prost(int32, tag = "14")]
    priority: i32,
    #[prost(enumeration = "worker_v1::SpeculationMode", optional, tag = "15")]
    speculation: Option<i32>,
    #[prost(uint32, optional, tag = "16")]
    max_draft_tokens: Option<u32>,
    #[prost(bool, tag = "17")]
    token_ids: bool,
    #[prost(bool, tag = "18")]
    sources: bool,
    #[prost(bool, tag = "19")]
    skip_special_tokens: bool,
    #[prost(uint32, optional, tag = "20")]
    logprobs: Option<u32>,
    #[prost(uint32, optional, tag = "21")]
    prompt_logprobs: Option<u32>,
    #[prost(message, optional, tag = "22")]
    structured: Option<worker_v1::Structured>,
    #[prost(string, optional, tag = "23")]
    tenant: Option<String>,
}

#[derive(Clone, PartialEq, prost::Message)]
struct Pieces {
    #[prost(fixed64, tag = "1")]
    nonce: u64,
    /// Place among the pieces of its record.
    #[prost(uint64, tag = "2")]
    number: u64,
    #[prost(message, repeated, tag = "3")]
    parts: Vec<Part>,
}

#[derive(Clone, PartialEq, prost::Message)]
struct Part {
    #[prost(uint32, tag = "1")]
    index: u32,
    #[prost(uint64, tag = "2")]
    from: u64,
    #[prost(uint32, tag = "3")]
    attempt: u32,
    #[prost(uint32, repeated, tag = "4")]
    emitted: Vec<u32>,
    #[prost(bytes = "vec", tag = "5")]
    sources: Vec<u8>,
    #[prost(message, repeated, tag = "6")]
    logprobs: Vec<TokenLogprob>,
    #[prost(message, repeated, tag = "7")]
    prompt_logprobs: Vec<TokenLogprob>,
    #[prost(string, optional, tag = "8")]
    fingerprint: Option<String>,
    #[prost(bool, tag = "9")]
    numerics_changed: bool,
    #[prost(message, optional, tag = "10")]
    stats: Option<RequestStats>,
    #[prost(uint32, repeated, tag = "11")]
    blame: Vec<u32>,
    #[prost(message, optional, tag = "12")]
    end: Option<v1::Finished>,
    #[prost(uint32, tag = "13")]
    mark: u32,
}

/// The head of a record, to which pieces with this `nonce` belong. `generation` is that of its namespace.
pub(crate) fn head(record: &Record, nonce: u64, generation: u64) -> Vec<u8> {
    let request = &record.request;
    let written = Request {
        request_id: request.request_id.clone(),
        wire_name: request.wire_name.clone(),
        prompt_ids: request.prompt_ids.clone(),
        prediction_ids: request.prediction_ids.clone().unwrap_or_default(),
        has_prediction: request.prediction_ids.is_some(),
        sampling: Some(request.sampling.clone()),
        seed: request.seed,
        num_choices: request.num_choices,
        max_tokens: request.max_tokens,
        stopping: Some(request.stopping.clone()),
        namespace: request.namespace.clone(),
        prompt_cache_key: request.prompt_cache_key.clone(),
        learn: request.learn,
        priority: request.priority,
        speculation: request.speculation.map(i32::from),
        max_draft_tokens: request.max_draft_tokens,
        token_ids: request.output.token_ids,
        sources: request.output.sources,
        skip_special_tokens: request.output.skip_special_tokens,
        logprobs: request.output.logprobs,
        prompt_logprobs: request.output.prompt_logprobs,
        structured: request.structured.clone(),
        tenant: request.tenant.clone(),
    };
    let head = Head {
        nonce,
        generation,
        token_digest: record.token.digest().into(),
        tenant: record.tenant.clone(),
        model: record.model.clone(),
        model_hash: record.model_hash.clone(),
        model_digest: record.model_digest.clone(),
        created: record.created,
        begun_ms: record.begun_ms,
        num_resumes: record.num_resumes,
        deadline_ms: record.deadline_ms,
        form: record.form.clone(),
        request: Some(written),
    };
    seal(*MARK, &head.encode_to_vec())
}

/// The pieces with this number of the head with this `nonce`.
pub(crate) fn pieces(pieces: impl IntoIterator<Item = Piece>, nonce: u64, number: u64) -> Vec<u8> {
    let pieces = pieces.into_iter().map(
        |Piece {
             index,
             from,
             choice,
         }| Part {
            index,
            from: from as u64,
            attempt: choice.attempt,
            emitted: choice.emitted,
            sources: choice.sources,
            logprobs: choice.logprobs,
            prompt_logprobs: choice.prompt_logprobs,
            fingerprint: choice.fingerprint,
            numerics_changed: choice.numerics_changed,
            stats: Some(choice.stats),
            blame: choice.blame.to_numbers().into(),
            end: choice.end,
            mark: choice.mark,
        },
    );
    let pieces = Pieces {
        nonce,
        number,
        parts: pieces.collect(),
    };
    seal(*MARK, &pieces.encode_to_vec())
}

/// The record of a head and its pieces in order, for the client that showed `token`, with the generation
/// of its namespace.
///
/// # Errors
/// Anything but what [`head`] and [`pieces`] gave for one record.
pub(crate) fn read(
    head: &[u8],
    written: &[&[u8]],
    token: &ResumeToken,
) -> Result<(Record, u64), Unreadable> {
    let damaged = || Unreadable::Damaged;
    let head = Head::decode(open(*MARK, head)?).map_err(|_| damaged())?;
    let (nonce, generation) = (head.nonce, head.generation);
    let mut record = head.into_record(token).ok_or_else(damaged)?;
    for (bytes, number) in written.iter().zip(0..) {
        let pieces = Pieces::decode(open(*MARK, bytes)?).map_err(|_| damaged())?;
        if pieces.nonce != nonce || pieces.number != number {
            return Err(damaged());
        }
        for part in pieces.parts {
            part.add_to(&mut record).ok_or_else(damaged)?;
        }
    }
    let request = &record.request;
    let is_whole = record.choices.iter().all(|choice| {
        let len = choice.emitted.len();
        let has_logprobs = request.output.logprobs.is_none() || choice.logprobs.len() == len;
        len <= request.max_tokens as usize && choice.sources.len() == len && has_logprobs
    });
    if !is_whole || (request.prompt_ids.is_empty() && !record.has_ended()) {
        return Err(damaged());
    }
    Ok((record, generation))
}

impl Head {
    /// The record, still without what came of its choices; none if it is not the token's.
    fn into_record(self, token: &ResumeToken) -> Option<Record> {
        if self.token_digest != token.digest() {
            return None;
        }
        let request = self.request?.into_request()?;
        let num_choices = request.num_choices as usize;
        Some(Record {
            token: token.clone(),
            request,
            tenant: self.tenant,
            model: self.model,
            model_hash: self.model_hash,
            model_digest: self.model_digest,
            created: self.created,
            begun_ms: self.begun_ms,
            num_resumes: self.num_resumes,
            deadline_ms: self.deadline_ms,
            form: self.form,
            holder: None,
            choices: vec![RecordedChoice::default(); num_choices],
        })
    }
}

impl Request {
    fn into_request(self) -> Option<ResolvedRequest> {
        let speculation = match self.speculation {
            Some(mode) => Some(worker_v1::SpeculationMode::try_from(mode).ok()?),
            None => None,
        };
        let is_counted = (1..=spectrie_types::limits::MAX_CHOICES).contains(&self.num_choices);
        is_counted.then_some(ResolvedRequest {
            request_id: self.request_id,
            wire_name: self.wire_name,
            prompt_ids: self.prompt_ids,
            prediction_ids: self.has_prediction.then_some(self.prediction_ids),
            sampling: self.sampling?,
            seed: self.seed,
            num_choices: self.num_choices,
            max_tokens: self.max_tokens,
            stopping: self.stopping?,
            namespace: self.namespace,
            prompt_cache_key: self.prompt_cache_key,
            learn: self.learn,
            priority: self.priority,
            speculation,
            max_draft_tokens: self.max_draft_tokens,
            output: OutputOptions {
                token_ids: self.token_ids,
                sources: self.sources,
                skip_special_tokens: self.skip_special_tokens,
                logprobs: self.logprobs,
                prompt_logprobs: self.prompt_logprobs,
            },
            structured: self.structured,
            tenant: self.tenant,
        })
    }
}

impl Part {
    /// Adds it to its choice; none if it does not fit there.
    fn add_to(self, record: &mut Record) -> Option<()> {
        let choice = record.choices.get_mut(self.index as usize)?;
        if self.from != choice.emitted.len() as u64 || choice.end.is_some() {
            return None;
        }
        choice.emitted.extend(self.emitted);
        choice.sources.extend(self.sources);
        choice.logprobs.extend(self.logprobs);
        choice.prompt_logprobs.extend(self.prompt_logprobs);
        choice.attempt = self.attempt;
        choice.fingerprint = self.fingerprint;
        choice.numerics_changed = self.numerics_changed;
        choice.stats = self.stats?;
        choice.blame = Blame::from_numbers(&self.blame)?;
        choice.end = self.end;
        choice.mark = self.mark;
        Some(())
    }
}

#[cfg(test)]
pub(crate) mod tests;
