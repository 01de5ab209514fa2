//! A checked request with every number decided: nothing is left for a worker to default.

use std::sync::Arc;
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use spectrie_proto::validate::{self, Violation};
use spectrie_proto::{v1, worker_v1};

use super::convert::{sampling_parameters, speculation_mode, worker_structured};
use super::prompt;
use crate::error::{ErrorKind, RequestError};
use crate::workers::ServedModel;

/// Namespace of callers without one.
const DEFAULT_NAMESPACE: &str = "default";

/// Most log-probabilities of a prompt: about 7 MB as a message.
const MAX_PROMPT_LOGPROBS: usize = 1 << 18;

/// Everything that is the same for all choices of a request.
#[derive(Debug)]
pub(crate) struct Resolved {
    pub(crate) request_id: String,
    pub(crate) model: Arc<ServedModel>,
    pub(crate) prompt_ids: Vec<u32>,
    /// Tokens of the prediction, when the request has one.
    pub(crate) prediction_ids: Option<Vec<u32>>,
    pub(crate) sampling: worker_v1::SamplingParameters,
    pub(crate) seed: u64,
    pub(crate) num_choices: u32,
    pub(crate) max_tokens: u32,
    pub(crate) stopping: v1::Stopping,
    pub(crate) namespace: String,
    pub(crate) learn: bool,
    pub(crate) priority: i32,
    pub(crate) speculation: Option<worker_v1::SpeculationMode>,
    pub(crate) max_draft_tokens: Option<u32>,
    pub(crate) output: OutputWishes,
    pub(crate) structured: Option<worker_v1::Structured>,
    /// Whose share of the worker it uses; its namespace's when none.
    pub(crate) tenant: Option<String>,
    pub(crate) deadline: Instant,
    pub(crate) deadline_ms: i64,
}

/// What the answer carries.
#[derive(Clone, Copy, Debug)]
pub(crate) struct OutputWishes {
    pub(crate) token_ids: bool,
    pub(crate) sources: bool,
    pub(crate) skip_special_tokens: bool,
    /// How many of the likeliest tokens are told with each token.
    pub(crate) logprobs: Option<u32>,
    /// The same with each token of the prompt.
    pub(crate) prompt_logprobs: Option<u32>,
}

/// What a request is resolved against.
#[derive(Debug)]
pub(crate) struct Facts {
    pub(crate) request_id: String,
    pub(crate) model: Arc<ServedModel>,
    pub(crate) max_context: u32,
    pub(crate) tenant: Option<String>,
    pub(crate) allow_client_namespaces: bool,
    pub(crate) deadline: Instant,
}

/// Resolves a request that passed [`validate::check_request`].
///
/// # Errors
/// Token ids outside the vocabulary, a prompt that cannot be turned into tokens, a namespace that
/// the caller may not name, or a context that is too short.
pub(crate) async fn resolve(
    request: v1::GenerateRequest,
    facts: Facts,
) -> Result<Resolved, RequestError> {
    let Facts {
        request_id,
        model,
        max_context,
        tenant,
        allow_client_namespaces,
        deadline,
    } = facts;
    let violations = validate::check_token_ids(&request, model.vocabulary_size);
    if !violations.is_empty() {
        return Err(RequestError::invalid_fields(violations));
    }
    let namespace = resolve_namespace(request.namespace, tenant.clone(), allow_client_namespaces)?;
    let speculation = request.speculation.unwrap_or_default();
    let prediction = speculation
        .prediction
        .as_ref()
        .and_then(|guess| guess.content.clone());
    let prompt_ids = prompt::prompt_ids(&model, request.prompt).await?;
    let prediction_ids = match prediction {
        Some(content) => Some(prompt::prediction_ids(&model, content, max_context).await?),
        None => None,
    };
    let stopping = request.stopping.unwrap_or_default();
    let max_tokens = check_context(prompt_ids.len(), &stopping, max_context)?;
    let mut sampling = request.sampling.unwrap_or_default();
    let bad_words = std::mem::take(&mut sampling.bad_words);
    let bad_words = prompt::bad_word_ids(&model, bad_words).await?;
    let output = request.output.unwrap_or_default();
    check_prompt_logprobs(prompt_ids.len(), output.prompt_logprobs)?;
    Ok(Resolved {
        request_id,
        prompt_ids,
        prediction_ids,
        seed: sampling.seed.unwrap_or_else(rand::random),
        num_choices: sampling.n.unwrap_or(1),
        sampling: sampling_parameters(sampling, bad_words, &model),
        max_tokens,
        stopping,
        namespace,
        learn: speculation.learn.unwrap_or(true),
        priority: request.priority.unwrap_or(0),
        speculation: speculation_mode(&speculation),
        max_draft_tokens: speculation.max_draft_tokens,
        output: OutputWishes {
            token_ids: output.token_ids.unwrap_or(true),
            sources: output.sources.unwrap_or(false),
            skip_special_tokens: output.skip_special_tokens.unwrap_or(true),
            logprobs: output.logprobs,
            prompt_logprobs: output.prompt_logprobs,
        },
        structured: request.structured.map(worker_structured),
        tenant,
        deadline,
        deadline_ms: unix_ms(deadline),
        model,
    })
}

