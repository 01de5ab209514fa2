//! Structured output: OpenAI's `response_format`, and vLLM's `structured_outputs`.

use std::collections::BTreeSet;

use serde_json::Value;
use spectrie_proto::v1;
use spectrie_proto::v1::structured::Constraint;

use super::fields::{Field, Fields, absent, to_strings, wrong};
use crate::http::error::HttpError;

const FORMATS: &str = "\"text\", \"json_object\" or \"json_schema\"";
const KINDS: &str = "one of json, json_object, regex, grammar and choice";

/// Where a request writes its schema, for errors.
pub(super) const RESPONSE_FORMAT_SCHEMA: &str = "response_format.json_schema.schema";
/// The other place.
pub(super) const STRUCTURED_OUTPUTS_SCHEMA: &str = "structured_outputs.json";

/// Reads the form of the answer; `None` when any will do. Beside it is the name of the schema's
/// field in this request.
///
/// # Errors
/// A field of the wrong type, an unknown format, no constraint or more than one.
pub(super) fn take_structured(
    body: &mut Fields,
    ignored: &mut BTreeSet<String>,
) -> Field<(Option<v1::Structured>, &'static str)> {
    let format = take_response_format(body, ignored)?;
    let outputs = take_structured_outputs(body, ignored)?;
    let (constraint, schema) = match (format, outputs) {
        (Some(_), Some(_)) => {
            return Err(HttpError::invalid(
                "structured_outputs",
                "structured_outputs: given together with response_format; allowed: one of them",
            ));
        }
        (Some(constraint), None) => (Some(constraint), RESPONSE_FORMAT_SCHEMA),
        (None, constraint) => (constraint, STRUCTURED_OUTPUTS_SCHEMA),
    };
    let structured = constraint.map(|constraint| v1::Structured {
        constraint: Some(constraint),
    });
    Ok((structured, schema))
}

fn take_response_format(
    body: &mut Fields,
    ignored: &mut BTreeSet<String>,
) -> Field<Option<Constraint>> {
    let Some(mut format) = body.take_object("response_format")? else {
        return Ok(None);
    };
    let kind = format.take_string("type", FORMATS)?;
    let constraint = match kind.as_deref() {
        None => return Err(absent("response_format.type", FORMATS)),
        Some("text") => None,
        Some("json_object") => Some(Constraint::JsonObject(true)),
        Some("json_schema") => Some(take_json_schema(&mut format, ignored)?),
        Some(other) => {
            let given = Value::String(other.to_owned());
            return Err(wrong("response_format.type", &given, FORMATS));
        }
    };
    ignored.extend(format.rest());
    Ok(constraint)
}

/// The schema holds whether or not the request says `strict`.
fn take_json_schema(format: &mut Fields, ignored: &mut BTreeSet<String>) -> Field<Constraint> {
    const ALLOWED: &str = "an object with a schema";
    let Some(mut fields) = format.take_object("json_schema")? else {
        return Err(absent("response_format.json_schema", ALLOWED));
    };
    fields.take_string("name", "a string")?;
    fields.take_string("description", "a string")?;
    fields.take_bool("strict")?;
    let schema = match fields.take("schema") {
        None => return Err(absent(RESPONSE_FORMAT_SCHEMA, "a JSON schema")),
        Some(schema @ (Value::Object(_) | Value::Bool(_))) => schema,
        Some(other) => return Err(wrong(RESPONSE_FORMAT_SCHEMA, &other, "a JSON schema")),
    };
    ignored.extend(fields.rest());
    Ok(Constraint::JsonSchema(schema.to_string()))
}

fn take_structured_outputs(
    body: &mut Fields,
    ignored: &mut BTreeSet<String>,
) -> Field<Option<Constraint>> {
    let Some(mut fields) = body.take_object("structured_outputs")? else {
        return Ok(None);
    };
    if fields.has("structural_tag") {
        return Err(HttpError::unsupported(
            "structured_outputs.structural_tag",
            "structured_outputs.structural_tag: structural tags are not supported: leave them out",
        ));
    }
    let mut given = Vec::new();
    match fields.take("json") {
        None => {}
        Some(Value::String(schema)) => given.push(Constraint::JsonSchema(schema)),
        Some(schema @ (Value::Object(_) | Value::Bool(_))) => {
            given.push(Constraint::JsonSchema(schema.to_string()));
        }
        Some(other) => return Err(wrong(STRUCTURED_OUTPUTS_SCHEMA, &other, "a JSON schema")),
    }
    if fields.take_bool("json_object")? == Some(true) {
        given.push(Constraint::JsonObject(true));
    }
    let regex = fields.take_string("regex", "a regular expression")?;
    given.extend(regex.map(Constraint::Regex));
    let grammar = fields.take_string("grammar", "a grammar in Lark's form")?;
    given.extend(grammar.map(Constraint::Grammar));
    match fields.take("choice") {
        None => {}
        Some(Value::Array(items)) => {
            let texts = to_strings("structured_outputs.choice", items)?;
            given.push(Constraint::Choice(v1::Choices { texts }));
        }
        Some(other) => {
            return Err(wrong(
                "structured_outputs.choice",
                &other,
                "a list of strings",
            ));
        }
    }
    ignored.extend(fields.rest());
    let count = given.len();
    let Some(constraint) = given.pop().filter(|_| count == 1) else {
        return Err(HttpError::invalid(
            "structured_outputs",
            format!("structured_outputs: given {count} constraints; allowed: {KINDS}"),
        ));
    };
    Ok(Some(constraint))
}
