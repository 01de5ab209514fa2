//! What a request is resolved against: a model's vocabulary, context, text side and defaults.

use serde_json::{Map, Value};
use spectrie_proto::v1;
use spectrie_text::TextFiles;
use spectrie_types::each_sampling_option;
use spectrie_types::options::SamplingParameters;

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

/// Members of `generation_config.json` that no request may ask for, by name.
pub type Unused = Vec<(&'static str, f64)>;

/// Members of `generation_config.json` that are read.
const MEMBERS: [&str; 5] = [
    "temperature",
    "top_p",
    "top_k",
    "min_p",
    "repetition_penalty",
];

/// Sampling numbers of `generation_config.json`; absent ones take the API's own defaults.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SamplingDefaults(pub v1::Sampling);

macro_rules! read {
    ($members:expr, $unused:expr; $($field:ident: $type:ty,)+) => {
        v1::Sampling {
            $( $field: read($members, stringify!($field), $unused)?.map(|value| value as $type), )+
            ..v1::Sampling::default()
        }
    };
}

impl SamplingDefaults {
    /// Reads the content of `generation_config.json`. Numbers that a request may not ask for are left
    /// out; the second value names each with its number.
    ///
    /// # Errors
    /// It is not a JSON object, or a member is not a finite number; the text names it.
    pub fn read(json: &[u8]) -> Result<(Self, Unused), String> {
        let content: Value = serde_json::from_slice(json).map_err(|error| error.to_string())?;
        let Value::Object(members) = content else {
            return Err("given no JSON object".into());
        };
        let mut unused = Unused::new();
        let sampling = each_sampling_option!(read, &members, &mut unused);
        Ok((Self(sampling), unused))
    }
}

fn read(
    members: &Map<String, Value>,
    name: &'static str,
    unused: &mut Unused,
) -> Result<Option<f64>, String> {
    let number = match members.get(name).filter(|_| MEMBERS.contains(&name)) {
        None | Some(Value::Null) => return Ok(None),
        Some(value) => value
            .as_f64()
            .ok_or_else(|| format!("{name} is {value}; allowed: a finite number"))?,
    };
    let mut rows = SamplingParameters::rows().iter();
    let row = rows.find(|row| row.field == name);
    if row.is_none_or(|row| row.allows(number)) {
        return Ok(Some(number));
    }
    unused.push((name, number));
    Ok(None)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn members_are_read_and_those_outside_the_limits_left_out() {
        let json = br#"{"temperature": 0.2, "top_p": 1.5, "top_k": 50.0, "typical_p": 0.5,
            "eos_token_id": [1, 2]}"#;
        let (defaults, unused) = SamplingDefaults::read(json).unwrap();
        let SamplingDefaults(sampling) = defaults;
        assert_eq!((sampling.temperature, sampling.top_p), (Some(0.2), None));
        assert_eq!(sampling.top_k, Some(50));
        // What only a request may say is not the model's to say.
        assert_eq!((sampling.typical_p, unused), (None, vec![("top_p", 1.5)]));
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