impl Resolved {
    /// Name of choice `index` between router and worker.
    pub(crate) fn wire_id(&self, index: u32) -> String {
        format!("{}.{index}", self.request_id)
    }

    /// The order that begins choice `index`.
    pub(crate) fn start(&self, index: u32, attempt: u32) -> worker_v1::Start {
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
            deadline_ms: Some(self.deadline_ms),
            priority: self.priority,
            speculation: self.speculation.map(Into::into),
            max_draft_tokens: self.max_draft_tokens,
            logprobs: self.output.logprobs,
            prompt_logprobs: self.prompt_logprobs(index),
            structured: self.structured.clone(),
            tenant: self.tenant.clone(),
        }
    }

    /// How many of the likeliest tokens choice `index` tells with each token of the prompt: they are
    /// the same for every choice, so the first tells them.
    pub(crate) fn prompt_logprobs(&self, index: u32) -> Option<u32> {
        self.output.prompt_logprobs.filter(|_| index == 0)
    }

    /// Tokens that a worker needs to hold for one choice.
    pub(crate) fn needs_context(&self) -> u32 {
        (self.prompt_ids.len() as u32).saturating_add(self.max_tokens)
    }
}

/// Seed of one choice: choice 0 has the request's own, so that `n` does not change it.
///
/// The same function as in the engine (its `noise.rs`): splitmix64's finalizer.
pub(crate) fn choice_seed(seed: u64, index: u32) -> u64 {
    if index == 0 {
        return seed;
    }
    let mut mixed = seed.wrapping_add(u64::from(index).wrapping_mul(0x9E37_79B9_7F4A_7C15));
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    mixed ^ (mixed >> 31)
}

/// The number of tokens to generate, once prompt and answer are known to fit.
fn check_context(
    num_prompt_tokens: usize,
    stopping: &v1::Stopping,
    max_context: u32,
) -> Result<u32, RequestError> {
    let prompt_tokens = u32::try_from(num_prompt_tokens).unwrap_or(u32::MAX);
    if prompt_tokens >= max_context {
        let most = max_context.saturating_sub(1);
        return Err(RequestError::context_length(
            "prompt",
            format!("given a prompt of {prompt_tokens} tokens, allowed 1 to {most}"),
        ));
    }
    let rest = max_context - prompt_tokens;
    let max_tokens = stopping.max_tokens.unwrap_or(rest);
    if max_tokens > rest {
        return Err(RequestError::context_length(
            "stopping.max_tokens",
            format!(
                "given {max_tokens} after a prompt of {prompt_tokens} tokens, allowed 1 to {rest} \
                 (the context is {max_context} tokens)"
            ),
        ));
    }
    let min_tokens = stopping.min_tokens.unwrap_or(0);
    if min_tokens > max_tokens {
        return Err(RequestError::invalid(
            "stopping.min_tokens",
            format!("given {min_tokens}, allowed up to {max_tokens}, the rest of the context"),
        ));
    }
    Ok(max_tokens)
}

