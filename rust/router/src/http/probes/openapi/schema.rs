//! Words of JSON Schema that the document is made of.

use serde_json::{Map, Value, json};
use spectrie_types::options::{OptionRow, Range};

/// Named schemas of an object's fields, in order.
pub(super) type Properties = Map<String, Value>;

/// A reference to a schema of the document.
pub(super) fn of(name: &str) -> Value {
    json!({"$ref": format!("#/components/schemas/{name}")})
}

/// `schema` with a sentence about it.
pub(super) fn about(mut schema: Value, text: &str) -> Value {
    schema["description"] = text.into();
    schema
}

/// `schema` or null, which a body may say of every field that may be absent.
pub(super) fn or_null(mut schema: Value) -> Value {
    match schema.get("type").and_then(Value::as_str) {
        Some(name) => {
            schema["type"] = json!([name, "null"]);
            if let Some(Value::Array(values)) = schema.get_mut("enum") {
                values.push(Value::Null);
            }
            schema
        }
        None => json!({"anyOf": [schema, {"type": "null"}]}),
    }
}

pub(super) fn string() -> Value {
    json!({"type": "string"})
}

/// One of these texts.
pub(super) fn one_of(values: &[&str]) -> Value {
    json!({"type": "string", "enum": values})
}

pub(super) fn flag() -> Value {
    json!({"type": "boolean"})
}

/// An integer, `low` or more.
pub(super) fn from(low: i64) -> Value {
    json!({"type": "integer", "minimum": low})
}

/// An integer from `low` to `high`.
pub(super) fn between(low: i64, high: i64) -> Value {
    json!({"type": "integer", "minimum": low, "maximum": high})
}

/// A token of the model's vocabulary.
pub(super) fn token_id() -> Value {
    between(0, i64::from(u32::MAX))
}

pub(super) fn number() -> Value {
    json!({"type": "number"})
}

/// A list.
pub(super) fn list(items: &Value) -> Value {
    json!({"type": "array", "items": items})
}

/// A list of up to `most` items.
pub(super) fn up_to(most: usize, items: &Value) -> Value {
    json!({"type": "array", "items": items, "maxItems": most})
}

/// An object with these fields, of which some are always there.
#[expect(
    clippy::needless_pass_by_value,
    reason = "properties are written where they are passed"
)]
pub(super) fn object(properties: Properties, required: &[&str]) -> Value {
    json!({"type": "object", "properties": properties, "required": required})
}

/// The values and the meaning of an option of the table.
pub(super) fn option(row: &OptionRow) -> Value {
    let mut schema = json!({"type": row.kind.name()});
    if let Some(Range { low, is_open, high }) = row.kind.range() {
        let least = if is_open {
            "exclusiveMinimum"
        } else {
            "minimum"
        };
        schema[least] = low.into();
        if high.is_finite() && high <= f64::from(u32::MAX) {
            schema["maximum"] = high.into();
        }
    }
    let sentence = row.about.split("\n\n").next().unwrap_or_default();
    or_null(about(schema, sentence.trim()))
}

/// The properties of a JSON object literal, whose values are schemas.
macro_rules! properties {
    ($($name:literal: $schema:expr,)*) => {{
        let mut properties = crate::http::probes::openapi::schema::Properties::new();
        $( properties.insert($name.to_owned(), $schema); )*
        properties
    }};
}

pub(super) use properties;
