//! `GenerateOptions` and prompts as the public API's request.

use pyo3::prelude::*;
use pyo3::types::{PyBool, PyDict, PyMapping, PyString};
use spectrie_proto::v1;
use spectrie_proto::v1::generate_request::Prompt;
use spectrie_proto::v1::structured::Constraint;
use spectrie_request::Violation;
use spectrie_types::options::SamplingParameters;
use spectrie_types::{SpeculationMode, each_sampling_option};

use super::fields::{Count, Fields};

/// Options of which a request may set one.
const CONSTRAINTS: [&str; 5] = ["json_schema", "json_object", "regex", "grammar", "choice"];

/// A prompt in one of its three forms.
pub(super) struct GivenPrompt<'py> {
    pub(super) text: Option<Bound<'py, PyAny>>,
    pub(super) token_ids: Option<Bound<'py, PyAny>>,
    pub(super) messages: Option<Bound<'py, PyAny>>,
}

/// Reads a whole request; what has the wrong type is refused and left out.
pub(super) fn read_request<'py>(
    fields: &mut Fields<'_, 'py>,
    prompt: &GivenPrompt<'py>,
    num_choices: Option<&Bound<'py, PyAny>>,
) -> PyResult<v1::GenerateRequest> {
    let known = fields.violations.len();
    let prompt = read_prompt(fields, prompt);
    let prompt = if fields.violations.len() > known {
        // Refused above: nothing more is to be said of it.
        Some(Prompt::TokenIds(v1::TokenIds { ids: vec![0] }))
    } else {
        prompt
    };
    Ok(v1::GenerateRequest {
        request_id: fields.text("request_id"),
        model: fields.text("model"),
        prompt,
        sampling: Some(read_sampling(fields, num_choices)),
        stopping: Some(v1::Stopping {
            max_tokens: fields.integer("max_tokens"),
            min_tokens: fields.integer("min_tokens"),
            stop: fields.texts("stop"),
            stop_token_ids: match fields.get("stop_token_ids") {
                Some(ids) => fields.ids("stop_token_ids", &ids),
                None => Vec::new(),
            },
            ignore_eos: fields.flag("ignore_eos"),
        }),
        output: Some(v1::Output {
            token_ids: None,
            sources: fields.flag("sources"),
            skip_special_tokens: fields.flag("skip_special_tokens"),
            logprobs: fields.integer("logprobs"),
            prompt_logprobs: fields.integer("prompt_logprobs"),
        }),
        speculation: Some(v1::Speculation {
            prediction: read_prediction(fields)?,
            ..read_speculation(fields)?
        }),
        // An empty one is none, as ever.
        namespace: fields.text("namespace").filter(|name| !name.is_empty()),
        priority: fields.integer("priority"),
        structured: read_constraint(fields)?,
        cache_salt: fields.text("cache_salt"),
        prompt_cache_key: fields.text("prompt_cache_key"),
    })
}

fn read_prompt<'py>(fields: &mut Fields<'_, 'py>, given: &GivenPrompt<'py>) -> Option<Prompt> {
    match (&given.text, &given.token_ids, &given.messages) {
        (Some(text), None, None) => fields.text_of("prompt", text).map(Prompt::Text),
        (None, Some(ids), None) => {
            let ids = fields.ids("prompt_token_ids", ids);
            Some(Prompt::TokenIds(v1::TokenIds { ids }))
        }
        (None, None, Some(messages)) => {
            let messages = read_messages(fields, messages);
            Some(Prompt::Chat(v1::ChatPrompt {
                messages,
                ..Default::default()
            }))
        }
        _ => {
            let message = "give exactly one of prompt, prompt_token_ids and messages";
            fields.violations.push(Violation::new("prompt", message));
            None
        }
    }
}

