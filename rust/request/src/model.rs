//! What a request is resolved against: a model's vocabulary, context, text side and defaults.

use serde_json::{Map, Value};
use spectrie_text::TextFiles;

/// A model, as far as requests depend on it.
#[derive(Clone, Copy, Debug)]
pub struct Model<'a> {
    /// Its name in messages.
    pub name: &'a str,
    /// Token ids are below this.
    pub vocabulary_size: u32,
    /// Longest prompt plus answer, in tokens.
    pub max_context: u32,
    /// Tokenizer and chat template.
    pub text: &'a TextFiles,
    /// Its own sampling numbers.
    pub defaults: &'a SamplingDefaults,
}

/// Sampling numbers of `generation_config.json`; absent ones take the API's own defaults.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct SamplingDefaults {
    /// 0 is greedy.
    pub temperature: Option<f32>,
    /// Keeps the smallest set of likeliest tokens with this mass.
    pub top_p: Option<f32>,
    /// Keeps the likeliest k tokens; 0 keeps all.
    pub top_k: Option<u32>,
    /// Keeps tokens at least this likely relative to the likeliest.
    pub min_p: Option<f32>,
    /// Divides positive and multiplies negative logits of seen tokens.
    pub repetition_penalty: Option<f32>,
}

impl SamplingDefaults {
    /// Reads the content of `generation_config.json`. Numbers that a request may not ask for are left
    /// out; the second value names each with its number.
    ///
    /// # Errors
    /// It is not a JSON object, or a member is not a finite number; the text says what it is.
    pub fn read(json: &[u8]) -> Result<(Self, Vec<(&'static str, f32)>), String> {
        let content: Value = serde_json::from_slice(json).map_err(|error| error.to_string())?;
        let Value::Object(members) = content else {
            return Err("given no JSON object".into());
        };
        let mut unused = Vec::new();
        let mut read = |name, allowed: fn(f32) -> bool| -> Result<Option<f32>, String> {
            let number = number(&members, name)?;
            if let Some(given) = number.filter(|given| !allowed(*given)) {
                unused.push((name, given));
            }
            Ok(number.filter(|given| allowed(*given)))
        };
        let is_mass = |value| value > 0.0 && value <= 1.0;
        let defaults = Self {
            temperature: read("temperature", |value| (0.0..=100.0).contains(&value))?,
            top_p: read("top_p", is_mass)?,
            top_k: read("top_k", |value| value >= 0.0)?.map(|value| value as u32),
            min_p: read("min_p", |value| (0.0..=1.0).contains(&value))?,
            repetition_penalty: read("repetition_penalty", |value| value > 0.0 && value <= 10.0)?,
        };
        Ok((defaults, unused))
    }
}

fn number(members: &Map<String, Value>, name: &str) -> Result<Option<f32>, String> {
    match members.get(name) {
        None | Some(Value::Null) => Ok(None),
        Some(value) => match value.as_f64() {
            Some(number) => Ok(Some(number as f32)),
            None => Err(format!("{name} is {value}, allowed a finite number")),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn members_are_read_and_those_outside_the_limits_left_out() {
        let json = br#"{"temperature": 0.2, "top_p": 1.5, "top_k": 50.0, "eos_token_id": [1, 2]}"#;
        let (defaults, unused) = SamplingDefaults::read(json).unwrap();
        assert_eq!((defaults.temperature, defaults.top_p), (Some(0.2), None));
        assert_eq!(defaults.top_k, Some(50));
        assert_eq!(unused, [("top_p", 1.5)]);
        let (defaults, unused) = SamplingDefaults::read(b"{}").unwrap();
        assert_eq!((defaults, unused.len()), (SamplingDefaults::default(), 0));
    }

    #[test]
    fn content_that_is_no_object_of_numbers_is_refused() {
        for json in ["{", "[1]", r#"{"top_p": "high"}"#, r#"{"top_k": true}"#] {
            assert!(SamplingDefaults::read(json.as_bytes()).is_err(), "{json}");
        }
    }
}
