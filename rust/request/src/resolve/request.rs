//! A request with every number decided, and the orders that begin its choices.

use prost::Message;
use spectrie_proto::v1::generate_request::Prompt;
use spectrie_proto::v1::prediction::Content;
use spectrie_proto::{v1, worker_v1};
use spectrie_types::seed::choice_seed;

use super::context::{check_prompt_logprobs, max_tokens};
use super::namespace::{Naming, place};
use super::parameters::{sampling_parameters, speculation_mode, worker_structured};
use super::prompt::{bad_word_ids, prediction_ids, prompt_ids};
use crate::model::Model;
use crate::refusal::{Refusal, Refusals};

/// Who sent a request.
#[derive(Clone, Copy, Debug)]
pub struct Caller<'a> {
    /// Tenant of its API key; none when everyone may call.
    pub tenant: Option<&'a str>,
    /// Whether it may name the draft memory to use.
    pub naming: Naming,
}

/// Everything that is the same for all choices of a request.
#[derive(Clone, Debug)]
pub struct ResolvedRequest {
    /// Its name in logs and errors.
    pub request_id: String,
    /// Its name between router and worker: the id, behind the tenant of the API key, which alone
    /// makes it unique.
    pub wire_name: String,
    /// The prompt; at least one token.
    pub prompt_ids: Vec<u32>,
    /// Tokens of the prediction, when the request has one.
    pub prediction_ids: Option<Vec<u32>>,
    /// How tokens are drawn.
    pub sampling: worker_v1::SamplingParameters,
    /// Given, or drawn.
    pub seed: u64,
    /// Answers to give, 1 to 8.
    pub num_choices: u32,
    /// Most tokens of each; prompt and answer fit into the context.
    pub max_tokens: u32,
    /// When an answer ends.
    pub stopping: v1::Stopping,
    /// Draft memory to use.
    pub namespace: String,
    /// Prefers the worker that knows the text of others with the same key; shares nothing else.
    pub prompt_cache_key: Option<String>,
    /// Whether that memory may keep the request's tokens.
    pub learn: bool,
    /// Larger runs first among the requests of a tenant.
    pub priority: i32,
    /// How draft trees are grown; the worker's own setting when absent.
    pub speculation: Option<worker_v1::SpeculationMode>,
    /// Most draft tokens per step; the worker's own setting when absent.
    pub max_draft_tokens: Option<u32>,
    /// What the answer carries.
    pub output: OutputOptions,
    /// What the answer is held to.
    pub structured: Option<worker_v1::Structured>,
    /// Whose share of the worker it uses; its namespace's when absent.
    pub tenant: Option<String>,
}

/// What the answer carries.
#[derive(Clone, Copy, Debug)]
pub struct OutputOptions {
    /// Whether the token ids are sent.
    pub token_ids: bool,
    /// Whether the source of each token is sent.
    pub sources: bool,
    /// Whether special tokens are left out of the text.
    pub skip_special_tokens: bool,
    /// Likeliest tokens that are reported with each token; no log-probabilities when absent.
    pub logprobs: Option<u32>,
    /// The same with each token of the prompt.
    pub prompt_logprobs: Option<u32>,
}

/// A request's name between router and worker: its id, behind the tenant of the API key if there is one.
pub fn wire_name(tenant: Option<&str>, request_id: &str) -> String {
    // A tenant contains no slash, so no id of another tenant gives the same name.
    tenant.map_or_else(
        || request_id.to_owned(),
        |tenant| format!("{tenant}/{request_id}"),
    )
}

/// What a message costs beside its own text, in bytes of text: a template goes through it and writes
/// around it.
const MESSAGE_BYTES: usize = 64;

/// Bytes of text to tokenize for a chat, and what rendering it costs in such.
pub fn chat_bytes(chat: &v1::ChatPrompt) -> usize {
    let messages = chat.messages.iter();
    messages
        .map(|message| message.role.len() + message.content.len() + MESSAGE_BYTES)
        .sum()
}

