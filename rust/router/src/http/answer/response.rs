//! OpenAI's response objects, whole and in chunks, as they are written to the wire.

use serde::Serialize;
use spectrie_proto::v1;
use spectrie_proto::v1::finished::StopReason;

use super::logprobs::{Logprobs, PromptLogprobs};
use super::usage::{Report, Usage};
use crate::http::convert::Endpoint;

/// What every object of one answer repeats.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Identity {
    pub(crate) endpoint: Endpoint,
    /// `chatcmpl-…` or `cmpl-…`
    pub(crate) id: String,
    /// Unix time in seconds.
    pub(crate) created: i64,
    pub(crate) model: String,
    /// Short hash of the numeric fingerprint: equal fingerprints give equal tokens for equal seeds.
    pub(crate) system_fingerprint: Option<String>,
}

impl Identity {
    fn object(&self, whole: bool) -> &'static str {
        match (self.endpoint, whole) {
            (Endpoint::Chat, true) => "chat.completion",
            (Endpoint::Chat, false) => "chat.completion.chunk",
            // OpenAI's older endpoint has one name for both.
            (Endpoint::Completions, _) => "text_completion",
        }
    }
}

/// A whole answer, or one chunk of a stream.
#[derive(Debug, Serialize)]
pub(crate) struct Answer<'a> {
    id: &'a str,
    object: &'static str,
    created: i64,
    model: &'a str,
    system_fingerprint: Option<&'a str>,
    choices: &'a [Choice<'a>],
    #[serde(skip_serializing_if = "UsageField::is_absent")]
    usage: UsageField,
    #[serde(skip_serializing_if = "Option::is_none")]
    spectrie: Option<Report>,
    /// In the first event of a stream that its client can go on with.
    #[serde(skip_serializing_if = "Option::is_none")]
    resume_token: Option<&'a str>,
}

/// `usage` of an answer.
#[derive(Debug, Serialize)]
#[serde(untagged)]
enum UsageField {
    Absent,
    /// In the chunks before the one that carries it.
    Null,
    Given(Usage),
}

impl UsageField {
    fn is_absent(&self) -> bool {
        matches!(self, Self::Absent)
    }
}

impl<'a> Answer<'a> {
    /// A whole answer.
    pub(crate) fn whole(
        identity: &'a Identity,
        choices: &'a [Choice<'a>],
        usage: Usage,
        report: Report,
    ) -> Self {
        Self {
            usage: UsageField::Given(usage),
            spectrie: Some(report),
            ..Self::chunk(identity, choices, true)
        }
        .named(identity.object(true))
    }

    /// One chunk of choices. `usage_follows` adds the null that announces a usage chunk.
    pub(crate) fn chunk(
        identity: &'a Identity,
        choices: &'a [Choice<'a>],
        usage_follows: bool,
    ) -> Self {
        Self {
            id: &identity.id,
            object: identity.object(false),
            created: identity.created,
            model: &identity.model,
            system_fingerprint: identity.system_fingerprint.as_deref(),
            choices,
            usage: if usage_follows {
                UsageField::Null
            } else {
                UsageField::Absent
            },
            spectrie: None,
            resume_token: None,
        }
    }

    /// The same, with what its client may go on with.
    pub(crate) fn resumable(self, resume_token: Option<&'a str>) -> Self {
        Self {
            resume_token,
            ..self
        }
    }

    /// The last chunk: no choices, sums alone.
    pub(crate) fn last_chunk(
        identity: &'a Identity,
        usage: Option<Usage>,
        report: Option<Report>,
    ) -> Self {
        Self {
            usage: usage.map_or(UsageField::Absent, UsageField::Given),
            spectrie: report,
            ..Self::chunk(identity, &[], false)
        }
    }

    fn named(self, object: &'static str) -> Self {
        Self { object, ..self }
    }
}

/// One choice: a message or a delta for chat, text for completions.
#[derive(Debug, Default, Serialize)]
pub(crate) struct Choice<'a> {
    pub(crate) index: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) message: Option<Message<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) delta: Option<Delta<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) text: Option<&'a str>,
    /// Null unless asked for: OpenAI's clients expect the field.
    pub(crate) logprobs: Option<Logprobs<'a>>,
    pub(crate) finish_reason: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) stop_reason: Option<Stop<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) token_ids: Option<&'a [u32]>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) prompt_logprobs: Option<PromptLogprobs<'a>>,
}

/// The whole message of a chat choice.
#[derive(Debug, Serialize)]
pub(crate) struct Message<'a> {
    role: &'static str,
    content: &'a str,
    /// Always null: this server refuses nothing by itself.
    refusal: Option<()>,
}

impl<'a> Message<'a> {
    pub(crate) fn new(content: &'a str) -> Self {
        Self {
            role: "assistant",
            content,
            refusal: None,
        }
    }
}

/// What a chat chunk adds.
#[derive(Debug, Default, Serialize)]
pub(crate) struct Delta<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) role: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) content: Option<&'a str>,
}

/// The stop text or stop token that ended a choice.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(untagged)]
pub(crate) enum Stop<'a> {
    Text(&'a str),
    Token(u32),
}

impl<'a> Stop<'a> {
    pub(crate) fn of(finished: &'a v1::Finished) -> Option<Self> {
        finished.stop_reason.as_ref().map(|reason| match reason {
            StopReason::StopText(text) => Self::Text(text),
            StopReason::StopTokenId(id) => Self::Token(*id),
        })
    }
}

/// OpenAI's word for why a choice ended.
pub(crate) fn finish_reason(finished: &v1::Finished) -> &'static str {
    match finished.reason() {
        v1::FinishReason::Length => "length",
        v1::FinishReason::Stop | v1::FinishReason::Unspecified => "stop",
    }
}
