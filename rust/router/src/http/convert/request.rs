//! From an OpenAI request body to requests for the core.

use std::collections::BTreeSet;

use serde_json::Value;
use spectrie_proto::v1;
use spectrie_proto::v1::generate_request::Prompt;
use spectrie_request::resolve::held_bytes;

use super::api_request::{ApiRequest, Endpoint, Extras, Names};
use super::fields::{Field, Fields};
use super::options::{take_output, take_sampling, take_speculation, take_stopping};
use super::prompt::{take_chat_prompt, take_prediction, take_prompts};
use super::structured::take_structured;
use super::unsupported::take_unsupported;
use crate::http::error::HttpError;

/// OpenAI's default length of `/v1/completions`.
const COMPLETIONS_MAX_TOKENS: u32 = 16;
/// What several prompts may share, in bytes, counted for each: every one is a request with all of it.
const MAX_SHARED_BYTES: usize = 16 << 20;

/// Converts a JSON body.
///
/// # Errors
/// The first field that is wrong or not supported.
pub(crate) fn convert(endpoint: Endpoint, body: Value) -> Field<ApiRequest> {
    let mut body = Fields::from_value("", body)?;
    let mut ignored = BTreeSet::new();
    let model = body.take_string("model", "the name of a served model")?;
    let request_id = body.take_string("request_id", "a string")?;
    let gives_token_ids = body.has("prompt_token_ids");
    let (prompts, prompt_name, default_max_tokens) = match endpoint {
        Endpoint::Chat => {
            let prompt = take_chat_prompt(&mut body, &mut ignored)?;
            (vec![prompt], "messages", None)
        }
        Endpoint::Completions => (
            take_prompts(&mut body)?,
            "prompt",
            Some(COMPLETIONS_MAX_TOKENS),
        ),
    };
    let prediction = take_prediction(&mut body, &mut ignored)?;
    let sampling = take_sampling(&mut body)?;
    let stops = take_stopping(&mut body, default_max_tokens)?;
    let speculation = take_speculation(&mut body, &mut ignored)?;
    let stream = body.take_bool("stream")?.unwrap_or(false);
    let include_usage = take_include_usage(&mut body, &mut ignored)?;
    let output = take_output(&mut body, endpoint)?;
    let (structured, schema_name) = take_structured(&mut body, &mut ignored)?;
    let namespace = body.take_string("namespace", "a string")?;
    let priority = body.take_i32("priority")?;
    let cache_salt = body.take_string("cache_salt", "a string")?;
    let prompt_cache_key = body.take_string("prompt_cache_key", "a string")?;
    take_unsupported(&mut body, endpoint == Endpoint::Completions)?;
    ignored.extend(body.rest());

    let report_speculation = speculation.is_some();
    let template = v1::GenerateRequest {
        request_id: None,
        model,
        prompt: None,
        sampling: Some(sampling),
        stopping: Some(stops.stopping),
        output: Some(output),
        speculation: match (speculation, prediction) {
            (None, None) => None,
            (speculation, prediction) => Some(v1::Speculation {
                prediction,
                ..speculation.unwrap_or_default()
            }),
        },
        namespace,
        priority,
        structured,
        cache_salt,
        prompt_cache_key,
    };
    let choices_per_prompt = sampling_n(&template);
    let num_prompts = u32::try_from(prompts.len()).unwrap_or(u32::MAX);
    Ok(ApiRequest {
        endpoint,
        request_id,
        choices_per_prompt,
        num_choices: num_prompts.saturating_mul(choices_per_prompt),
        requests: fan_out(&template, prompts, prompt_name)?,
        stream,
        extras: Extras {
            include_usage,
            return_token_ids: output.token_ids == Some(true),
            logprobs: output.logprobs.is_some(),
            shows_special: output.skip_special_tokens == Some(false),
            report_speculation,
        },
        ignored: ignored.into_iter().collect(),
        names: Names {
            max_tokens: stops.max_tokens_name,
            prompt: if gives_token_ids {
                "prompt_token_ids"
            } else {
                prompt_name
            },
            logprobs: match endpoint {
                Endpoint::Chat => "top_logprobs",
                Endpoint::Completions => "logprobs",
            },
            schema: schema_name,
        },
    })
}

fn sampling_n(request: &v1::GenerateRequest) -> u32 {
    let sampling = request.sampling.as_ref();
    sampling.and_then(|sampling| sampling.n).unwrap_or(1)
}

/// One request per prompt, each with all that the prompts share.
fn fan_out(
    template: &v1::GenerateRequest,
    prompts: Vec<Prompt>,
    prompt_name: &'static str,
) -> Field<Vec<v1::GenerateRequest>> {
    let (num_prompts, num_bytes) = (prompts.len(), held_bytes(template));
    if num_prompts > 1 && num_bytes.saturating_mul(num_prompts) > MAX_SHARED_BYTES {
        return Err(HttpError::invalid(
            prompt_name,
            format!(
                "{prompt_name}: given {num_prompts} prompts that share {num_bytes} bytes of other fields; \
                 allowed: up to {MAX_SHARED_BYTES} bytes over all prompts"
            ),
        ));
    }
    let prompts = prompts.into_iter();
    let requests = prompts.map(|prompt| v1::GenerateRequest {
        prompt: Some(prompt),
        ..template.clone()
    });
    Ok(requests.collect())
}

/// Reads `stream_options`. Usage is always part of a whole answer, so the option is no error
/// without `stream`.
fn take_include_usage(body: &mut Fields, ignored: &mut BTreeSet<String>) -> Field<bool> {
    let Some(mut options) = body.take_object("stream_options")? else {
        return Ok(false);
    };
    let include_usage = options.take_bool("include_usage")?.unwrap_or(false);
    // Padding against traffic analysis: OpenAI's clients may ask for none, which is what they get.
    options.take("include_obfuscation");
    ignored.extend(options.rest());
    Ok(include_usage)
}
