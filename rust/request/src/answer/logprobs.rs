//! A worker's log-probabilities with the text and bytes of their tokens.

use bytes::Bytes;
use spectrie_proto::{v1, worker_v1};
use spectrie_text::Tokenizer;

/// Adds text and bytes to every token of `logprobs`, which an engine knows by its id alone.
pub fn with_text(
    tokenizer: &Tokenizer,
    logprobs: Vec<worker_v1::TokenLogprob>,
) -> Vec<v1::TokenLogprob> {
    let logprobs = logprobs.into_iter();
    logprobs
        .map(|entry| {
            let (bytes, text) = name(tokenizer, entry.token_id);
            let top = entry.top_ids.into_iter().zip(entry.top_logprobs);
            v1::TokenLogprob {
                token_id: entry.token_id,
                logprob: entry.logprob,
                top: top
                    .map(|(token_id, logprob)| {
                        let (bytes, text) = name(tokenizer, token_id);
                        v1::TopLogprob {
                            token_id,
                            logprob,
                            bytes,
                            text,
                        }
                    })
                    .collect(),
                bytes,
                text,
            }
        })
        .collect()
}

/// Bytes and text of a token. A special token has no bytes, and its name for a text.
fn name(tokenizer: &Tokenizer, id: u32) -> (Bytes, String) {
    let bytes = tokenizer.token_bytes(id).unwrap_or_default();
    let text = String::from_utf8_lossy(&bytes).into_owned();
    if tokenizer.is_special_token(id) {
        return (Bytes::new(), text);
    }
    (bytes.into(), text)
}
