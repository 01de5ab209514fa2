//! Options of one request.

use super::Value;
use super::kind::{Kind, Range, above, at_least, integer, number};
use super::macros::{options, rows};
use super::row::{Group, OptionRow};
use crate::limits::{MAX_CHOICES, MAX_DRAFT_TOKENS, MAX_TOP_LOGPROBS};

/// Temperatures below this are greedy: dividing by them would overflow.
pub const MIN_TEMPERATURE: f32 = 1e-5;

/// The command that makes one request.
const GENERATE: &[&str] = &["generate"];

/// An option of a request.
const fn row(kind: Kind) -> OptionRow {
    OptionRow::new(Group::Request, kind)
}

options! {
    macro each_sampling_option $;
    /// Numbers that decide how a token is sampled from logits.
    pub struct SamplingParameters;

    /// Randomness: 0 is greedy.
    temperature: f32 = 1.0 => row(number(0.0, 100.0))
        .flag("temperature", GENERATE).shown("the model's, or 1");
    /// Keep the smallest set of likeliest tokens with this probability mass; 1 keeps all.
    top_p: f32 = 1.0 => row(above(0.0, 1.0)).flag("top_p", GENERATE).shown("the model's, or 1");
    /// Keep the likeliest k tokens; 0 keeps all.
    top_k: u32 = 0 => row(at_least(0)).flag("top_k", GENERATE).shown("the model's, or 0");
    /// Keep tokens at least this likely relative to the likeliest; 0 keeps all.
    min_p: f32 = 0.0 => row(number(0.0, 1.0)).flag("min_p", GENERATE).shown("the model's, or 0");
    /// Keep the smallest set of tokens with this mass whose information is nearest to the expected
    /// one, out of what is left; 1 keeps all.
    ///
    /// Meister et al., Locally Typical Sampling, 2023.
    typical_p: f32 = 1.0 => row(above(0.0, 1.0)).flag("typical_p", GENERATE);
    /// Subtract this from a token's logit for each earlier occurrence in the answer.
    frequency_penalty: f32 = 0.0 => row(number(-2.0, 2.0));
    /// Subtract this once from the logits of tokens that occurred in the answer.
    presence_penalty: f32 = 0.0 => row(number(-2.0, 2.0));
    /// Divide positive and multiply negative logits of tokens of prompt and answer by this; 1
    /// changes nothing.
    repetition_penalty: f32 = 1.0 => row(above(0.0, 10.0)).shown("the model's, or 1");

    also
    /// Added to the logits of single tokens, -100 to 100 each.
    logit_bias: Vec<(u32, f32)>;
}

impl Default for SamplingParameters {
    fn default() -> Self {
        Self::defaults()
    }
}

impl SamplingParameters {
    /// Whether the likeliest token is taken.
    #[must_use]
    #[inline]
    pub fn is_greedy(&self) -> bool {
        self.temperature < MIN_TEMPERATURE
    }

    /// Whether logits depend on the tokens so far.
    #[must_use]
    #[inline]
    pub fn has_penalties(&self) -> bool {
        self.frequency_penalty != 0.0
            || self.presence_penalty != 0.0
            || (self.repetition_penalty - 1.0).abs() > 0.0
    }
}

rows! {
    /// Numbers of a request that do not decide how a token is sampled.
    pub static REQUEST;

    /// Maximum tokens to generate.
    max_tokens = Value::None => row(at_least(1))
        .flag("max_tokens", GENERATE).shown("the rest of the context").unit("tokens");
    /// Minimum tokens to generate before the answer may end.
    min_tokens = Value::Integer(0) => row(at_least(0))
        .flag("min_tokens", GENERATE).unit("tokens");
    /// The same seed gives the same tokens; the answer returns the seed in use.
    seed = Value::None => row(SEED).flag("seed", GENERATE).shown("random");
    /// Number of independent answers to the prompt.
    n = Value::Integer(1) => row(integer(1, MAX_CHOICES)).unit("answers");
    /// Return the log-probability of each token, and those of this many likeliest ones; `spectrie
    /// generate` prints them with --json.
    logprobs = Value::None => row(integer(0, MAX_TOP_LOGPROBS)).flag("logprobs", GENERATE);
    /// The same for the tokens of the prompt.
    prompt_logprobs = Value::None => row(integer(0, MAX_TOP_LOGPROBS));
    /// Maximum draft tokens per step.
    max_draft_tokens = Value::None => row(integer(0, MAX_DRAFT_TOKENS as u32))
        .shown("the server's").unit("tokens");
    /// Larger values run first among the requests of a tenant; values outside the range count as its
    /// nearest end.
    priority = Value::Integer(0) => row(Kind::Integer(Range::new(-100.0, 100.0)));
}

/// Any 64-bit number.
const SEED: Kind = Kind::Integer(Range::new(0.0, u64::MAX as f64));

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sampling_options_are_visited_by_name_and_type() {
        macro_rules! names {
            ($first:expr; $($field:ident: $type:ty,)+) => { [$first, $(stringify!($field)),+] };
        }
        let names = each_sampling_option!(names, "first");
        let rows = SamplingParameters::rows().iter().map(|row| row.field);
        assert_eq!(names[0], "first");
        assert_eq!(names[1..], rows.collect::<Vec<_>>());
    }

    #[test]
    fn a_sampling_option_out_of_range_says_what_is_allowed() {
        let row = |name| {
            let mut rows = SamplingParameters::rows().iter();
            rows.find(|row| row.field == name).unwrap()
        };
        assert_eq!(row("temperature").refusal(0.0), None);
        assert_eq!(
            row("top_p").refusal(1.5).as_deref(),
            Some("given 1.5; allowed: above 0, up to 1")
        );
        assert_eq!(
            row("presence_penalty")
                .refusal(f64::from(-2.1_f32))
                .as_deref(),
            Some("given -2.1; allowed: -2 to 2")
        );
        assert!(!row("typical_p").allows(f64::NAN));
    }
}
