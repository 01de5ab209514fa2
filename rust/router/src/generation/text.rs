//! Calls that need a model's text side alone.

use std::sync::Arc;

use spectrie_proto::v1;
use spectrie_request::Refusal;
use spectrie_request::resolve::{chat_bytes, chat_text_and_ids, encode};
use spectrie_request::validate::{check_chat, check_id_list};

use super::blocking::Asker;
use super::{Caller, Generation};
use crate::access::Pass;
use crate::error::{ErrorKind, RequestError};
use crate::sync::now;
use crate::workers::ServedModel;

/// Most tokens of a text that is only to be tokenized, or of which only the text is asked for.
const MAX_TOKENS: usize = 1 << 18;

impl Generation {
    /// The model of a call, and what holds its place among those of its key.
    fn text_model(
        &self,
        name: Option<&str>,
        caller: &Caller,
    ) -> Result<(Arc<ServedModel>, Option<Pass>), RequestError> {
        if let Some(name) = name {
            caller.check_model(name)?;
        }
        let found = self.shared.registry.find(name);
        let (model, _) = found.map_err(|refusal| caller.refused(refusal, name))?;
        caller.check_model(&model.name)?;
        Ok((model, caller.begin()?))
    }

    /// For whom a text is turned, and how long.
    fn asker<'a>(&self, caller: &'a Caller) -> Asker<'a> {
        Asker {
            tenant: caller.tenant(),
            deadline: self.deadline(caller.deadline, now()),
        }
    }

    /// Token ids of a text.
    ///
    /// # Errors
    /// Unknown model or one that is not open to the caller, its key's limits, or text that the tokenizer refuses.
    pub async fn tokenize(
        &self,
        request: v1::TokenizeRequest,
        caller: &Caller,
    ) -> Result<v1::TokenizeResponse, RequestError> {
        let (model, _pass) = self.text_model(request.model.as_deref(), caller)?;
        let add_special_tokens = request.add_special_tokens.unwrap_or(false);
        let text = request.text;
        let num_bytes = text.len();
        let work = move || encode(&model.text, &text, add_special_tokens, "text", MAX_TOKENS);
        let token_ids = self
            .shared
            .texts
            .run(self.asker(caller), num_bytes, work)
            .await?;
        Ok(v1::TokenizeResponse { token_ids })
    }

    /// Text of token ids.
    ///
    /// # Errors
    /// Unknown model or one that is not open to the caller, its key's limits, ids outside the vocabulary, or too many.
    pub async fn detokenize(
        &self,
        request: v1::DetokenizeRequest,
        caller: &Caller,
    ) -> Result<v1::DetokenizeResponse, RequestError> {
        let (model, _pass) = self.text_model(request.model.as_deref(), caller)?;
        let ids = request.token_ids;
        if ids.len() > MAX_TOKENS {
            let message = format!("given {} ids; allowed: up to {MAX_TOKENS}", ids.len());
            return Err(RequestError::invalid("token_ids", message));
        }
        let violations = check_id_list("token_ids", &ids, model.vocabulary_size);
        if !violations.is_empty() {
            return Err(RequestError::invalid_fields(violations));
        }
        let text_bytes = model.text.tokenizer.most_bytes(&ids);
        let limit = self.shared.config.limits.max_message_bytes;
        if text_bytes > limit {
            let message = format!(
                "given {} ids, whose text can have {text_bytes} bytes; allowed: up to {limit}, as many as a \
                 message has: send them in parts",
                ids.len()
            );
            return Err(RequestError::invalid("token_ids", message));
        }
        let skip_special_tokens = request.skip_special_tokens.unwrap_or(true);
        let num_bytes = size_of_val(&ids[..]) + text_bytes;
        let text = self
            .shared
            .texts
            .run(self.asker(caller), num_bytes, move || {
                let decoded = model.text.tokenizer.decode(&ids, skip_special_tokens);
                decoded.map_err(|error| Refusal::invalid("token_ids", error.to_string()))
            })
            .await?;
        Ok(v1::DetokenizeResponse { text })
    }

    /// Text and token ids of chat messages in the model's template.
    ///
    /// # Errors
    /// Unknown model or one that is not open to the caller, its key's limits, a model without template, or messages that the template refuses.
    pub async fn apply_chat_template(
        &self,
        request: v1::ApplyChatTemplateRequest,
        caller: &Caller,
    ) -> Result<v1::ApplyChatTemplateResponse, RequestError> {
        let violations = check_chat(request.chat.as_ref());
        if !violations.is_empty() {
            return Err(RequestError::invalid_fields(violations));
        }
        let (model, _pass) = self.text_model(request.model.as_deref(), caller)?;
        let Some(chat) = request.chat else {
            return Err(RequestError::new(
                ErrorKind::Internal,
                "a checked chat was absent",
            ));
        };
        let num_bytes = chat_bytes(&chat);
        let work = move || chat_text_and_ids(model.facts(0), &chat, "chat", MAX_TOKENS);
        let (text, token_ids) = self
            .shared
            .texts
            .run(self.asker(caller), num_bytes, work)
            .await?;
        Ok(v1::ApplyChatTemplateResponse { text, token_ids })
    }
}