fn read_messages<'py>(
    fields: &mut Fields<'_, 'py>,
    messages: &Bound<'py, PyAny>,
) -> Vec<v1::ChatMessage> {
    const ALLOWED: &str = "a list of {'role': ..., 'content': ...}";
    let (Ok(items), false) = (
        messages.try_iter(),
        messages.is_instance_of::<PyString>() || messages.is_instance_of::<PyDict>(),
    ) else {
        fields.refuse("messages", messages, ALLOWED);
        return Vec::new();
    };
    let mut read = Vec::new();
    for (index, item) in items.enumerate() {
        let Some(message) = item
            .ok()
            .and_then(|item| item.cast_into::<PyMapping>().ok())
        else {
            fields.refuse("messages", messages, ALLOWED);
            return Vec::new();
        };
        let mut part = |name: &str| {
            let value = message.get_item(name);
            let value = value.unwrap_or_else(|_| message.py().None().into_bound(message.py()));
            fields.text_of(&format!("messages[{index}].{name}"), &value)
        };
        let (role, content) = (part("role"), part("content"));
        read.push(v1::ChatMessage {
            role: role.unwrap_or_default(),
            content: content.unwrap_or_default(),
        });
    }
    read
}

macro_rules! sampling {
    ($fields:expr, $others:expr; $($field:ident: $type:ty,)+) => {
        v1::Sampling {
            $( $field: <$type as Number>::read($fields, stringify!($field)), )+
            ..$others
        }
    };
}

/// A number that an option takes.
trait Number: Sized {
    fn read(fields: &mut Fields<'_, '_>, name: &str) -> Option<Self>;
}

impl Number for f32 {
    fn read(fields: &mut Fields<'_, '_>, name: &str) -> Option<Self> {
        let number = fields.number(name)?;
        let mut rows = SamplingParameters::rows().iter();
        let row = rows.find(|row| row.field == name)?;
        let rounded = number as Self;
        match (row.refusal(number), row.allows(f64::from(rounded))) {
            // Rounding must not turn a bad number into a good one, nor a good one into a bad one.
            (Some(message), true) => {
                fields.violations.push(Violation::new(name, message));
                None
            }
            (None, false) => Some(Self::MIN_POSITIVE),
            _ => Some(rounded),
        }
    }
}

impl Number for u32 {
    fn read(fields: &mut Fields<'_, '_>, name: &str) -> Option<Self> {
        fields.integer(name).map(|Count(count)| count)
    }
}

fn read_sampling<'py>(
    fields: &mut Fields<'_, 'py>,
    num_choices: Option<&Bound<'py, PyAny>>,
) -> v1::Sampling {
    let others = v1::Sampling {
        seed: fields.integer("seed"),
        n: num_choices.and_then(|n| fields.integer_of("n", n)),
        logit_bias: read_logit_bias(fields).into_iter().collect(),
        bad_words: fields.texts("bad_words"),
        ..Default::default()
    };
    each_sampling_option!(sampling, fields, others)
}

fn read_logit_bias(fields: &mut Fields<'_, '_>) -> Vec<(u32, f32)> {
    let Some(value) = fields.get("logit_bias") else {
        return Vec::new();
    };
    let pairs = value.cast::<PyMapping>().ok();
    let pairs = pairs.and_then(|mapping| mapping.items().ok());
    let pairs = pairs.and_then(|items| items.extract::<Vec<(u32, f32)>>().ok());
    if pairs.is_none() {
        fields.refuse("logit_bias", &value, "numbers by token id");
    }
    pairs.unwrap_or_default()
}

fn read_prediction(fields: &mut Fields<'_, '_>) -> PyResult<Option<v1::Prediction>> {
    use v1::prediction::Content;
    let Some(mut given) = fields.get("prediction") else {
        return Ok(None);
    };
    let py = given.py();
    if given.is_instance(&py.import("pathlib")?.getattr("Path")?)? {
        match given.call_method1("read_text", ("utf-8",)) {
            Ok(text) => given = text,
            Err(error) => {
                let message = format!("{given}: {}", error.value(py));
                fields
                    .violations
                    .push(Violation::new("prediction", message));
                return Ok(None);
            }
        }
    }
    let content = match given.extract::<String>() {
        Ok(text) => Content::Text(text),
        Err(_) => Content::TokenIds(v1::TokenIds {
            ids: fields.ids("prediction", &given),
        }),
    };
    Ok(Some(v1::Prediction {
        content: Some(content),
    }))
}

