//! The options that both endpoints share: sampling, stopping and drafting.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;
use spectrie_proto::v1;
use spectrie_types::each_sampling_option;
use spectrie_types::options::{OptionRow, SamplingParameters};

use super::api_request::Endpoint;
use super::fields::{Field, Fields, to_f32, to_strings, wrong};
use crate::http::error::HttpError;

const MODES: &str = "\"auto\", \"off\", \"bfs\", \"prob\", \"tiers\", \"eagle2\" or \"chain\"";

macro_rules! sampling {
    ($body:expr, $others:expr; $($field:ident: $type:ty,)+) => {
        v1::Sampling {
            $( $field: <$type as Number>::take($body, stringify!($field))?, )+
            ..$others
        }
    };
}

/// A number that a field of the body takes.
trait Number: Sized {
    fn take(body: &mut Fields, name: &str) -> Field<Option<Self>>;
}

impl Number for f32 {
    fn take(body: &mut Fields, name: &str) -> Field<Option<Self>> {
        let range = range(name);
        let from = if range.starts_with("above") {
            ""
        } else {
            "from "
        };
        body.take_f32(name, &format!("a number {from}{range}"))
    }
}

impl Number for u32 {
    fn take(body: &mut Fields, name: &str) -> Field<Option<Self>> {
        body.take_u32(name, &format!("an integer, {}", range(name)))
    }
}

/// The range that the table of options allows.
fn range(name: &str) -> String {
    let mut rows = SamplingParameters::rows().iter();
    let row = rows.find(|row| row.field == name);
    row.map(OptionRow::allowed).unwrap_or_default()
}

/// Reads how each token is drawn.
///
/// # Errors
/// A field of the wrong type; ranges are the validator's.
pub(super) fn take_sampling(body: &mut Fields) -> Field<v1::Sampling> {
    let others = v1::Sampling {
        seed: body.take_seed("seed")?,
        n: body.take_u32("n", "an integer from 1 to 8")?,
        logit_bias: take_logit_bias(body)?,
        bad_words: take_bad_words(body)?,
        ..Default::default()
    };
    Ok(each_sampling_option!(sampling, body, others))
}

fn take_bad_words(body: &mut Fields) -> Field<Vec<String>> {
    match body.take("bad_words") {
        None => Ok(Vec::new()),
        Some(Value::Array(items)) => to_strings("bad_words", items),
        Some(other) => Err(wrong("bad_words", &other, "a list of strings")),
    }
}

/// Reads what the answer carries beside text, and whether token ids are part of it.
///
/// # Errors
/// A field of the wrong type; `top_logprobs` without `logprobs`.
pub(super) fn take_output(body: &mut Fields, endpoint: Endpoint) -> Field<v1::Output> {
    Ok(v1::Output {
        token_ids: Some(body.take_bool("return_token_ids")?.unwrap_or(false)),
        sources: None,
        skip_special_tokens: body.take_bool("skip_special_tokens")?,
        logprobs: match endpoint {
            Endpoint::Chat => take_chat_logprobs(body)?,
            Endpoint::Completions => take_count(body, "logprobs")?,
        },
        prompt_logprobs: take_count(body, "prompt_logprobs")?,
    })
}

/// How many alternatives a chat asks for with each token.
fn take_chat_logprobs(body: &mut Fields) -> Field<Option<u32>> {
    let wanted = body.take_bool("logprobs")?.unwrap_or(false);
    let num_top = take_count(body, "top_logprobs")?;
    match num_top {
        Some(num_top) if num_top > 0 && !wanted => Err(HttpError::invalid(
            "top_logprobs",
            format!("top_logprobs: given {num_top} without logprobs; allowed: with logprobs true"),
        )),
        num_top => Ok(wanted.then(|| num_top.unwrap_or(0))),
    }
}

/// Reads a number of alternatives; `false`, which some clients send, asks for nothing.
fn take_count(body: &mut Fields, name: &str) -> Field<Option<u32>> {
    const ALLOWED: &str = "an integer from 0 to 20";
    if body.is_false(name) {
        body.take(name);
        return Ok(None);
    }
    body.take_u32(name, ALLOWED)
}

