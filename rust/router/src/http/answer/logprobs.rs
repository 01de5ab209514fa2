//! Log-probabilities in the shapes of OpenAI's two endpoints, and of a prompt in vLLM's.

use std::borrow::Cow;
use std::fmt::Write as _;

use serde::{Serialize, Serializer};
use spectrie_proto::v1::{TokenLogprob, TopLogprob};

use crate::http::convert::Endpoint;

/// Replaces lower values and minus infinity, which JSON does not have. OpenAI's own number.
const LEAST: f32 = -9999.0;

/// `logprobs` of one choice.
#[derive(Debug, Serialize)]
#[serde(untagged)]
pub(crate) enum Logprobs<'a> {
    Chat {
        content: Vec<ChatToken<'a>>,
        /// Always null: this server refuses nothing by itself.
        refusal: Option<()>,
    },
    Completions(Table<'a>),
}

/// A token of a chat answer.
#[derive(Debug, Serialize)]
pub(crate) struct ChatToken<'a> {
    #[serde(flatten)]
    token: ChatTop<'a>,
    top_logprobs: Vec<ChatTop<'a>>,
}

/// One of the likeliest tokens at a place.
#[derive(Debug, Serialize)]
struct ChatTop<'a> {
    token: Cow<'a, str>,
    logprob: f32,
    /// Null for a special token, which stands for no text.
    bytes: Option<&'a [u8]>,
}

/// Lists side by side, one entry per token.
#[derive(Debug, Default, Serialize)]
pub(crate) struct Table<'a> {
    tokens: Vec<Cow<'a, str>>,
    token_logprobs: Vec<f32>,
    top_logprobs: Vec<ByName<'a>>,
    /// Where each token begins, in characters from the start of the choice's text.
    text_offset: Vec<usize>,
}

/// The likeliest tokens by name, and the token itself if it is not among them.
#[derive(Debug)]
struct ByName<'a>(&'a TokenLogprob);

impl<'a> Logprobs<'a> {
    /// In the shape of `endpoint`. `offset` is how many characters of text came before, and is moved
    /// after these tokens; `shows_special` is whether special tokens are part of the text.
    pub(crate) fn new(
        endpoint: Endpoint,
        entries: &'a [TokenLogprob],
        shows_special: bool,
        offset: &mut usize,
    ) -> Self {
        match endpoint {
            Endpoint::Chat => Self::Chat {
                content: entries.iter().map(chat_token).collect(),
                refusal: None,
            },
            Endpoint::Completions => {
                let mut table = Table::default();
                for entry in entries {
                    table.tokens.push(name("bytes:", &entry.bytes, &entry.text));
                    table
                        .token_logprobs
                        .push(bounded(entry.logprob.unwrap_or(LEAST)));
                    table.top_logprobs.push(ByName(entry));
                    table.text_offset.push(*offset);
                    *offset += num_characters(entry, shows_special);
                }
                Self::Completions(table)
            }
        }
    }
}

fn chat_token(entry: &TokenLogprob) -> ChatToken<'_> {
    let others = entry.top.iter();
    ChatToken {
        token: chat_top(&entry.bytes, &entry.text, entry.logprob.unwrap_or(LEAST)),
        top_logprobs: others
            .map(|other| chat_top(&other.bytes, &other.text, other.logprob))
            .collect(),
    }
}

fn chat_top<'a>(bytes: &'a [u8], text: &'a str, logprob: f32) -> ChatTop<'a> {
    ChatTop {
        token: name("", bytes, text),
        logprob: bounded(logprob),
        bytes: Some(bytes).filter(|bytes| !bytes.is_empty()),
    }
}

fn bounded(logprob: f32) -> f32 {
    logprob.max(LEAST)
}

/// What a token is called: its text, or `prefix` and its bytes as `\xNN` where they are no text.
fn name<'a>(prefix: &str, bytes: &[u8], text: &'a str) -> Cow<'a, str> {
    if bytes.is_empty() || bytes == text.as_bytes() {
        return Cow::Borrowed(text);
    }
    let mut name = prefix.to_owned();
    for byte in bytes {
        // Writing to a string cannot fail.
        let _ = write!(name, "\\x{byte:02x}");
    }
    Cow::Owned(name)
}

/// Characters that begin in a token.
fn num_characters(entry: &TokenLogprob, shows_special: bool) -> usize {
    let is_special = entry.bytes.is_empty();
    if is_special {
        return if shows_special {
            entry.text.chars().count()
        } else {
            0
        };
    }
    let begins_one = |byte: &&u8| **byte & 0xC0 != 0x80;
    entry.bytes.iter().filter(begins_one).count()
}

impl Serialize for ByName<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Self(entry) = self;
        let is_listed = entry
            .top
            .iter()
            .any(|other| other.token_id == entry.token_id);
        let own = (!is_listed).then(|| {
            let logprob = bounded(entry.logprob.unwrap_or(LEAST));
            (name("bytes:", &entry.bytes, &entry.text), logprob)
        });
        let others = entry.top.iter().map(|other| {
            let name = name("bytes:", &other.bytes, &other.text);
            (name, bounded(other.logprob))
        });
        serializer.collect_map(others.chain(own))
    }
}

/// `prompt_logprobs`: null for the first token, then objects by token id.
#[derive(Debug)]
pub(crate) struct PromptLogprobs<'a>(&'a [TokenLogprob]);

