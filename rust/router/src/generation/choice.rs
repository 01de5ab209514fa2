//! One choice of a running request: its text, its counts and its end.

use spectrie_proto::v1;
use spectrie_proto::worker_v1::{FinishKind, RequestStats, TokenLogprob};
use spectrie_text::TextStream;

use super::logprobs;
use super::resolve::Resolved;
use crate::error::{ErrorKind, RequestError};
use crate::workers::{ChoiceGuard, Inbox};

/// What follows from one inbox.
#[derive(Debug)]
pub(crate) enum Outcome {
    /// Go on.
    Continue,
    /// The choice ended well.
    Finished(Box<v1::Finished>, RequestStats),
    /// The worker is gone, or refused the choice: it may be tried elsewhere if nothing was sent.
    Lost(Option<RequestError>),
    /// The request is over.
    Failed(RequestError),
}

/// A choice between its start and its end.
#[derive(Debug)]
pub(crate) struct Choice {
    index: u32,
    pub(crate) attempt: u32,
    pub(crate) guard: Option<ChoiceGuard>,
    text: TextStream,
    /// Tokens that count so far.
    pub(crate) num_tokens: u32,
    last_token: Option<u32>,
    /// The stop text that ended it.
    stop: Option<String>,
    /// Of the prompt's tokens, for its end.
    prompt_logprobs: Vec<TokenLogprob>,
}

impl Choice {
    /// # Errors
    /// A stop text that the detokenizer does not take.
    pub(crate) fn new(
        resolved: &Resolved,
        index: u32,
        guard: ChoiceGuard,
    ) -> Result<Self, RequestError> {
        let (tokenizer, stop) = (&resolved.model.tokenizer, &resolved.stopping.stop);
        let text = TextStream::new(tokenizer, stop, resolved.output.skip_special_tokens)
            .map_err(|error| RequestError::invalid("stopping.stop", error.to_string()))?;
        Ok(Self {
            index,
            attempt: 0,
            guard: Some(guard),
            text,
            num_tokens: 0,
            last_token: None,
            stop: None,
            prompt_logprobs: Vec::new(),
        })
    }

    /// Whether nothing more will come.
    pub(crate) fn is_done(&self) -> bool {
        self.guard.is_none()
    }

    /// Takes what a worker sent; `push` gets the delta, if there is one to send.
    pub(crate) fn take(
        &mut self,
        resolved: &Resolved,
        inbox: Inbox,
        push: impl FnOnce(v1::Delta),
    ) -> Outcome {
        if self.is_done() {
            return Outcome::Continue;
        }
        let Inbox {
            mut token_ids,
            mut sources,
            mut logprobs,
            prompt_logprobs,
            finish,
            lost,
        } = inbox;
        let mut text = String::new();
        self.prompt_logprobs.extend(prompt_logprobs);
        if self.stop.is_some() {
            // Behind a stop text: neither sent nor counted.
            token_ids.clear();
            sources.clear();
            logprobs.clear();
        } else if !token_ids.is_empty() {
            if let Err(error) = self.check(resolved, &token_ids, &sources, &logprobs) {
                return Outcome::Failed(error);
            }
            let delta = self.text.push(&token_ids);
            text = delta.text;
            if let Some(stop) = delta.stop {
                let before = self.num_tokens as usize;
                let keep = delta.keep_tokens.unwrap_or(before + token_ids.len());
                token_ids.truncate(keep.saturating_sub(before));
                sources.truncate(token_ids.len());
                logprobs.truncate(token_ids.len());
                self.stop = Some(stop);
            }
            self.num_tokens += token_ids.len() as u32;
            self.last_token = token_ids.last().copied().or(self.last_token);
            if let (Some(_), None, Some(guard)) = (&self.stop, &finish, &self.guard) {
                guard.stop(self.num_tokens);
            }
        }
        let ended = finish
            .as_ref()
            .is_some_and(|finish| is_good_end(finish.kind));
        if ended && self.stop.is_none() {
            text.push_str(&self.text.finish());
        }
        self.push_delta(resolved, text, token_ids, sources, logprobs, push);
        match finish {
            Some(finish) => self.end(resolved, finish.kind, finish.message, finish.stats),
            // The text is complete: only the worker's statistics are missing.
            None if lost && self.stop.is_some() => self.end(
                resolved,
                FinishKind::FinishCancelled,
                None,
                RequestStats::default(),
            ),
            None if lost => Outcome::Lost(None),
            None => Outcome::Continue,
        }
    }

    /// Refuses output that no correct worker sends.
    fn check(
        &self,
        resolved: &Resolved,
        token_ids: &[u32],
        sources: &[u32],
        logprobs: &[TokenLogprob],
    ) -> Result<(), RequestError> {
        let total = self.num_tokens as usize + token_ids.len();
        let fault = if total > resolved.max_tokens as usize {
            format!("{total} tokens, asked for {}", resolved.max_tokens)
        } else if let Some(id) = token_ids
            .iter()
            .find(|id| **id >= resolved.model.vocabulary_size)
        {
            format!(
                "token {id} of a vocabulary of {}",
                resolved.model.vocabulary_size
            )
        } else if sources.len() != token_ids.len() {
            format!("{} sources for {} tokens", sources.len(), token_ids.len())
        } else if resolved.output.logprobs.is_some() && logprobs.len() != token_ids.len() {
            format!(
                "{} log-probabilities for {} tokens",
                logprobs.len(),
                token_ids.len()
            )
        } else {
            return Ok(());
        };
        Err(bad_output(resolved, &fault))
    }