/// The draft memory to use. One that a request names is within its tenant's own.
fn resolve_namespace(
    named: Option<String>,
    tenant: Option<String>,
    is_allowed: bool,
) -> Result<String, RequestError> {
    match (named, tenant) {
        (None, tenant) => Ok(tenant.unwrap_or_else(|| DEFAULT_NAMESPACE.into())),
        (Some(namespace), None) if is_allowed => Ok(namespace),
        (Some(namespace), Some(tenant)) if is_allowed => Ok(format!("{tenant}/{namespace}")),
        (Some(namespace), _) => {
            let message = "naming a namespace is not allowed, the server runs without \
                           --allow-client-namespaces";
            let violation = Violation {
                field: "namespace".into(),
                message: format!("given {namespace:?}, allowed only to be absent"),
            };
            Err(RequestError {
                violations: vec![violation],
                ..RequestError::new(ErrorKind::PermissionDenied, message)
            })
        }
    }
}

/// Refuses prompts whose log-probabilities would make a larger message than a stream carries.
fn check_prompt_logprobs(
    num_prompt_tokens: usize,
    num_top: Option<u32>,
) -> Result<(), RequestError> {
    let Some(num_top) = num_top else {
        return Ok(());
    };
    let num_values = num_prompt_tokens.saturating_mul(num_top as usize + 1);
    if num_values > MAX_PROMPT_LOGPROBS {
        let message = format!(
            "given {num_top} for a prompt of {num_prompt_tokens} tokens, allowed up to \
             {MAX_PROMPT_LOGPROBS} log-probabilities in all, one and {num_top} for each token"
        );
        return Err(RequestError::invalid("output.prompt_logprobs", message));
    }
    Ok(())
}

/// Unix time of a moment, in milliseconds.
fn unix_ms(moment: Instant) -> i64 {
    let left = moment.saturating_duration_since(Instant::now());
    let since = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default()
        + left;
    i64::try_from(since.as_millis()).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn first_choice_keeps_the_seed_and_others_are_mixed() {
        assert_eq!(choice_seed(7, 0), 7);
        let seeds: std::collections::BTreeSet<u64> = (0..8).map(|i| choice_seed(7, i)).collect();
        assert_eq!(seeds.len(), 8);
        // The first output of splitmix64 from state 0, as its reference code prints it.
        assert_eq!(choice_seed(0, 1), 0xE220_A839_7B1D_CDAF);
    }

    #[test]
    fn absent_max_tokens_is_the_rest_of_the_context() {
        let none = v1::Stopping::default();
        assert_eq!(check_context(10, &none, 100).unwrap(), 90);
        let error = check_context(100, &none, 100).unwrap_err();
        assert_eq!(
            (error.kind, error.field()),
            (ErrorKind::ContextLength, Some("prompt"))
        );
        let many = v1::Stopping {
            max_tokens: Some(91),
            ..Default::default()
        };
        let error = check_context(10, &many, 100).unwrap_err();
        assert_eq!(error.field(), Some("stopping.max_tokens"));
        assert!(error.message.contains("given 91") && error.message.contains("1 to 90"));
    }

    #[test]
    fn namespace_stays_within_its_tenant() {
        let resolve = |named: Option<&str>, tenant: Option<&str>, is_allowed| {
            resolve_namespace(named.map(Into::into), tenant.map(Into::into), is_allowed)
                .map_err(|error| error.kind)
        };
        assert_eq!(resolve(None, None, false), Ok("default".into()));
        assert_eq!(resolve(None, Some("ann"), true), Ok("ann".into()));
        assert_eq!(
            resolve(Some("bob"), Some("ann"), true),
            Ok("ann/bob".into())
        );
        assert_eq!(resolve(Some("bob"), None, true), Ok("bob".into()));
        assert_eq!(
            resolve(Some("bob"), None, false),
            Err(ErrorKind::PermissionDenied)
        );
    }
}
