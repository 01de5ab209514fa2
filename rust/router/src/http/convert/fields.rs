//! Reading the fields of a JSON object one by one, with errors that name the field, what was given
//! and what is allowed.
//!
//! A reader owns its object and takes fields out of it; what is left at the end is
//! unknown. An explicit `null` counts as absent, as OpenAI's clients send it.

use serde_json::{Map, Value};

#[cfg(test)]
use super::asked;
use crate::http::error::HttpError;

/// The result of reading one field.
pub(super) type Field<T> = Result<T, HttpError>;

/// A JSON object whose fields are taken out as they are read.
#[derive(Debug)]
pub(super) struct Fields {
    path: String,
    map: Map<String, Value>,
}

impl Fields {
    /// Reads a value that must be an object. `path` is where it stands, empty for the body itself.
    pub(super) fn from_value(path: &str, value: Value) -> Field<Self> {
        match value {
            Value::Object(map) => Ok(Self {
                path: path.to_owned(),
                map,
            }),
            other if path.is_empty() => Err(HttpError {
                param: None,
                ..HttpError::invalid(
                    "",
                    format!("body: given {}; allowed: a JSON object", given(&other)),
                )
            }),
            other => Err(wrong(path, &other, "an object")),
        }
    }

    /// The full name of a field of this object, such as `stream_options.include_usage`.
    pub(super) fn path_of(&self, name: &str) -> String {
        if self.path.is_empty() {
            name.to_owned()
        } else {
            format!("{}.{name}", self.path)
        }
    }

    /// Whether a field is there and not null.
    pub(super) fn has(&self, name: &str) -> bool {
        #[cfg(test)]
        asked::note(&self.path_of(name));
        self.map.get(name).is_some_and(|value| !value.is_null())
    }

    /// Whether a field is there and `false`.
    pub(super) fn is_false(&self, name: &str) -> bool {
        self.map.get(name) == Some(&Value::Bool(false))
    }

    /// Takes a field of any type; `None` when absent or null.
    pub(super) fn take(&mut self, name: &str) -> Option<Value> {
        #[cfg(test)]
        asked::note(&self.path_of(name));
        self.map.remove(name).filter(|value| !value.is_null())
    }

    /// Takes a field that must be an object.
    pub(super) fn take_object(&mut self, name: &str) -> Field<Option<Fields>> {
        match self.take(name) {
            None => Ok(None),
            Some(value) => Fields::from_value(&self.path_of(name), value).map(Some),
        }
    }

    /// Takes a field that must be a string. `allowed` ends the sentence "given …; allowed: …".
    pub(super) fn take_string(&mut self, name: &str, allowed: &str) -> Field<Option<String>> {
        match self.take(name) {
            None => Ok(None),
            Some(Value::String(text)) => Ok(Some(text)),
            Some(other) => Err(wrong(&self.path_of(name), &other, allowed)),
        }
    }

    /// Takes a field that must be `true` or `false`.
    pub(super) fn take_bool(&mut self, name: &str) -> Field<Option<bool>> {
        match self.take(name) {
            None => Ok(None),
            Some(Value::Bool(flag)) => Ok(Some(flag)),
            Some(other) => Err(wrong(&self.path_of(name), &other, "true or false")),
        }
    }

    /// Takes a field that must be a number.
    pub(super) fn take_f32(&mut self, name: &str, allowed: &str) -> Field<Option<f32>> {
        self.take(name)
            .map(|value| to_f32(&self.path_of(name), &value, allowed))
            .transpose()
    }

    /// Takes a field that must be an integer from 0 to 2³² - 1; `allowed` may promise less, which
    /// the caller checks.
    pub(super) fn take_u32(&mut self, name: &str, allowed: &str) -> Field<Option<u32>> {
        self.take(name)
            .map(|value| to_u32(&self.path_of(name), &value, allowed))
            .transpose()
    }

