//! One choice of a running request: its text, its counts and its end.

use std::sync::Arc;
use std::time::Instant;

use spectrie_proto::v1;
use spectrie_proto::worker_v1::{FinishKind, RequestStats, TokenLogprob};
use spectrie_request::{Answer, AnswerDelta, answer};

use super::attempts::{Kept, Mark, Place, Tally};
use super::refusal::RETRY_DELAY;
use super::resolve::Resolved;
use crate::error::{ErrorKind, RequestError};
use crate::failover::{Blame, End};
use crate::workers::{ChoiceGuard, Inbox, Worker};

/// What follows from one inbox.
#[derive(Debug)]
pub(crate) enum Outcome {
    /// Go on.
    Continue,
    /// The choice ended well.
    Finished(Box<v1::Finished>, RequestStats),
    /// Its worker's part ended before the answer did, with this error if it said one.
    Lost(End, Option<RequestError>),
    /// The request is over.
    Failed(RequestError),
}

/// A choice between its start and its end.
#[derive(Debug)]
pub(crate) struct Choice {
    pub(super) index: u32,
    pub(super) attempt: u32,
    pub(super) place: Place,
    pub(super) blame: Blame,
    /// A worker that failed it, with its turn there, until another one goes on with it: then the worker
    /// was at fault.
    pub(super) accused: Option<(Arc<Worker>, u64)>,
    pub(super) tally: Tally,
    pub(super) answer: Answer,
    /// The tokens that count, those of the text that is held back included: what the next worker
    /// goes on from.
    pub(super) emitted: Vec<u32>,
    /// Numeric fingerprint under which the first of them were computed.
    pub(super) fingerprint: Option<String>,
    pub(super) numerics_changed: bool,
    /// Of the prompt's tokens, for its end.
    pub(super) prompt_logprobs: Vec<TokenLogprob>,
    /// What its client has of it, which may be more than is known here.
    pub(super) mark: Mark,
    /// What its client may ask for again, if it may.
    pub(super) kept: Option<Kept>,
}

impl Choice {
    /// # Errors
    /// A stop text that the detokenizer does not take.
    pub(crate) fn new(
        resolved: &Resolved,
        index: u32,
        place: Place,
        now: Instant,
    ) -> Result<Self, RequestError> {
        let answer = Answer::new(&resolved.model.text.tokenizer, &resolved.request)?;
        Ok(Self {
            index,
            attempt: 0,
            place,
            blame: Blame::default(),
            accused: None,
            tally: Tally::new(now),
            answer,
            emitted: Vec::new(),
            fingerprint: None,
            numerics_changed: false,
            prompt_logprobs: Vec::new(),
            mark: Mark::default(),
            kept: None,
        })
    }

    /// Whether nothing more will come.
    pub(crate) fn is_done(&self) -> bool {
        matches!(self.place, Place::Done)
    }

    /// Tokens that count so far.
    pub(crate) fn num_tokens(&self) -> u32 {
        self.answer.num_tokens()
    }