    /// The prompt's log-probabilities, where this choice was to bring them.
    fn take_prompt_logprobs(
        &mut self,
        resolved: &Resolved,
    ) -> Result<Vec<v1::TokenLogprob>, RequestError> {
        let given = std::mem::take(&mut self.prompt_logprobs);
        if resolved.prompt_logprobs(self.index).is_none() {
            return Ok(Vec::new());
        }
        let expected = resolved.prompt_ids.len();
        if given.len() != expected {
            let count = given.len();
            let fault = format!("{count} log-probabilities for a prompt of {expected} tokens");
            return Err(bad_output(resolved, &fault));
        }
        Ok(logprobs::named(&resolved.model.tokenizer, given))
    }

    fn push_delta(
        &self,
        resolved: &Resolved,
        text: String,
        token_ids: Vec<u32>,
        sources: Vec<u32>,
        logprobs: Vec<TokenLogprob>,
        push: impl FnOnce(v1::Delta),
    ) {
        let num_tokens = token_ids.len();
        let token_ids = if resolved.output.token_ids {
            token_ids
        } else {
            Vec::new()
        };
        let sources = if resolved.output.sources {
            sources.into_iter().map(|source| source as i32).collect()
        } else {
            Vec::new()
        };
        if num_tokens > 0 || !text.is_empty() {
            push(v1::Delta {
                index: self.index,
                text,
                token_ids,
                sources,
                logprobs: logprobs::named(&resolved.model.tokenizer, logprobs),
            });
        }
    }

    fn end(
        &mut self,
        resolved: &Resolved,
        kind: FinishKind,
        message: Option<String>,
        stats: RequestStats,
    ) -> Outcome {
        let reason = match (kind, &self.stop) {
            (_, Some(stop)) => Ok((
                v1::FinishReason::Stop,
                Some(v1::finished::StopReason::StopText(stop.clone())),
            )),
            (FinishKind::FinishEos | FinishKind::FinishStopToken, None) => Ok((
                v1::FinishReason::Stop,
                self.last_token.map(v1::finished::StopReason::StopTokenId),
            )),
            (FinishKind::FinishComplete, None) => Ok((v1::FinishReason::Stop, None)),
            (FinishKind::FinishLength, None) => Ok((v1::FinishReason::Length, None)),
            (FinishKind::FinishDeadline, None) => Err(Outcome::Failed(RequestError::new(
                ErrorKind::DeadlineExceeded,
                "the deadline passed before the answer was complete",
            ))),
            (FinishKind::FinishRefused, None) => {
                let message = message.unwrap_or_else(|| "the worker refused the request".into());
                let delay = super::refusal::RETRY_DELAY;
                let error = RequestError::retry(ErrorKind::QueueFull, message, delay);
                Err(Outcome::Lost(Some(error)))
            }
            (FinishKind::FinishInvalid, None) => {
                let message = message.unwrap_or_else(|| "the worker cannot run the request".into());
                Err(Outcome::Failed(RequestError::new(
                    ErrorKind::InvalidField,
                    message,
                )))
            }
            (FinishKind::FinishCancelled, None) => Err(Outcome::Lost(None)),
            (FinishKind::FinishFailed | FinishKind::FinishNone, None) => {
                let message = message.unwrap_or_else(|| "the worker failed".into());
                Err(Outcome::Failed(RequestError::new(
                    ErrorKind::Internal,
                    message,
                )))
            }
        };
        let (reason, stop_reason) = match reason {
            Ok(reason) => reason,
            Err(outcome) => return outcome,
        };
        self.guard = None;
        let prompt_logprobs = match self.take_prompt_logprobs(resolved) {
            Ok(logprobs) => logprobs,
            Err(error) => return Outcome::Failed(error),
        };
        let finished = v1::Finished {
            index: self.index,
            reason: reason.into(),
            stop_reason,
            usage: Some(self.usage(resolved, &stats)),
            speculation: Some(speculation_stats(&stats)),
            timing: Some(v1::Timing {
                queue_ns: stats.queue_ns,
                prefill_ns: stats.prefill_ns,
                decode_ns: stats.decode_ns,
            }),
            prompt_logprobs,
        };
        Outcome::Finished(Box::new(finished), stats)
    }

    fn usage(&self, resolved: &Resolved, stats: &RequestStats) -> v1::Usage {
        let accepted = stats.accepted_prediction_tokens;
        let prediction = resolved.prediction_ids.as_ref().map(|ids| ids.len() as u32);
        v1::Usage {
            prompt_tokens: resolved.prompt_ids.len() as u32,
            completion_tokens: self.num_tokens,
            cached_tokens: stats.cached_tokens,
            accepted_prediction_tokens: prediction.map(|_| accepted),
            rejected_prediction_tokens: prediction.map(|tokens| tokens.saturating_sub(accepted)),
        }
    }
}

fn bad_output(resolved: &Resolved, fault: &str) -> RequestError {
    tracing::error!(request = %resolved.request_id, fault, "bad output of a worker");
    RequestError::new(ErrorKind::Internal, "the worker sent a bad output")
}

fn is_good_end(kind: FinishKind) -> bool {
    matches!(
        kind,
        FinishKind::FinishEos
            | FinishKind::FinishStopToken
            | FinishKind::FinishLength
            | FinishKind::FinishComplete
    )
}

fn speculation_stats(stats: &RequestStats) -> v1::SpeculationStats {
    let by_source = stats.accepted_by_source.iter().enumerate();
    v1::SpeculationStats {
        verify_steps: stats.verify_steps,
        drafted_tokens: stats.drafted_tokens,
        accepted_tokens: stats.accepted_tokens,
        accepted_by_source: by_source
            .filter(|(_, tokens)| **tokens > 0)
            .map(|(source, tokens)| v1::SourceCount {
                source: source as i32,
                tokens: *tokens,
            })
            .collect(),
    }
}
