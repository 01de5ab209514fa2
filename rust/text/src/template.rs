//! Rendering of messages to a prompt by the model's Jinja template, as `transformers` does it.

use crate::error::TextError;
use crate::{clock, json};
use minijinja::syntax::SyntaxConfig;
use minijinja::value::{Kwargs, Serde, Value, ValueKind};
use minijinja::{Environment, Error, ErrorKind, Output, State, escape_formatter};
use serde::Serialize;
use std::collections::BTreeMap;
use std::time::{SystemTime, UNIX_EPOCH};

/// Instructions that one rendering may take; a message of a plain template takes about fifty.
const FUEL: u64 = 20_000_000;
const NAME: &str = "chat";
/// Marks the error of `raise_exception` among others of its kind.
const REFUSAL: &str = "refused by the template: ";

/// Inputs of a template beside the messages.
#[derive(Debug, Clone)]
pub struct TemplateOptions {
    /// Ends the prompt with the start of the assistant's answer. Default true.
    pub add_generation_prompt: bool,
    /// The tools the model may call, in OpenAI's shape. Default none.
    pub tools: Option<serde_json::Value>,
    /// Further variables of the template, such as `enable_thinking`. Default none.
    pub variables: BTreeMap<String, serde_json::Value>,
}

impl Default for TemplateOptions {
    fn default() -> Self {
        Self {
            add_generation_prompt: true,
            tools: None,
            variables: BTreeMap::new(),
        }
    }
}

/// A model's chat template.
#[derive(Debug)]
pub struct ChatTemplate {
    environment: Environment<'static>,
    special_tokens: BTreeMap<String, String>,
}

impl ChatTemplate {
    /// Parses the source of a template.
    ///
    /// `special_tokens` are variables such as `bos_token`, by name.
    ///
    /// # Errors
    /// [`TextError::InvalidTemplate`] if it is not valid Jinja.
    pub fn new(source: &str, special_tokens: BTreeMap<String, String>) -> Result<Self, TextError> {
        let invalid = |source| TextError::InvalidTemplate { source };
        let mut environment = Environment::new();
        let syntax = SyntaxConfig::builder()
            .trim_blocks(true)
            .lstrip_blocks(true)
            .build()
            .map_err(invalid)?;
        environment.set_syntax(syntax);
        environment.set_fuel(Some(FUEL));
        environment.set_auto_escape_callback(|_| minijinja::AutoEscape::None);
        environment
            .set_unknown_method_callback(minijinja_contrib::pycompat::unknown_method_callback);
        environment.set_formatter(python_format);
        environment.add_filter("tojson", to_json);
        environment.add_function("raise_exception", raise_exception);
        environment.add_function("strftime_now", strftime_now);
        environment
            .add_template_owned(NAME, without_generation_tags(source))
            .map_err(invalid)?;
        Ok(Self {
            environment,
            special_tokens,
        })
    }

    /// Renders `messages`, a list of maps with `role` and `content`, to a prompt.
    ///
    /// # Errors
    /// [`TextError::TemplateRefused`] if the template raises an exception,
    /// [`TextError::TemplateEndless`] if it exceeds the instruction limit,
    /// [`TextError::TemplateFailed`] for any other failure.
    pub fn render<M: Serialize>(
        &self,
        messages: &M,
        options: &TemplateOptions,
    ) -> Result<String, TextError> {
        let mut context: BTreeMap<&str, Value> = BTreeMap::new();
        for (name, token) in &self.special_tokens {
            context.insert(name, Value::from(token.as_str()));
        }
        for (name, value) in &options.variables {
            context.insert(name, Value::from(Serde(value)));
        }
        context.insert("messages", Value::from(Serde(messages)));
        // `tools is not none` and `tools is defined` both occur; transformers passes None.
        context.insert("tools", Value::from(Serde(&options.tools)));
        context.insert("documents", Value::from(()));
        context.insert(
            "add_generation_prompt",
            Value::from(options.add_generation_prompt),
        );
        self.environment
            .get_template(NAME)
            .and_then(|template| template.render(context))
            .map_err(explain)
    }
}

fn explain(source: Error) -> TextError {
    let mut cause = &source;
    loop {
        if let Some(message) = cause.detail().and_then(|text| text.strip_prefix(REFUSAL)) {
            return TextError::TemplateRefused {
                message: message.to_owned(),
            };
        }
        if cause.kind() == ErrorKind::OutOfFuel {
            return TextError::TemplateEndless { limit: FUEL };
        }
        match std::error::Error::source(cause).and_then(|inner| inner.downcast_ref::<Error>()) {
            Some(inner) => cause = inner,
            None => return TextError::TemplateFailed { source },
        }
    }
}

/// `{% generation %}` marks the assistant's words for training; it adds nothing to the text.
fn without_generation_tags(source: &str) -> String {
    let mut out = String::with_capacity(source.len());
    let mut rest = source;
    while let Some(start) = rest.find("{%") {
        // Behind the tag's beginning: `{%}` is no tag.
        let Some(length) = rest[start + 2..].find("%}") else {
            break;
        };
        let (inside, tag) = (
            &rest[start + 2..][..length],
            &rest[start..start + length + 4],
        );
        let replaced = match inside.trim_matches(['-', '+']).trim() {
            "generation" => tag.replacen("generation", "if true", 1),
            "endgeneration" => tag.replacen("endgeneration", "endif", 1),
            _ => tag.to_owned(),
        };
        out.push_str(&rest[..start]);
        out.push_str(&replaced);
        rest = &rest[start + length + 4..];
    }
    out + rest
}

/// Prints `None`, `True` and `False` as Python does.
fn python_format(
    out: &mut Output<'_>,
    state: &mut State<'_, '_>,
    value: &Value,
) -> Result<(), Error> {
    match value.kind() {
        ValueKind::None => out.write_str("None").map_err(Error::from),
        ValueKind::Bool if value.is_true() => out.write_str("True").map_err(Error::from),
        ValueKind::Bool => out.write_str("False").map_err(Error::from),
        _ => escape_formatter(out, state, value),
    }
}

#[allow(clippy::needless_pass_by_value)] // the shape of a filter
fn to_json(value: &Value, options: Kwargs) -> Result<String, Error> {
    let indent: Option<usize> = options.get("indent")?;
    let ascii: Option<bool> = options.get("ensure_ascii")?;
    options.assert_all_used()?;
    if ascii == Some(true) {
        return Err(Error::new(
            ErrorKind::InvalidOperation,
            "tojson with ensure_ascii=true is not supported",
        ));
    }
    json::to_python_json(value, indent).map_err(|source| {
        Error::new(ErrorKind::BadSerialization, "cannot write as JSON").with_source(source)
    })
}

fn raise_exception(message: &str) -> Result<Value, Error> {
    Err(Error::new(
        ErrorKind::InvalidOperation,
        format!("{REFUSAL}{message}"),
    ))
}

fn strftime_now(pattern: &str) -> String {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    let seconds = now.map_or(0, |elapsed| elapsed.as_secs());
    clock::format(i64::try_from(seconds).unwrap_or(i64::MAX), pattern)
}
