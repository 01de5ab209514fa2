//! The stream of an answer as server-sent events.
//!
//! Each event is `data: JSON` and an empty line. The first chunk of a chat choice carries the role,
//! the last chunk of a choice its finish reason; then, if asked for, one chunk without choices
//! carries the usage; `data: [DONE]` ends the stream. An error is an event whose JSON has the one
//! key `error`, after which the stream ends without `[DONE]`: several clients take a `[DONE]`
//! after an error for an empty success.
//!
//! Where the client can go on with the stream, the first event has the `resume_token`, and each has an
//! `id:` line, from which the client's place in every choice can be read.

use std::collections::{HashMap, HashSet};

use bytes::{BufMut, Bytes, BytesMut};
use spectrie_proto::v1;

use super::logprobs::{Logprobs, PromptLogprobs};
use super::place::{END, Place};
use super::response::{Answer, Choice, Delta, Identity, Stop, finish_reason};
use super::usage::Totals;
use crate::http::convert::{Endpoint, Extras};
use crate::http::error::HttpError;

/// Sent while nothing else is, so that proxies keep the connection; clients skip comments.
pub(crate) const KEEP_ALIVE: &[u8] = b": keep-alive\n\n";

/// Turns events of choices into bytes of a stream.
#[derive(Debug)]
pub(crate) struct Encoder {
    identity: Identity,
    extras: Extras,
    /// Choices whose role was sent.
    opened: HashSet<u32>,
    /// Characters of each choice that log-probabilities were sent for.
    offsets: HashMap<u32, usize>,
    tracking: Option<Tracking>,
}

/// The client's place in a stream that can be gone on with.
#[derive(Debug)]
struct Tracking {
    /// For the first event; none once it was sent.
    token: Option<String>,
    /// What the client has from an earlier connection.
    had: Place,
    /// What it has with the last event.
    has: Place,
}

impl Encoder {
    pub(crate) fn new(identity: Identity, extras: Extras) -> Self {
        Self {
            identity,
            extras,
            opened: HashSet::new(),
            offsets: HashMap::new(),
            tracking: None,
        }
    }

    /// The same, of a stream of `num_choices` that its client can go on with.
    #[must_use]
    pub(crate) fn resumable(self, token: String, num_choices: u32) -> Self {
        let start = Place::start(num_choices);
        Self {
            tracking: Some(Tracking {
                token: Some(token),
                had: start.clone(),
                has: start,
            }),
            ..self
        }
    }

    /// Writes nothing that a client at `place` has: what it is given begins with the first event.
    pub(crate) fn go_on_from(&mut self, place: Place) {
        if let Some(tracking) = &mut self.tracking {
            if !place.is_start() {
                tracking.token = None;
            }
            tracking.had = place.clone();
            tracking.has = place;
        }
    }

    /// New text of the choice `index`, after its role if this is its first.
    pub(crate) fn delta(&mut self, index: u32, delta: &v1::Delta) -> Bytes {
        let mut out = BytesMut::new();
        self.open(index, &mut out);
        // Tokens that do not yet make a character carry no text: nothing to say unless more than
        // text is wanted.
        if delta.text.is_empty() && !self.extras.return_token_ids && delta.logprobs.is_empty() {
            return out.freeze();
        }
        let shows_special = self.extras.shows_special;
        let offset = self.offsets.entry(index).or_default();
        let logprobs = (!delta.logprobs.is_empty()).then(|| {
            Logprobs::new(
                self.identity.endpoint,
                &delta.logprobs,
                shows_special,
                offset,
            )
        });
        let token_ids = self.extras.return_token_ids.then_some(&delta.token_ids[..]);
        let choice = Choice {
            index,
            logprobs,
            token_ids,
            ..choice_with(self.identity.endpoint, Some(&delta.text))
        };
        self.write_choice(choice, delta.position, &mut out);
        out.freeze()
    }

    /// The end of the choice `index`.
    pub(crate) fn finished(&mut self, index: u32, finished: &v1::Finished) -> Bytes {
        let mut out = BytesMut::new();
        self.open(index, &mut out);
        let choice = Choice {
            index,
            finish_reason: Some(finish_reason(finished)),
            stop_reason: Stop::of(finished),
            prompt_logprobs: PromptLogprobs::new(&finished.prompt_logprobs),
            ..choice_with(self.identity.endpoint, None)
        };
        self.write_choice(choice, finished.position, &mut out);
        out.freeze()
    }