/// Bytes of text to tokenize, by which a caller chooses the thread.
pub fn text_bytes(request: &v1::GenerateRequest) -> usize {
    let prompt = match &request.prompt {
        Some(Prompt::Text(text)) => text.len(),
        Some(Prompt::Chat(chat)) => chat_bytes(chat),
        Some(Prompt::TokenIds(_)) | None => 0,
    };
    let prediction = match prediction_of(request) {
        Some(Content::Text(text)) => text.len(),
        _ => 0,
    };
    let sampling = request.sampling.as_ref();
    let bad_words = sampling.map_or(0, |sampling| {
        sampling.bad_words.iter().map(String::len).sum::<usize>()
    });
    // A banned text is tokenized as it stands, and after a space.
    prompt + prediction + 2 * bad_words
}

/// About as many bytes as a request holds.
pub fn held_bytes(request: &v1::GenerateRequest) -> usize {
    let ids = match &request.prompt {
        Some(Prompt::TokenIds(ids)) => size_of_val(&ids.ids[..]),
        _ => 0,
    };
    let messages = match &request.prompt {
        Some(Prompt::Chat(chat)) => size_of_val(&chat.messages[..]),
        _ => 0,
    };
    let prediction = match prediction_of(request) {
        Some(Content::TokenIds(ids)) => size_of_val(&ids.ids[..]),
        _ => 0,
    };
    // An id takes fewer bytes in the message, so these are counted once more.
    request.encoded_len() + ids + messages + prediction
}

fn prediction_of(request: &v1::GenerateRequest) -> Option<&Content> {
    let speculation = request.speculation.as_ref()?;
    speculation.prediction.as_ref()?.content.as_ref()
}

/// Resolves a request that passed [`check_request`](crate::validate::check_request): tokenizes,
/// fills in defaults, draws an absent seed.
///
/// # Errors
/// Every field at fault: texts that cannot be turned into tokens, a namespace that the caller may
/// not name, prompt and answer that do not fit.
pub fn resolve(
    request_id: String,
    request: v1::GenerateRequest,
    model: Model<'_>,
    caller: Caller<'_>,
) -> Result<ResolvedRequest, Refusal> {
    let mut refusals = Refusals::default();
    let salt = request.cache_salt.as_deref();
    let place = place(request.namespace, salt, caller.tenant, caller.naming);
    let place = refusals.value_or_default(place);
    let speculation = request.speculation.unwrap_or_default();
    let stopping = request.stopping.unwrap_or_default();
    let mut sampling = request.sampling.unwrap_or_default();
    let output = request.output.unwrap_or_default();

    let prediction = speculation.prediction.as_ref();
    let prediction = prediction.and_then(|prediction| prediction.content.clone());
    let ids = refusals.value_or_default(prompt_ids(model, request.prompt).map(Some));
    let prediction_ids = prediction
        .map(|content| prediction_ids(model, content))
        .transpose();
    let prediction_ids = refusals.value_or_default(prediction_ids);
    let mut num_tokens = 1;
    if let Some(ids) = &ids {
        let fits = max_tokens(ids.len(), &stopping, model.max_context);
        num_tokens = refusals.value_or_default(fits);
        refusals.value_or_default(check_prompt_logprobs(ids.len(), output.prompt_logprobs));
    }
    let bad_words = std::mem::take(&mut sampling.bad_words);
    let bad_words = refusals.value_or_default(bad_word_ids(model.text, &bad_words));
    refusals.into_result()?;
    Ok(ResolvedRequest {
        wire_name: wire_name(caller.tenant, &request_id),
        request_id,
        prompt_ids: ids.unwrap_or_default(),
        prediction_ids,
        seed: sampling.seed.unwrap_or_else(rand::random),
        num_choices: sampling.n.unwrap_or(1),
        sampling: sampling_parameters(sampling, bad_words, model.defaults),
        max_tokens: num_tokens,
        stopping,
        namespace: place.namespace,
        prompt_cache_key: request.prompt_cache_key,
        learn: speculation.learn.unwrap_or(true),
        priority: request.priority.unwrap_or(0),
        speculation: speculation_mode(&speculation),
        max_draft_tokens: speculation.max_draft_tokens,
        output: OutputOptions {
            token_ids: output.token_ids.unwrap_or(true),
            sources: output.sources.unwrap_or(false),
            skip_special_tokens: output.skip_special_tokens.unwrap_or(true),
            logprobs: output.logprobs,
            prompt_logprobs: output.prompt_logprobs,
        },
        structured: request.structured.map(worker_structured),
        tenant: place.tenant,
    })
}

