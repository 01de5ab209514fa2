//! Text from tokens as they come, cut at the first stop text.

use spectrie_proto::worker_v1::{FinishKind, TokenLogprob};
use spectrie_text::{TextStream, Tokenizer};

use super::end::Ending;
use crate::refusal::Refusal;
use crate::resolve::ResolvedRequest;

/// Tokens that an engine emitted for one choice.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct AnswerDelta {
    /// Text that became certain; empty in what is given to [`Answer::take`].
    pub text: String,
    /// The tokens.
    pub token_ids: Vec<u32>,
    /// The number of each token's source.
    pub sources: Vec<u32>,
    /// What the model thought of each token, when asked for.
    pub logprobs: Vec<TokenLogprob>,
}

/// The answer of one choice, from its first token to its end.
#[derive(Debug)]
pub struct Answer {
    text: TextStream,
    num_tokens: u32,
    last_token: Option<u32>,
    stop_text: Option<String>,
}

impl Answer {
    /// An answer without tokens.
    ///
    /// # Errors
    /// A stop text that the detokenizer does not take.
    pub fn new(tokenizer: &Tokenizer, request: &ResolvedRequest) -> Result<Self, Refusal> {
        let stop = &request.stopping.stop;
        let text = TextStream::new(tokenizer, stop, request.output.skip_special_tokens)
            .map_err(|error| Refusal::invalid("stopping.stop", error.to_string()))?;
        Ok(Self {
            text,
            num_tokens: 0,
            last_token: None,
            stop_text: None,
        })
    }

    /// Tokens that count so far.
    pub fn num_tokens(&self) -> u32 {
        self.num_tokens
    }

    /// The stop text that ended the answer.
    pub fn stop_text(&self) -> Option<&str> {
        self.stop_text.as_deref()
    }

    /// Takes what a step emitted and cuts it at a stop text. Tokens after a stop text neither count
    /// nor are returned. Text that may begin a stop text is held back until the engine ends the
    /// answer, which `finish` says.
    pub fn take(&mut self, mut delta: AnswerDelta, finish: Option<FinishKind>) -> AnswerDelta {
        if self.stop_text.is_some() {
            return AnswerDelta::default();
        }
        if !delta.token_ids.is_empty() {
            let certain = self.text.push(&delta.token_ids);
            delta.text = certain.text;
            if let Some(stop) = certain.stop {
                let before = self.num_tokens as usize;
                let all = before + delta.token_ids.len();
                let keep = certain.keep_tokens.unwrap_or(all).saturating_sub(before);
                delta.token_ids.truncate(keep);
                delta.sources.truncate(keep);
                delta.logprobs.truncate(keep);
                self.stop_text = Some(stop);
            }
            self.num_tokens += delta.token_ids.len() as u32;
            self.last_token = delta.token_ids.last().copied().or(self.last_token);
        }
        if let Some(kind) = finish
            && self.ending(kind).is_some()
            && self.stop_text.is_none()
        {
            delta.text.push_str(&self.rest());
        }
        delta
    }

    /// The text that was held back, of an answer that is known to be complete.
    pub fn rest(&mut self) -> String {
        self.text.finish()
    }

    /// How the answer ended, when an engine's end of this kind completes it.
    pub fn ending(&self, kind: FinishKind) -> Option<Ending> {
        Ending::of(kind, self.stop_text.as_deref(), self.last_token)
    }
}