    /// The end of the stream, with the sums that the client asked for.
    pub(crate) fn done(&self, totals: &Totals) -> Bytes {
        let mut out = BytesMut::new();
        let tracking = self.tracking.as_ref();
        let is_wanted = self.extras.include_usage || self.extras.report_speculation;
        if is_wanted && !tracking.is_some_and(|tracking| tracking.had.is_end()) {
            if tracking.is_some() {
                write_id(END, &mut out);
            }
            let usage = self.extras.include_usage.then(|| totals.usage());
            let report = self.extras.report_speculation.then(|| totals.report());
            write_event(&Answer::last_chunk(&self.identity, usage, report), &mut out);
        }
        out.put_slice(b"data: [DONE]\n\n");
        out.freeze()
    }

    /// An error in the middle of the stream; nothing may follow it.
    pub(crate) fn error(error: &HttpError) -> Bytes {
        let mut out = BytesMut::new();
        out.put_slice(b"data: ");
        out.put_slice(&error.to_json());
        out.put_slice(b"\n\n");
        out.freeze()
    }

    /// Sends the role of a chat choice once.
    fn open(&mut self, index: u32, out: &mut BytesMut) {
        if self.identity.endpoint == Endpoint::Completions || !self.opened.insert(index) {
            return;
        }
        let choice = Choice {
            index,
            delta: Some(Delta {
                role: Some("assistant"),
                content: Some(""),
            }),
            ..Choice::default()
        };
        self.write_choice(choice, 0, out);
    }

    /// Writes the event at `position` of its choice, unless the client has it.
    fn write_choice(&mut self, choice: Choice<'_>, position: u32, out: &mut BytesMut) {
        let mut token = None;
        if let Some(tracking) = &mut self.tracking {
            if tracking.had.has(choice.index, position) {
                return;
            }
            tracking.has.advance(choice.index, position);
            write_id(&tracking.has.id(), out);
            token = tracking.token.take();
        }
        let choices = [choice];
        let chunk = Answer::chunk(&self.identity, &choices, self.extras.include_usage);
        write_event(&chunk.resumable(token.as_deref()), out);
    }
}

fn choice_with(endpoint: Endpoint, content: Option<&str>) -> Choice<'_> {
    match endpoint {
        Endpoint::Chat => Choice {
            delta: Some(Delta {
                role: None,
                content,
            }),
            ..Choice::default()
        },
        Endpoint::Completions => Choice {
            text: Some(content.unwrap_or("")),
            ..Choice::default()
        },
    }
}

fn write_id(id: &str, out: &mut BytesMut) {
    out.put_slice(b"id: ");
    out.put_slice(id.as_bytes());
    out.put_slice(b"\n");
}