impl ResolvedRequest {
    /// Checks that there is a drafter beside the model, if nothing is drafted without one.
    ///
    /// # Errors
    /// There is none; the message says what to do.
    pub fn check_drafter(&self, has_drafter: bool) -> Result<(), Refusal> {
        let name = match self.speculation {
            Some(worker_v1::SpeculationMode::Eagle2) => "eagle2",
            Some(worker_v1::SpeculationMode::Chain) => "chain",
            _ => return Ok(()),
        };
        if has_drafter {
            return Ok(());
        }
        let message = format!(
            "given {name}, which drafts from a drafter alone, and none is loaded; allowed: auto, off, bfs, prob or \
             tiers, or load one at the start by --drafter auto or --drafter PATH"
        );
        Err(Refusal::invalid("speculation.mode", message))
    }

    /// Name of choice `index` between router and worker.
    pub fn wire_id(&self, index: u32) -> String {
        format!("{}.{index}", self.wire_name)
    }

    /// The order that begins choice `index`; `deadline_ms` is Unix time in milliseconds.
    pub fn start(&self, index: u32, attempt: u32, deadline_ms: Option<i64>) -> worker_v1::Start {
        worker_v1::Start {
            request_id: self.wire_id(index),
            attempt,
            namespace: self.namespace.clone(),
            learn: self.learn,
            prompt_ids: self.prompt_ids.clone(),
            emitted_token_ids: Vec::new(),
            prediction_ids: self.prediction_ids.clone().unwrap_or_default(),
            sampling: Some(self.sampling.clone()),
            choice_seed: choice_seed(self.seed, index),
            max_tokens: self.max_tokens,
            min_tokens: self.stopping.min_tokens.unwrap_or(0),
            stop_token_ids: self.stopping.stop_token_ids.clone(),
            ignore_eos: self.stopping.ignore_eos.unwrap_or(false),
            deadline_ms,
            priority: self.priority,
            speculation: self.speculation.map(Into::into),
            max_draft_tokens: self.max_draft_tokens,
            logprobs: self.output.logprobs,
            prompt_logprobs: self.prompt_logprobs(index),
            structured: self.structured.clone(),
            tenant: self.tenant.clone(),
            stop: self.stopping.stop.clone(),
            skip_special_tokens: self.output.skip_special_tokens,
            traceparent: None,
        }
    }

    /// Likeliest tokens that choice `index` reports with each token of the prompt: they are the same
    /// for every choice, so the first reports them.
    pub fn prompt_logprobs(&self, index: u32) -> Option<u32> {
        self.output.prompt_logprobs.filter(|_| index == 0)
    }

    /// Whose share of the workers it takes.
    pub fn share(&self) -> &str {
        self.tenant.as_deref().unwrap_or(&self.namespace)
    }

    /// About as many bytes as it holds.
    pub fn held_bytes(&self) -> usize {
        let ids = self.prompt_ids.len() + self.prediction_ids.as_ref().map_or(0, Vec::len);
        let structured = self.structured.as_ref().map_or(0, Message::encoded_len);
        size_of::<u32>() * ids
            + self.sampling.encoded_len()
            + self.stopping.encoded_len()
            + structured
    }

    /// Tokens that a worker needs to hold for one choice.
    pub fn needs_context(&self) -> u32 {
        (self.prompt_ids.len() as u32).saturating_add(self.max_tokens)
    }
}