    /// Takes a field that must be a 32-bit integer.
    pub(super) fn take_i32(&mut self, name: &str) -> Field<Option<i32>> {
        let Some(value) = self.take(name) else {
            return Ok(None);
        };
        let number = value.as_i64().and_then(|number| i32::try_from(number).ok());
        number.map(Some).ok_or_else(|| {
            wrong(
                &self.path_of(name),
                &value,
                "an integer from -2147483648 to 2147483647",
            )
        })
    }

    /// Takes a seed: any integer of 64 bits. A negative one stands for the unsigned number with the
    /// same bits.
    pub(super) fn take_seed(&mut self, name: &str) -> Field<Option<u64>> {
        let Some(value) = self.take(name) else {
            return Ok(None);
        };
        let seed = value.as_u64().or(value.as_i64().map(i64::cast_unsigned));
        seed.map(Some).ok_or_else(|| {
            wrong(
                &self.path_of(name),
                &value,
                "an integer from -9223372036854775808 to 18446744073709551615",
            )
        })
    }

    /// Takes a list of token ids.
    pub(super) fn take_token_ids(&mut self, name: &str) -> Field<Option<Vec<u32>>> {
        let path = self.path_of(name);
        match self.take(name) {
            None => Ok(None),
            Some(Value::Array(items)) => to_token_ids(&path, &items).map(Some),
            Some(other) => Err(wrong(&path, &other, "a list of token ids")),
        }
    }

    /// The full names of the fields that were not taken and are not null.
    pub(super) fn rest(self) -> Vec<String> {
        let Self { path, map } = self;
        let names = map.into_iter().filter(|(_, value)| !value.is_null());
        names
            .map(|(name, _)| {
                if path.is_empty() {
                    name
                } else {
                    format!("{path}.{name}")
                }
            })
            .collect()
    }
}

/// Reads a list whose items must all be token ids.
pub(super) fn to_token_ids(path: &str, items: &[Value]) -> Field<Vec<u32>> {
    let ids = items.iter().enumerate();
    ids.map(|(index, item)| to_u32(&format!("{path}[{index}]"), item, "a token id"))
        .collect()
}

/// Reads a list whose items must all be strings.
pub(super) fn to_strings(path: &str, items: Vec<Value>) -> Field<Vec<String>> {
    let items = items.into_iter().enumerate();
    items
        .map(|(index, item)| match item {
            Value::String(text) => Ok(text),
            other => Err(wrong(&format!("{path}[{index}]"), &other, "a string")),
        })
        .collect()
}

/// Reads a number that `f32` can hold.
pub(super) fn to_f32(path: &str, value: &Value, allowed: &str) -> Field<f32> {
    let number = value.as_f64().map(|number| number as f32);
    number
        .filter(|number| number.is_finite())
        .ok_or_else(|| wrong(path, value, allowed))
}

fn to_u32(path: &str, value: &Value, allowed: &str) -> Field<u32> {
    let number = value.as_u64().and_then(|number| u32::try_from(number).ok());
    number.ok_or_else(|| wrong(path, value, allowed))
}

/// The error for a value that is not what `allowed` says.
pub(super) fn wrong(path: &str, value: &Value, allowed: &str) -> HttpError {
    HttpError::invalid(
        path,
        format!("{path}: given {}; allowed: {allowed}", given(value)),
    )
}

/// The error for a field that must be there.
pub(super) fn absent(path: &str, allowed: &str) -> HttpError {
    HttpError::invalid(path, format!("{path} is required: expected {allowed}"))
}

/// What was given, short enough for an error message.
pub(super) fn given(value: &Value) -> String {
    const SHOWN_CHARACTERS: usize = 40;
    match value {
        Value::Null => "null".to_owned(),
        Value::Bool(flag) => flag.to_string(),
        Value::Number(number) => number.to_string(),
        Value::String(text) if text.chars().nth(SHOWN_CHARACTERS).is_some() => {
            let start: String = text.chars().take(SHOWN_CHARACTERS).collect();
            format!("the string {start:?}...")
        }
        Value::String(text) => format!("the string {text:?}"),
        Value::Array(items) if items.is_empty() => "an empty list".to_owned(),
        Value::Array(items) => format!("a list of {}", items.len()),
        Value::Object(_) => "an object".to_owned(),
    }
}