    /// Takes what a worker sent; `push` gets the delta, if there is one to send.
    pub(crate) fn take(
        &mut self,
        resolved: &Resolved,
        inbox: Inbox,
        now: Instant,
        mut push: impl FnMut(v1::Delta),
    ) -> Outcome {
        let Place::On(guard) = &self.place else {
            return Outcome::Continue;
        };
        let is_draining = guard.worker().is_draining();
        let is_exact = guard.worker().hello.exact;
        let Inbox {
            token_ids,
            sources,
            logprobs,
            prompt_logprobs,
            finish,
            lost,
        } = inbox;
        let delta = AnswerDelta {
            text: String::new(),
            token_ids,
            sources,
            logprobs,
        };
        let had_stopped = self.answer.stop_text().is_some();
        if !had_stopped
            && !delta.token_ids.is_empty()
            && let Some(fault) = self.fault(resolved, &delta)
        {
            return Outcome::Lost(End::Faulted, Some(bad_output(resolved, &fault)));
        }
        self.prompt_logprobs.extend(prompt_logprobs);
        let kind = finish.as_ref().map(|finish| finish.kind);
        let (had, delta) = self.mark.split(delta, self.num_tokens());
        if let Some(had) = had {
            let had = self.answer.take(had, None);
            // Computed again, they may be others than its client has.
            self.numerics_changed |= !is_exact;
            self.note(&had, now);
            if self.mark.repeats {
                push(self.event(resolved, had, false));
            }
        }
        let Place::On(guard) = &self.place else {
            return Outcome::Continue;
        };
        let mut delta = self.answer.take(delta, kind);
        let has_stopped = self.answer.stop_text().is_some();
        let mut is_closed = kind.is_some_and(|kind| self.answer.ending(kind).is_some());
        if lost && kind.is_none() && !has_stopped && self.has_all_tokens(resolved) {
            delta.text.push_str(&self.answer.rest());
            is_closed = true;
        }
        if let (true, false, None) = (has_stopped, had_stopped, kind) {
            guard.stop(self.answer.num_tokens());
        }
        self.note(&delta, now);
        if !delta.token_ids.is_empty() || !delta.text.is_empty() {
            let event = self.event(resolved, delta, is_closed);
            if self.mark.sends(event.position) {
                push(event);
            }
        }
        let outcome = match finish {
            Some(finish) => self.end(resolved, finish.kind, finish.message, &finish.stats),
            None if lost => self.lose(resolved, now),
            None => Outcome::Continue,
        };
        match outcome {
            Outcome::Lost(End::Died | End::Refused, error) if is_draining => {
                Outcome::Lost(End::Drained, error)
            }
            outcome => outcome,
        }
    }

    /// Counts tokens that its worker gave.
    fn note(&mut self, delta: &AnswerDelta, now: Instant) {
        let Place::On(guard) = &self.place else {
            return;
        };
        if delta.token_ids.is_empty() {
            return;
        }
        let fingerprint = &guard.worker().hello.numeric_fingerprint;
        let first = self.fingerprint.get_or_insert_with(|| fingerprint.clone());
        self.numerics_changed |= first != fingerprint;
        self.emitted.extend_from_slice(&delta.token_ids);
        if let Some(kept) = &mut self.kept {
            kept.add(delta);
        }
        self.tally.add(&delta.sources, now);
        self.blame.progressed();
    }

    /// The worker is gone. An answer that is complete needs no other: only its statistics are
    /// missing.
    pub(super) fn lose(&mut self, resolved: &Resolved, now: Instant) -> Outcome {
        let kind = if self.answer.stop_text().is_some() {
            FinishKind::FinishCancelled
        } else if self.has_all_tokens(resolved) {
            FinishKind::FinishLength
        } else {
            return Outcome::Lost(End::Died, None);
        };
        self.tally.end_attempt(now);
        self.end(resolved, kind, None, &RequestStats::default())
    }

    /// Whether only its worker's last word is missing.
    pub(super) fn is_complete(&self, resolved: &Resolved) -> bool {
        self.answer.stop_text().is_some() || self.has_all_tokens(resolved)
    }

    /// Whether it has as many tokens as were asked for.
    fn has_all_tokens(&self, resolved: &Resolved) -> bool {
        self.num_tokens() >= resolved.request.max_tokens
    }

    /// Takes tokens of an earlier attempt again.
    pub(super) fn replay(&mut self, delta: AnswerDelta) -> AnswerDelta {
        self.answer.take(delta, None)
    }

    /// What no correct worker sends.
    fn fault(&self, resolved: &Resolved, delta: &AnswerDelta) -> Option<String> {
        let (request, model) = (&resolved.request, &resolved.model);
        let count = delta.token_ids.len();
        let total = self.answer.num_tokens() as usize + count;
        let mut ids = delta.token_ids.iter();
        if total > request.max_tokens as usize {
            Some(format!("{total} tokens, asked for {}", request.max_tokens))
        } else if let Some(id) = ids.find(|id| **id >= model.vocabulary_size) {
            let vocabulary_size = model.vocabulary_size;
            Some(format!("token {id} of a vocabulary of {vocabulary_size}"))
        } else if delta.sources.len() != count {
            let given = delta.sources.len();
            Some(format!("{given} sources for {count} tokens"))
        } else if request.output.logprobs.is_some() && delta.logprobs.len() != count {
            let given = delta.logprobs.len();
            Some(format!("{given} log-probabilities for {count} tokens"))
        } else {
            None
        }
    }

