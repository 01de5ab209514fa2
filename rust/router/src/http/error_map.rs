//! The core's errors in the words of this API: OpenAI's status, type and code, and the field as the
//! client wrote it.

use crate::error::{ErrorKind, RequestError};

use super::convert::Names;
use super::error::HttpError;

impl HttpError {
    /// The core's error, its fields renamed to those of the request.
    pub(super) fn of_core(error: RequestError, names: Names) -> Self {
        let param = error.field().map(|field| names.rename(field));
        // In these kinds the violations say all that the message says, under the core's names.
        let renames = matches!(
            error.kind,
            ErrorKind::InvalidField | ErrorKind::ContextLength | ErrorKind::Unsupported
        );
        let message = if renames && !error.violations.is_empty() {
            let sentences = error.violations.iter();
            let sentences = sentences.map(|violation| {
                format!("{}: {}", names.rename(&violation.field), violation.message)
            });
            sentences.collect::<Vec<_>>().join("; ")
        } else {
            error.message
        };
        let param = match error.kind {
            ErrorKind::ModelNotFound => Some("model".to_owned()),
            _ => param,
        };
        Self {
            retry_after: error.retry_after,
            ..Self::new(
                error.kind.http_status(),
                error.kind.openai_type(),
                error.kind.openai_code(),
                param.as_deref(),
                message,
            )
        }
    }
}

impl From<RequestError> for HttpError {
    fn from(error: RequestError) -> Self {
        Self::of_core(error, Names::default())
    }
}

impl Names {
    /// The name that the client uses for a field of the proto file.
    fn rename(self, field: &str) -> String {
        let field = field
            .strip_prefix("sampling.")
            .or_else(|| field.strip_prefix("stopping."))
            .unwrap_or(field);
        match field {
            "output.logprobs" => return self.logprobs.to_owned(),
            "output.prompt_logprobs" => return "prompt_logprobs".to_owned(),
            "structured.json_schema" => return self.schema.to_owned(),
            _ => {}
        }
        if let Some(kind) = field.strip_prefix("structured.") {
            return format!(
                "structured_outputs.{}",
                kind.replacen("choice.texts", "choice", 1)
            );
        }
        if field == "max_tokens" {
            return self.max_tokens.to_owned();
        }
        if let Some(index) = field.strip_prefix("token_ids.ids") {
            return format!("{}{index}", self.prompt);
        }
        if matches!(field, "text" | "prompt" | "chat" | "token_ids") {
            return self.prompt.to_owned();
        }
        if let Some(rest) = field.strip_prefix("chat.") {
            return rest.to_owned();
        }
        match field.strip_prefix("speculation.prediction") {
            Some("") => "prediction".to_owned(),
            Some(_) => "prediction.content".to_owned(),
            None => field.to_owned(),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use spectrie_request::{Refusal, RefusalKind};

    use super::*;

    const NAMES: Names = Names {
        max_tokens: "max_completion_tokens",
        prompt: "messages",
        logprobs: "top_logprobs",
        schema: "response_format.json_schema.schema",
    };

    #[test]
    fn fields_are_called_what_the_client_calls_them() {
        for (core, client) in [
            ("sampling.top_p", "top_p"),
            ("sampling.logit_bias[7]", "logit_bias[7]"),
            ("stopping.stop[2]", "stop[2]"),
            ("stopping.max_tokens", "max_completion_tokens"),
            ("token_ids.ids[3]", "messages[3]"),
            ("chat", "messages"),
            ("chat.messages[0].role", "messages[0].role"),
            ("prompt", "messages"),
            (
                "speculation.max_draft_tokens",
                "speculation.max_draft_tokens",
            ),
            ("speculation.prediction.text", "prediction.content"),
            ("namespace", "namespace"),
            ("sampling.bad_words[3]", "bad_words[3]"),
            ("output.logprobs", "top_logprobs"),
            ("output.prompt_logprobs", "prompt_logprobs"),
            (
                "structured.json_schema",
                "response_format.json_schema.schema",
            ),
            ("structured.regex", "structured_outputs.regex"),
            ("structured.choice.texts[1]", "structured_outputs.choice[1]"),
        ] {
            assert_eq!(NAMES.rename(core), client);
        }
    }

    #[test]
    fn message_names_the_fields_of_the_client_and_param_the_first() {
        let error = RequestError::invalid("stopping.max_tokens", "given 0; allowed: 1 or more");
        let error = HttpError::of_core(error, NAMES);
        assert_eq!(error.status, 400);
        assert_eq!(error.param.as_deref(), Some("max_completion_tokens"));
        assert_eq!(
            error.message,
            "max_completion_tokens: given 0; allowed: 1 or more"
        );
    }

    #[test]
    fn too_long_for_the_context_names_the_field() {
        let error = RequestError::from(Refusal::new(
            RefusalKind::ContextLength,
            "stopping.max_tokens",
            "given 9; allowed: 1 to 5",
        ));
        let error = HttpError::of_core(error, NAMES);
        assert_eq!(error.code, Some("context_length_exceeded"));
        assert_eq!(
            error.message,
            "max_completion_tokens: given 9; allowed: 1 to 5"
        );
    }

    #[test]
    fn waiting_time_and_code_are_kept() {
        let wait = Duration::from_millis(1500);
        let error = RequestError::retry(ErrorKind::QueueFull, "the queue is full", wait);
        let error = HttpError::from(error);
        assert_eq!(error.status, 429);
        assert_eq!(error.kind, "overloaded_error");
        assert_eq!(error.code, Some("queue_full"));
        assert_eq!(error.retry_after, Some(wait));
    }
}
