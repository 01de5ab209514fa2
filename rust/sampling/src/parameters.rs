//! Numbers that decide how a token is drawn.

/// Temperatures below this are greedy: dividing by them would overflow.
pub const MIN_TEMPERATURE: f32 = 1e-5;

/// Numbers that decide how a token is drawn from logits.
#[derive(Debug, Clone, PartialEq)]
pub struct SamplingParameters {
    /// 0 is greedy.
    pub temperature: f32,
    /// Keeps the smallest set of likeliest tokens with this mass; 1 keeps all.
    pub top_p: f32,
    /// Keeps the likeliest k tokens; 0 keeps all.
    pub top_k: u32,
    /// Keeps tokens at least this likely relative to the likeliest; 0 keeps all.
    pub min_p: f32,
    /// Keeps the smallest set of tokens with this mass whose information is nearest to the expected
    /// one (Meister et al., Locally Typical Sampling, 2023), out of what is left; 1 keeps all.
    pub typical_p: f32,
    /// Subtracted per earlier occurrence in the output.
    pub frequency_penalty: f32,
    /// Subtracted once when a token occurred in the output.
    pub presence_penalty: f32,
    /// Divides positive and multiplies negative logits of tokens of prompt and output.
    pub repetition_penalty: f32,
    /// Added to the logits of single tokens.
    pub logit_bias: Vec<(u32, f32)>,
}

impl Default for SamplingParameters {
    fn default() -> Self {
        Self {
            temperature: 1.0,
            top_p: 1.0,
            top_k: 0,
            min_p: 0.0,
            typical_p: 1.0,
            frequency_penalty: 0.0,
            presence_penalty: 0.0,
            repetition_penalty: 1.0,
            logit_bias: Vec::new(),
        }
    }
}

impl SamplingParameters {
    /// Whether the likeliest token is taken.
    pub fn is_greedy(&self) -> bool {
        self.temperature < MIN_TEMPERATURE
    }

    /// Whether logits depend on the tokens so far.
    pub fn has_penalties(&self) -> bool {
        self.frequency_penalty != 0.0
            || self.presence_penalty != 0.0
            || (self.repetition_penalty - 1.0).abs() > 0.0
    }
}