    /// The prompt's log-probabilities, where this choice was to bring them.
    fn take_prompt_logprobs(
        &mut self,
        resolved: &Resolved,
    ) -> Result<Vec<v1::TokenLogprob>, RequestError> {
        let given = std::mem::take(&mut self.prompt_logprobs);
        if resolved.request.prompt_logprobs(self.index).is_none() {
            return Ok(Vec::new());
        }
        let expected = resolved.request.prompt_ids.len();
        if given.len() != expected {
            let count = given.len();
            let fault = format!("{count} log-probabilities for a prompt of {expected} tokens");
            return Err(bad_output(resolved, &fault));
        }
        Ok(answer::with_text(&resolved.model.text.tokenizer, given))
    }

    /// The event that brings `delta`, the last of its text where `is_closed`.
    pub(super) fn event(
        &self,
        resolved: &Resolved,
        delta: AnswerDelta,
        is_closed: bool,
    ) -> v1::Delta {
        let output = &resolved.request.output;
        let sources = delta.sources.into_iter();
        v1::Delta {
            index: self.index,
            text: delta.text,
            logprobs: answer::with_text(&resolved.model.text.tokenizer, delta.logprobs),
            sources: if output.sources {
                sources.map(|source| source as i32).collect()
            } else {
                Vec::new()
            },
            token_ids: if output.token_ids {
                delta.token_ids
            } else {
                Vec::new()
            },
            position: self.num_tokens() + u32::from(is_closed),
        }
    }

    fn end(
        &mut self,
        resolved: &Resolved,
        kind: FinishKind,
        message: Option<String>,
        stats: &RequestStats,
    ) -> Outcome {
        let Some(ending) = self.answer.ending(kind) else {
            return failure(kind, message, self.place.guard());
        };
        self.place = Place::Done;
        let prompt_logprobs = match self.take_prompt_logprobs(resolved) {
            Ok(logprobs) => logprobs,
            Err(error) => return Outcome::Failed(error),
        };
        let num_tokens = self.answer.num_tokens();
        let stats = self.tally.total(stats);
        let finished = answer::finished(&resolved.request, self.index, num_tokens, ending, &stats);
        let finished = v1::Finished {
            prompt_logprobs,
            numerics_changed: self.numerics_changed,
            ..finished
        };
        if let Some(kept) = &mut self.kept {
            kept.finish(&finished);
        }
        Outcome::Finished(Box::new(finished), stats)
    }
}

/// What follows from an end that completes no answer.
fn failure(kind: FinishKind, message: Option<String>, guard: Option<&ChoiceGuard>) -> Outcome {
    let message = |otherwise: &str| message.unwrap_or_else(|| otherwise.into());
    let failed = |kind, message| Outcome::Failed(RequestError::new(kind, message));
    match kind {
        FinishKind::FinishCancelled => Outcome::Lost(End::Refused, None),
        FinishKind::FinishDeadline => failed(
            ErrorKind::DeadlineExceeded,
            "the deadline passed before the answer was complete".into(),
        ),
        FinishKind::FinishRefused => {
            let message = message("the worker refused the request");
            let wait = guard.map_or(RETRY_DELAY, |guard| guard.worker().next_end());
            let error = RequestError::retry(ErrorKind::QueueFull, message, wait);
            Outcome::Lost(End::Refused, Some(error))
        }
        FinishKind::FinishInvalid => failed(
            ErrorKind::InvalidField,
            message("the worker cannot run the request"),
        ),
        _ => {
            let error = RequestError::new(ErrorKind::Internal, message("the worker failed"));
            Outcome::Lost(End::Faulted, Some(error))
        }
    }
}

fn bad_output(resolved: &Resolved, fault: &str) -> RequestError {
    tracing::error!(request = %resolved.request.request_id, fault, "bad output of a worker");
    RequestError::new(ErrorKind::Internal, "the worker sent a bad output")
}
