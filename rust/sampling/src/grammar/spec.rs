//! What a caller may hold an answer to.

use llguidance::api::TopLevelGrammar;
use serde_json::{Value, json};
use spectrie_types::limits::{MAX_STRUCTURED_BYTES, MAX_STRUCTURED_CHOICES};

use crate::error::SamplingError;

/// A constraint as the caller writes it.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum GrammarSpec {
    /// A JSON document that a JSON schema, given as text, allows.
    ///
    /// It is written on one line, with one space after each comma and colon, its keys in the order
    /// of `properties`. An object `x-guidance` at the top of the schema sets that otherwise.
    /// `oneOf` is read as `anyOf`; other keywords that cannot be kept are refused.
    JsonSchema(String),
    /// Any JSON object.
    JsonObject,
    /// A text that a regular expression in the syntax of the `regex` crate matches as a whole.
    Regex(String),
    /// A text of a grammar in the dialect of Lark that `llguidance` reads. A special token of the
    /// model is written `<|name|>`.
    Lark(String),
    /// One of these texts.
    Choice(Vec<String>),
}

impl GrammarSpec {
    /// The constraint of a kind by its name: `json_schema`, `json_object`, `regex`, `grammar` or
    /// `choice`. Only `choice` takes any number of `texts`; `json_object` takes none, the others
    /// one.
    ///
    /// # Errors
    /// [`SamplingError::Config`] for another name or number of texts.
    pub fn parse(kind: &str, mut texts: Vec<String>) -> Result<Self, SamplingError> {
        let one = |texts: &mut Vec<String>| match (texts.pop(), texts.is_empty()) {
            (Some(text), true) => Ok(text),
            _ => Err(SamplingError::Config {
                name: "texts of a constraint",
                given: "none or several".into(),
                allowed: "one, but for choice and json_object".into(),
            }),
        };
        match kind {
            "json_schema" => Ok(Self::JsonSchema(one(&mut texts)?)),
            "json_object" if texts.is_empty() => Ok(Self::JsonObject),
            "regex" => Ok(Self::Regex(one(&mut texts)?)),
            "grammar" => Ok(Self::Lark(one(&mut texts)?)),
            "choice" => Ok(Self::Choice(texts)),
            _ => Err(SamplingError::Config {
                name: "kind of a constraint",
                given: format!("{kind:?} with {} texts", texts.len()),
                allowed: "json_schema, json_object (no text), regex, grammar, choice".into(),
            }),
        }
    }

    /// The name that callers know it by.
    pub fn name(&self) -> &'static str {
        match self {
            Self::JsonSchema(_) => "json_schema",
            Self::JsonObject => "json_object",
            Self::Regex(_) => "regex",
            Self::Lark(_) => "grammar",
            Self::Choice(_) => "choice",
        }
    }

    /// Bytes of its texts.
    pub(super) fn num_bytes(&self) -> usize {
        match self {
            Self::JsonObject => 0,
            Self::JsonSchema(text) | Self::Regex(text) | Self::Lark(text) => text.len(),
            Self::Choice(texts) => texts.iter().map(String::len).sum(),
        }
    }

    /// Checks what can be checked without compiling.
    pub(super) fn check(&self) -> Result<(), SamplingError> {
        if let Self::Choice(texts) = self {
            if texts.is_empty() || texts.len() > MAX_STRUCTURED_CHOICES {
                return Err(SamplingError::Config {
                    name: self.name(),
                    given: format!("{} texts", texts.len()),
                    allowed: format!("1 to {MAX_STRUCTURED_CHOICES}"),
                });
            }
            if texts.iter().any(String::is_empty) {
                return Err(SamplingError::Config {
                    name: self.name(),
                    given: "an empty text".into(),
                    allowed: "texts of at least one character".into(),
                });
            }
        }
        let bytes = self.num_bytes();
        if bytes > MAX_STRUCTURED_BYTES {
            return Err(SamplingError::Config {
                name: self.name(),
                given: format!("{bytes} bytes"),
                allowed: format!("at most {MAX_STRUCTURED_BYTES}"),
            });
        }
        Ok(())
    }

    /// The grammar in the library's words.
    pub(super) fn read(&self) -> Result<TopLevelGrammar, String> {
        match self {
            Self::JsonSchema(text) => {
                let schema: Value =
                    serde_json::from_str(text).map_err(|error| format!("not JSON: {error}"))?;
                json_grammar(schema)
            }
            Self::JsonObject => json_grammar(json!({"type": "object"})),
            Self::Regex(text) => Ok(TopLevelGrammar::from_regex(text)),
            Self::Lark(text) => Ok(TopLevelGrammar::from_lark(text.clone())),
            Self::Choice(texts) => {
                let literals: Vec<String> = texts.iter().map(|text| literal(text)).collect();
                // One terminal of alternatives: thousands of rules would exceed the parser's limit.
                let alternatives = literals.join(" | ");
                let grammar = format!("start: TEXT\nTEXT: {alternatives}\n");
                Ok(TopLevelGrammar::from_lark(grammar))
            }
        }
    }
}

fn json_grammar(mut schema: Value) -> Result<TopLevelGrammar, String> {
    let Some(fields) = schema.as_object_mut() else {
        return Err(format!("the schema is {schema}; it must be a JSON object"));
    };
    // Free white space would let a model write it endlessly, and would force far fewer tokens.
    fields.entry("x-guidance").or_insert_with(|| {
        json!({
            "whitespace_flexible": false,
            "item_separator": ", ",
            "key_separator": ": ",
            "coerce_one_of": true,
        })
    });
    Ok(TopLevelGrammar::from_json_schema(schema))
}

/// A text as a literal of Lark, which is one of JSON without the raw delete character.
fn literal(text: &str) -> String {
    Value::from(text).to_string().replace('\u{7f}', "\\u007f")
}