fn read_speculation(fields: &mut Fields<'_, '_>) -> PyResult<v1::Speculation> {
    let mut speculation = v1::Speculation::default();
    let Some(given) = fields.get("speculation") else {
        return Ok(speculation);
    };
    if let Ok(enabled) = given.cast::<PyBool>() {
        speculation.enabled = Some(enabled.is_true());
        return Ok(speculation);
    }
    let kind = given
        .py()
        .import("spectrie.types")?
        .getattr("SpeculationOptions")?;
    if !given.is_instance(&kind)? {
        fields.refuse("speculation", &given, "True, False or SpeculationOptions");
        return Ok(speculation);
    }
    speculation.enabled = given.getattr("enabled")?.extract()?;
    speculation.learn = given.getattr("learn")?.extract()?;
    let cap = given.getattr("max_draft_tokens")?;
    if !cap.is_none() {
        speculation.max_draft_tokens = fields.integer_of("speculation.max_draft_tokens", &cap);
    }
    let mode = given.getattr("mode")?;
    if !mode.is_none() {
        let name = mode.extract::<String>().ok();
        if let Some(mode) = name.and_then(|name| name.parse::<SpeculationMode>().ok()) {
            speculation.mode = i32::from(mode.number());
        } else {
            let allowed = SpeculationMode::ALL.map(SpeculationMode::name).join(", ");
            fields.refuse("speculation.mode", &mode, &allowed);
        }
    }
    Ok(speculation)
}

/// The constraint on the answer, from the one option that gives it.
fn read_constraint(fields: &mut Fields<'_, '_>) -> PyResult<Option<v1::Structured>> {
    let mut given = Vec::new();
    for name in CONSTRAINTS {
        let value = fields.get(name);
        // `json_object=False` asks for nothing.
        let asks = |value: &Bound<'_, PyAny>| {
            name != "json_object" || !value.cast::<PyBool>().is_ok_and(|flag| !flag.is_true())
        };
        if let Some(value) = value.filter(asks) {
            given.push((name, value));
        }
    }
    let mut given = given.into_iter();
    let Some((name, value)) = given.next() else {
        return Ok(None);
    };
    for (other, _) in given {
        let all = CONSTRAINTS.join(", ");
        let message = format!("given together with {name}; allowed: one of {all}");
        fields.violations.push(Violation::new(other, message));
    }
    let constraint = match name {
        "json_schema" => read_schema(fields, &value)?.map(Constraint::JsonSchema),
        "json_object" => fields.flag(name).map(Constraint::JsonObject),
        "regex" => fields.text(name).map(Constraint::Regex),
        "grammar" => fields.text(name).map(Constraint::Grammar),
        _ => {
            let texts = value.extract::<Vec<String>>().unwrap_or_default();
            if texts.is_empty() {
                fields.refuse(name, &value, "a list of texts");
            }
            (!texts.is_empty()).then_some(Constraint::Choice(v1::Choices { texts }))
        }
    };
    Ok(constraint.map(|constraint| v1::Structured {
        constraint: Some(constraint),
    }))
}

/// A JSON schema, as text or as a mapping.
fn read_schema<'py>(
    fields: &mut Fields<'_, 'py>,
    value: &Bound<'py, PyAny>,
) -> PyResult<Option<String>> {
    let mut schema = value.extract::<String>().ok();
    if schema.is_none() && value.is_instance_of::<PyMapping>() {
        let py = value.py();
        let keywords = PyDict::new(py);
        keywords.set_item("ensure_ascii", false)?;
        let json = py.import("json")?.getattr("dumps")?;
        let text = json.call((value,), Some(&keywords));
        schema = text.and_then(|text| text.extract()).ok();
    }
    if schema.is_none() {
        fields.refuse("json_schema", value, "a schema as text or mapping");
    }
    Ok(schema)
}
