//! Prompts and predictions as token ids.

use std::sync::Arc;

use serde::Serialize;
use spectrie_proto::v1::generate_request::Prompt;
use spectrie_proto::validate::MAX_BAD_WORD_TOKENS;
use spectrie_proto::{v1, worker_v1};
use spectrie_text::TemplateOptions;

use crate::error::{ErrorKind, RequestError};
use crate::workers::ServedModel;

/// Texts longer than this are tokenized off the serving threads, in bytes: below it tokenizing
/// takes less than a millisecond.
const INLINE_BYTES: usize = 4096;

/// A chat message as templates see it.
#[derive(Debug, Serialize)]
struct Message<'a> {
    role: &'a str,
    content: &'a str,
}

/// Token ids of a prompt. Special tokens are added to a text and left to the template of a chat.
pub(crate) async fn prompt_ids(
    model: &Arc<ServedModel>,
    prompt: Option<Prompt>,
) -> Result<Vec<u32>, RequestError> {
    let (ids, field) = match prompt {
        Some(Prompt::TokenIds(ids)) => (ids.ids, "token_ids.ids"),
        Some(Prompt::Text(text)) => (encode(model, text, true, "text").await?, "text"),
        Some(Prompt::Chat(chat)) => (chat_ids(model, chat).await?.1, "chat"),
        None => return Err(RequestError::invalid("prompt", "absent")),
    };
    if ids.is_empty() {
        return Err(RequestError::invalid(
            field,
            "given 0 tokens, allowed 1 or more",
        ));
    }
    Ok(ids)
}

/// Token ids of a prediction, at most as many as a context holds.
pub(crate) async fn prediction_ids(
    model: &Arc<ServedModel>,
    content: v1::prediction::Content,
    max_context: u32,
) -> Result<Vec<u32>, RequestError> {
    let (ids, field) = match content {
        v1::prediction::Content::TokenIds(ids) => (ids.ids, "speculation.prediction.token_ids"),
        v1::prediction::Content::Text(text) => {
            let field = "speculation.prediction.text";
            (encode(model, text, false, field).await?, field)
        }
    };
    if ids.len() > max_context as usize {
        let message = format!("given {} tokens, allowed up to {max_context}", ids.len());
        return Err(RequestError::context_length(field, message));
    }
    Ok(ids)
}

/// Token sequences of texts that the output may not contain: each as it stands and behind a space,
/// since within a sentence a word's first token holds the space before it.
pub(crate) async fn bad_word_ids(
    model: &Arc<ServedModel>,
    words: Vec<String>,
) -> Result<Vec<worker_v1::TokenIds>, RequestError> {
    let num_bytes = words.iter().map(String::len).sum();
    let model = model.clone();
    run(num_bytes, move || {
        let mut sequences: Vec<worker_v1::TokenIds> = Vec::new();
        for (index, word) in words.iter().enumerate() {
            let refuse =
                |message| RequestError::invalid(format!("sampling.bad_words[{index}]"), message);
            for text in [word.clone(), format!(" {word}")] {
                let ids = model.tokenizer.encode(&text, false);
                let ids = ids.map_err(|error| refuse(error.to_string()))?;
                if !(1..=MAX_BAD_WORD_TOKENS).contains(&ids.len()) {
                    let count = ids.len();
                    let message =
                        format!("given {count} tokens, allowed 1 to {MAX_BAD_WORD_TOKENS}");
                    return Err(refuse(message));
                }
                if !sequences.iter().any(|sequence| sequence.ids == ids) {
                    sequences.push(worker_v1::TokenIds { ids });
                }
            }
        }
        Ok(sequences)
    })
    .await
}

/// Text and token ids of a chat in the model's template.
pub(crate) async fn chat_ids(
    model: &Arc<ServedModel>,
    chat: v1::ChatPrompt,
) -> Result<(String, Vec<u32>), RequestError> {
    if model.chat_template.is_none() {
        let message = format!("model {:?} has no chat template, send text", model.name);
        return Err(RequestError::unsupported("chat", message));
    }
    let num_bytes: usize = chat
        .messages
        .iter()
        .map(|message| message.content.len())
        .sum();
    let model = model.clone();
    run(num_bytes, move || {
        let Some(template) = &model.chat_template else {
            return Ok(Default::default());
        };
        let options = TemplateOptions {
            add_generation_prompt: chat.add_generation_prompt.unwrap_or(true),
            ..TemplateOptions::default()
        };
        let messages: Vec<_> = chat
            .messages
            .iter()
            .map(|message| Message {
                role: &message.role,
                content: &message.content,
            })
            .collect();
        let text = template
            .render(&messages, &options)
            .map_err(|error| RequestError::invalid("chat.messages", error.to_string()))?;
        let ids = model
            .tokenizer
            .encode(&text, false)
            .map_err(|error| RequestError::invalid("chat", error.to_string()))?;
        Ok((text, ids))
    })
    .await
}

/// Token ids of a text.
pub(crate) async fn encode(
    model: &Arc<ServedModel>,
    text: String,
    add_special_tokens: bool,
    field: &'static str,
) -> Result<Vec<u32>, RequestError> {
    let model = model.clone();
    run(text.len(), move || {
        model
            .tokenizer
            .encode(&text, add_special_tokens)
            .map_err(|error| RequestError::invalid(field, error.to_string()))
    })
    .await
}

/// Runs `work` here when it is short, else on a thread that may block.
pub(crate) async fn run<T: Send + 'static>(
    num_bytes: usize,
    work: impl FnOnce() -> Result<T, RequestError> + Send + 'static,
) -> Result<T, RequestError> {
    if num_bytes <= INLINE_BYTES {
        return work();
    }
    match tokio::task::spawn_blocking(work).await {
        Ok(result) => result,
        Err(_) => Err(RequestError::new(ErrorKind::Internal, "tokenizing failed")),
    }
}
