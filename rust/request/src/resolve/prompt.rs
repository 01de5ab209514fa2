//! Prompts, predictions and banned texts as token ids.

use serde::Serialize;
use spectrie_proto::v1::generate_request::Prompt;
use spectrie_proto::{v1, worker_v1};
use spectrie_text::{TemplateOptions, TextError, TextFiles};
use spectrie_types::limits::MAX_BAD_WORD_IDS;

use crate::model::Model;
use crate::refusal::{Refusal, RefusalKind, Refusals};

/// A chat message as templates see it.
#[derive(Debug, Serialize)]
struct Message<'a> {
    role: &'a str,
    content: &'a str,
}

/// Token ids of a prompt. Special tokens are added to a text and left to the template of a chat.
pub(super) fn prompt_ids(model: Model<'_>, prompt: Option<Prompt>) -> Result<Vec<u32>, Refusal> {
    let longest = model.max_context.saturating_sub(1) as usize;
    let (ids, field) = match prompt {
        Some(Prompt::TokenIds(ids)) => (ids.ids, "token_ids.ids"),
        Some(Prompt::Text(text)) => {
            let ids = encode(model.text, &text, true, "prompt", longest);
            (ids?, "text")
        }
        Some(Prompt::Chat(chat)) => (
            chat_text_and_ids(model, &chat, "prompt", longest)?.1,
            "chat",
        ),
        None => return Err(Refusal::invalid("prompt", "required")),
    };
    if ids.is_empty() {
        let message = "given 0 tokens; allowed: 1 or more";
        return Err(Refusal::invalid(field, message));
    }
    Ok(ids)
}

/// Refuses a prompt that fits no context of `max_context` tokens whatever its tokens are, without
/// tokenizing it. Of a chat nothing is known before it is rendered.
///
/// # Errors
/// The prompt has more tokens than a context holds beside one of the answer.
pub fn check_reach(
    text: &TextFiles,
    prompt: Option<&Prompt>,
    max_context: u32,
) -> Result<(), Refusal> {
    let longest = max_context.saturating_sub(1) as usize;
    let message = match prompt {
        Some(Prompt::TokenIds(ids)) if ids.ids.len() > longest => {
            let given = ids.ids.len();
            format!("given a prompt of {given} tokens; allowed: 1 to {longest}")
        }
        Some(Prompt::Text(prompt)) if text.tokenizer.fewest_tokens(prompt) > longest => {
            format!("given more than {longest} tokens; allowed: 1 to {longest}")
        }
        _ => return Ok(()),
    };
    Err(Refusal::new(RefusalKind::ContextLength, "prompt", message))
}

/// Token ids of a prediction, at most as many as a context holds.
pub(super) fn prediction_ids(
    model: Model<'_>,
    content: v1::prediction::Content,
) -> Result<Vec<u32>, Refusal> {
    let (ids, field) = match content {
        v1::prediction::Content::TokenIds(ids) => (ids.ids, "speculation.prediction.token_ids"),
        v1::prediction::Content::Text(text) => {
            let field = "speculation.prediction.text";
            let longest = model.max_context as usize;
            (encode(model.text, &text, false, field, longest)?, field)
        }
    };
    if ids.len() > model.max_context as usize {
        let most = model.max_context;
        let message = format!("given {} tokens; allowed: up to {most}", ids.len());
        return Err(Refusal::new(RefusalKind::ContextLength, field, message));
    }
    Ok(ids)
}

/// Token sequences of texts that the output may not contain: each as it stands and after a space,
/// since within a sentence a word's first token holds the space before it.
pub(super) fn bad_word_ids(
    text: &TextFiles,
    words: &[String],
) -> Result<Vec<worker_v1::TokenIds>, Refusal> {
    let mut sequences: Vec<worker_v1::TokenIds> = Vec::new();
    let mut refusals = Refusals::default();
    for (index, word) in words.iter().enumerate() {
        let field = format!("sampling.bad_words[{index}]");
        for spelled in [word.clone(), format!(" {word}")] {
            let ids = encode(text, &spelled, false, &field, MAX_BAD_WORD_IDS);
            let ids = ids.map_err(|refusal| Refusal {
                kind: RefusalKind::InvalidField,
                ..refusal
            });
            let ids = ids.and_then(|ids| {
                if (1..=MAX_BAD_WORD_IDS).contains(&ids.len()) {
                    return Ok(ids);
                }
                let count = ids.len();
                let message = format!("given {count} tokens; allowed: 1 to {MAX_BAD_WORD_IDS}");
                Err(Refusal::invalid(&field, message))
            });
            match ids {
                Ok(ids) if sequences.iter().any(|sequence| sequence.ids == ids) => {}
                Ok(ids) => sequences.push(worker_v1::TokenIds { ids }),
                Err(refusal) => {
                    refusals.add(refusal);
                    break;
                }
            }
        }
    }
    refusals.into_result().map(|()| sequences)
}

/// Text and token ids of a chat in the model's template, of which at most `max_tokens` are wanted.
///
/// # Errors
/// The model has no template, the template refuses the messages, or `field` is far longer.
pub fn chat_text_and_ids(
    model: Model<'_>,
    chat: &v1::ChatPrompt,
    field: &str,
    max_tokens: usize,
) -> Result<(String, Vec<u32>), Refusal> {
    let Some(template) = &model.text.template else {
        let message = format!("model {:?} has no chat template, send text", model.name);
        return Err(Refusal::new(RefusalKind::Unsupported, "chat", message));
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
        .map_err(|error| Refusal::invalid("chat.messages", error.to_string()))?;
    let ids = encode(model.text, &text, false, field, max_tokens)?;
    Ok((text, ids))
}

/// Token ids of a text, of which at most `max_tokens` are wanted. Work is bounded by that number:
/// the ids of a text that is a little longer are returned.
///
/// # Errors
/// What the tokenizer says of a text that it refuses, or that the text is far longer, as a violation
/// of `field`.
pub fn encode(
    files: &TextFiles,
    text: &str,
    add_special_tokens: bool,
    field: &str,
    max_tokens: usize,
) -> Result<Vec<u32>, Refusal> {
    let ids = files
        .tokenizer
        .encode_within(text, add_special_tokens, max_tokens);
    ids.map_err(|error| match error {
        TextError::TooLong { limit } => {
            let message = format!("given more than {limit} tokens; allowed: 1 to {limit}");
            Refusal::new(RefusalKind::ContextLength, field, message)
        }
        error => Refusal::invalid(field, error.to_string()),
    })
}