fn take_logit_bias(body: &mut Fields) -> Field<BTreeMap<u32, f32>> {
    const ALLOWED: &str = "an object from token ids to numbers from -100 to 100";
    let map = match body.take("logit_bias") {
        None => return Ok(BTreeMap::new()),
        Some(Value::Object(map)) => map,
        Some(other) => return Err(wrong("logit_bias", &other, ALLOWED)),
    };
    let entries = map.into_iter();
    entries
        .map(|(key, value)| {
            let token = key.parse::<u32>().map_err(|_| {
                HttpError::invalid(
                    "logit_bias",
                    format!("logit_bias: given the key {key:?}; allowed: {ALLOWED}"),
                )
            })?;
            let bias = to_f32(
                &format!("logit_bias.{key}"),
                &value,
                "a number from -100 to 100",
            )?;
            Ok((token, bias))
        })
        .collect()
}

/// When a completion ends, and the name the client gave to its length.
pub(super) struct Stops {
    pub(super) stopping: v1::Stopping,
    pub(super) max_tokens_name: &'static str,
}

/// Reads when a completion ends. `default_max_tokens` replaces an absent length.
///
/// # Errors
/// A field of the wrong type; `max_tokens` and `max_completion_tokens` that disagree.
pub(super) fn take_stopping(body: &mut Fields, default_max_tokens: Option<u32>) -> Field<Stops> {
    const COUNT: &str = "an integer, 1 or more";
    let max_tokens = body.take_u32("max_tokens", COUNT)?;
    let max_completion_tokens = body.take_u32("max_completion_tokens", COUNT)?;
    if let (Some(old), Some(new)) = (max_tokens, max_completion_tokens)
        && old != new
    {
        return Err(HttpError::invalid(
            "max_completion_tokens",
            format!(
                "max_completion_tokens: given {new} together with max_tokens {old}; allowed: one of them"
            ),
        ));
    }
    let stopping = v1::Stopping {
        max_tokens: max_completion_tokens.or(max_tokens).or(default_max_tokens),
        min_tokens: body.take_u32("min_tokens", "an integer, 0 or more")?,
        stop: take_stop(body)?,
        stop_token_ids: body.take_token_ids("stop_token_ids")?.unwrap_or_default(),
        ignore_eos: body.take_bool("ignore_eos")?,
    };
    Ok(Stops {
        stopping,
        max_tokens_name: if max_completion_tokens.is_some() {
            "max_completion_tokens"
        } else {
            "max_tokens"
        },
    })
}

fn take_stop(body: &mut Fields) -> Field<Vec<String>> {
    let items = match body.take("stop") {
        None => return Ok(Vec::new()),
        Some(Value::String(text)) => return Ok(vec![text]),
        Some(Value::Array(items)) => items,
        Some(other) => return Err(wrong("stop", &other, "a string or a list of strings")),
    };
    to_strings("stop", items)
}

/// Reads `speculation {enabled, max_draft_tokens, mode, learn}`; `None` when absent.
///
/// # Errors
/// A field of the wrong type, or an unknown mode.
pub(super) fn take_speculation(
    body: &mut Fields,
    ignored: &mut BTreeSet<String>,
) -> Field<Option<v1::Speculation>> {
    let Some(mut fields) = body.take_object("speculation")? else {
        return Ok(None);
    };
    let mode = match fields.take_string("mode", MODES)?.as_deref() {
        None => v1::SpeculationMode::Unspecified,
        Some("auto") => v1::SpeculationMode::Auto,
        Some("off") => v1::SpeculationMode::Off,
        Some("bfs") => v1::SpeculationMode::Bfs,
        Some("prob") => v1::SpeculationMode::Prob,
        Some("tiers") => v1::SpeculationMode::Tiers,
        Some("eagle2") => v1::SpeculationMode::Eagle2,
        Some("chain") => v1::SpeculationMode::Chain,
        Some(other) => {
            let given = Value::String(other.to_owned());
            return Err(wrong("speculation.mode", &given, MODES));
        }
    };
    let speculation = v1::Speculation {
        enabled: fields.take_bool("enabled")?,
        max_draft_tokens: fields.take_u32("max_draft_tokens", "an integer from 0 to 63")?,
        mode: mode.into(),
        learn: fields.take_bool("learn")?,
        prediction: None,
    };
    ignored.extend(fields.rest());
    Ok(Some(speculation))
}