impl<'a> PromptLogprobs<'a> {
    /// None where there are no entries.
    pub(crate) fn new(entries: &'a [TokenLogprob]) -> Option<Self> {
        (!entries.is_empty()).then_some(Self(entries))
    }
}

impl Serialize for PromptLogprobs<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(
            self.0
                .iter()
                .map(|entry| entry.logprob.map(|_| ById(entry))),
        )
    }
}

/// The token itself and the likeliest ones, by token id.
struct ById<'a>(&'a TokenLogprob);

#[derive(Serialize)]
struct Ranked<'a> {
    logprob: f32,
    /// 1 for the likeliest; null below those that were asked for.
    rank: Option<usize>,
    decoded_token: &'a str,
}

impl Serialize for ById<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Self(entry) = self;
        let rank_of = |id| entry.top.iter().position(|other| other.token_id == id);
        let own = Ranked {
            logprob: bounded(entry.logprob.unwrap_or(LEAST)),
            rank: rank_of(entry.token_id).map(|index| index + 1),
            decoded_token: &entry.text,
        };
        let others = entry.top.iter().zip(1..);
        let others = others.filter(|(other, _)| other.token_id != entry.token_id);
        let others = others.map(|(other, rank): (&TopLogprob, usize)| {
            let ranked = Ranked {
                logprob: bounded(other.logprob),
                rank: Some(rank),
                decoded_token: &other.text,
            };
            (other.token_id, ranked)
        });
        serializer.collect_map(std::iter::once((entry.token_id, own)).chain(others))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn token(id: u32, bytes: &'static [u8], text: &str, logprob: f32) -> TokenLogprob {
        TokenLogprob {
            token_id: id,
            logprob: Some(logprob),
            top: Vec::new(),
            bytes: bytes.into(),
            text: text.into(),
        }
    }

    fn top(token: TokenLogprob) -> TopLogprob {
        TopLogprob {
            token_id: token.token_id,
            logprob: token.logprob.unwrap(),
            bytes: token.bytes,
            text: token.text,
        }
    }

    fn entries() -> Vec<TokenLogprob> {
        let mut first = token(1, b"hi", "hi", -0.5);
        first.top = vec![top(token(2, b"\n", "\n", -0.25)), top(first.clone())];
        let mut second = token(3, b"\xC3", "\u{FFFD}", -1.0);
        second.top = vec![top(token(1, b"hi", "hi", -0.125))];
        let third = token(4, b"\xB6!", "\u{FFFD}!", f32::NEG_INFINITY);
        let end = token(9, b"", "<|end|>", -2.0);
        vec![first, second, third, end]
    }

    fn shape(endpoint: Endpoint) -> (Value, usize) {
        let mut offset = 5;
        let entries = entries();
        let logprobs = Logprobs::new(endpoint, &entries, false, &mut offset);
        (serde_json::to_value(logprobs).unwrap(), offset)
    }

    #[test]
    fn chat_has_a_list_of_tokens_with_bytes_and_alternatives() {
        let (chat, _) = shape(Endpoint::Chat);
        assert_eq!(chat["refusal"], Value::Null);
        assert_eq!(
            chat["content"][0],
            json!({
                "token": "hi", "logprob": -0.5, "bytes": [104, 105],
                "top_logprobs": [
                    {"token": "\n", "logprob": -0.25, "bytes": [10]},
                    {"token": "hi", "logprob": -0.5, "bytes": [104, 105]}
                ]
            })
        );
        assert_eq!(chat["content"][1]["token"], "\\xc3");
        assert_eq!(chat["content"][1]["bytes"], json!([0xC3]));
        assert_eq!(chat["content"][2]["logprob"], -9999.0);
        assert_eq!(chat["content"][3]["token"], "<|end|>");
        assert_eq!(chat["content"][3]["bytes"], Value::Null);
    }

    #[test]
    fn completions_have_lists_side_by_side_and_offsets_in_characters() {
        let (table, offset) = shape(Endpoint::Completions);
        assert_eq!(
            table,
            json!({
                "tokens": ["hi", "bytes:\\xc3", "bytes:\\xb6\\x21", "<|end|>"],
                "token_logprobs": [-0.5, -1.0, -9999.0, -2.0],
                "top_logprobs": [
                    {"\n": -0.25, "hi": -0.5},
                    {"hi": -0.125, "bytes:\\xc3": -1.0},
                    {"bytes:\\xb6\\x21": -9999.0},
                    {"<|end|>": -2.0}
                ],
                "text_offset": [5, 7, 8, 9]
            })
        );
        assert_eq!(offset, 9);
    }

    #[test]
    fn prompt_is_told_by_token_id_and_its_first_token_is_null() {
        let mut entries = entries();
        entries[2].logprob = None;
        entries.rotate_left(2);
        let prompt = PromptLogprobs::new(&entries).unwrap();
        let prompt = serde_json::to_value(prompt).unwrap();
        assert_eq!(prompt[0], Value::Null);
        assert_eq!(
            prompt[2],
            json!({
                "1": {"logprob": -0.5, "rank": 2, "decoded_token": "hi"},
                "2": {"logprob": -0.25, "rank": 1, "decoded_token": "\n"}
            })
        );
        assert_eq!(prompt[3]["3"]["rank"], Value::Null);
        assert!(PromptLogprobs::new(&[]).is_none());
    }
}