fn write_event(answer: &Answer<'_>, out: &mut BytesMut) {
    out.put_slice(b"data: ");
    // Writing strings and numbers into memory cannot fail.
    let _ = serde_json::to_writer((&mut *out).writer(), answer);
    out.put_slice(b"\n\n");
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn encoder(endpoint: Endpoint, extras: Extras) -> Encoder {
        let identity = Identity {
            endpoint,
            id: "chatcmpl-1".into(),
            created: 5,
            model: "m".into(),
            system_fingerprint: Some("fp_1".into()),
        };
        Encoder::new(identity, extras)
    }

    /// The JSON of every event; panics unless each is one `data:` line and an empty line.
    fn events(bytes: &[u8]) -> Vec<Value> {
        let text = std::str::from_utf8(bytes).unwrap();
        let events = text.strip_suffix("\n\n").unwrap().split("\n\n");
        events
            .map(|event| {
                let data = event.strip_prefix("data: ").unwrap();
                assert!(!data.contains('\n'));
                serde_json::from_str(data).unwrap_or_else(|_| json!(data))
            })
            .collect()
    }

    fn delta(text: &str) -> v1::Delta {
        v1::Delta {
            text: text.into(),
            token_ids: vec![3, 4],
            ..Default::default()
        }
    }

    #[test]
    fn role_comes_once_per_choice_and_before_its_text() {
        let mut encoder = encoder(Endpoint::Chat, Extras::default());
        let first = events(&encoder.delta(0, &delta("a\n\n\"b")));
        assert_eq!(first.len(), 2);
        assert_eq!(first[0]["object"], "chat.completion.chunk");
        assert_eq!(
            first[0]["choices"][0]["delta"],
            json!({"role": "assistant", "content": ""})
        );
        assert_eq!(
            first[1]["choices"][0]["delta"],
            json!({"content": "a\n\n\"b"})
        );
        assert_eq!(first[1].get("usage"), None);
        assert_eq!(events(&encoder.delta(0, &delta("c"))).len(), 1);
        assert_eq!(events(&encoder.delta(1, &delta("c"))).len(), 2);
    }

    #[test]
    fn finish_reason_is_null_until_the_last_chunk_of_a_choice() {
        let mut encoder = encoder(Endpoint::Chat, Extras::default());
        let first = events(&encoder.delta(0, &delta("a")));
        assert_eq!(first[1]["choices"][0]["finish_reason"], Value::Null);
        let end = v1::Finished {
            reason: v1::FinishReason::Stop.into(),
            stop_reason: Some(v1::finished::StopReason::StopText("END".into())),
            ..Default::default()
        };
        let last = events(&encoder.finished(0, &end));
        assert_eq!(last.len(), 1);
        assert_eq!(last[0]["choices"][0]["delta"], json!({}));
        assert_eq!(last[0]["choices"][0]["finish_reason"], "stop");
        assert_eq!(last[0]["choices"][0]["stop_reason"], "END");
    }

    #[test]
    fn usage_chunk_has_no_choices_and_the_others_say_null() {
        let extras = Extras {
            include_usage: true,
            ..Extras::default()
        };
        let mut encoder = encoder(Endpoint::Chat, extras);
        let first = events(&encoder.delta(0, &delta("a")));
        assert_eq!(first[0].get("usage"), Some(&Value::Null));
        let end = events(&encoder.done(&Totals::new("r")));
        assert_eq!(end.len(), 2);
        assert_eq!(end[0]["choices"], json!([]));
        assert_eq!(end[0]["usage"]["total_tokens"], 0);
        assert_eq!(end[0].get("spectrie"), None);
        assert_eq!(end[1], json!("[DONE]"));
    }

    #[test]
    fn speculation_figures_come_only_when_asked_for() {
        let silent = encoder(Endpoint::Chat, Extras::default());
        assert_eq!(events(&silent.done(&Totals::new("r"))), [json!("[DONE]")]);
        let extras = Extras {
            report_speculation: true,
            ..Extras::default()
        };
        let end = events(&encoder(Endpoint::Chat, extras).done(&Totals::new("r")));
        assert_eq!(end[0]["spectrie"]["speculation"]["verify_steps"], 0);
        assert_eq!(end[0].get("usage"), None);
    }

    #[test]
    fn completions_carry_text_and_token_ids_when_asked_for() {
        let extras = Extras {
            return_token_ids: true,
            ..Extras::default()
        };
        let mut encoder = encoder(Endpoint::Completions, extras);
        let chunks = events(&encoder.delta(2, &delta("a")));
        assert_eq!(chunks.len(), 1);
        assert_eq!(chunks[0]["object"], "text_completion");
        assert_eq!(chunks[0]["choices"][0]["text"], "a");
        assert_eq!(chunks[0]["choices"][0]["index"], 2);
        assert_eq!(chunks[0]["choices"][0]["token_ids"], json!([3, 4]));
        assert_eq!(chunks[0]["choices"][0].get("delta"), None);
    }

    #[test]
    fn logprobs_come_with_their_tokens_and_count_on() {
        let extras = Extras {
            logprobs: true,
            ..Extras::default()
        };
        let mut encoder = encoder(Endpoint::Completions, extras);
        let entry = |text: &'static str| v1::TokenLogprob {
            logprob: Some(-0.5),
            bytes: text.as_bytes().into(),
            text: text.into(),
            ..Default::default()
        };
        let mut silent = delta("");
        silent.logprobs = vec![entry("ab"), entry("c")];
        let first = events(&encoder.delta(1, &silent));
        assert_eq!(first[0]["choices"][0]["text"], "");
        assert_eq!(
            first[0]["choices"][0]["logprobs"]["text_offset"],
            json!([0, 2])
        );
        let mut next = delta("abcd");
        next.logprobs = vec![entry("d")];
        let next = events(&encoder.delta(1, &next));
        assert_eq!(next[0]["choices"][0]["logprobs"]["tokens"], json!(["d"]));
        assert_eq!(next[0]["choices"][0]["logprobs"]["text_offset"], json!([3]));
        let end = events(&encoder.finished(1, &v1::Finished::default()));
        assert_eq!(end[0]["choices"][0]["logprobs"], Value::Null);
    }

    #[test]
    fn tokens_without_text_are_held_back() {
        let mut encoder = encoder(Endpoint::Completions, Extras::default());
        assert!(encoder.delta(0, &delta("")).is_empty());
    }

    #[test]
    fn error_event_has_the_one_key_error() {
        let error = HttpError::invalid("stop", "stop: given 1");
        let events = events(&Encoder::error(&error));
        assert_eq!(
            events,
            [json!({"error": {
                "message": "stop: given 1",
                "type": "invalid_request_error",
                "param": "stop",
                "code": "invalid_value"
            }})]
        );
    }
}
