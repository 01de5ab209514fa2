//! One request from its first check to its last event, whichever API it came from.

use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Instant;

use futures_core::Stream;
use spectrie_proto::v1;

use crate::error::{ErrorKind, RequestError};

/// Who sent a request, and how long it may take.
#[derive(Clone, Debug, Default)]
pub struct Caller {
    /// Tenant of the API key; none when everyone may call.
    pub tenant: Option<String>,
    /// When the answer is of no more use; the server's default when absent.
    pub deadline: Option<Instant>,
}

/// Runs requests on the workers that have joined. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Generation {}

impl Generation {
    /// Checks a request, sends its choices to a worker and gives the stream of its events.
    ///
    /// Waits while a worker is loading or restarting, up to `workers.wait_s` or the deadline.
    ///
    /// # Errors
    /// Everything that can be known before the first token: bad fields, unknown model, full queue,
    /// no worker, deadline.
    pub async fn start(
        &self,
        _request: v1::GenerateRequest,
        _caller: Caller,
    ) -> Result<GenerationStream, RequestError> {
        Err(RequestError::new(
            ErrorKind::Unavailable,
            "no worker is ready",
        ))
    }

    /// The models that can answer now, by name.
    pub fn models(&self) -> Vec<v1::Model> {
        Vec::new()
    }

    /// Whether a worker is ready and the router is not draining.
    pub fn is_ready(&self) -> bool {
        false
    }

    /// Token ids of a text.
    ///
    /// # Errors
    /// Unknown model, or text that the tokenizer refuses.
    pub async fn tokenize(
        &self,
        _request: v1::TokenizeRequest,
    ) -> Result<v1::TokenizeResponse, RequestError> {
        Err(RequestError::new(
            ErrorKind::Unavailable,
            "no worker is ready",
        ))
    }

    /// Text of token ids.
    ///
    /// # Errors
    /// Unknown model, or ids outside the vocabulary.
    pub async fn detokenize(
        &self,
        _request: v1::DetokenizeRequest,
    ) -> Result<v1::DetokenizeResponse, RequestError> {
        Err(RequestError::new(
            ErrorKind::Unavailable,
            "no worker is ready",
        ))
    }

    /// Text and token ids of chat messages in the model's template.
    ///
    /// # Errors
    /// Unknown model, a model without template, or messages that the template refuses.
    pub async fn apply_chat_template(
        &self,
        _request: v1::ApplyChatTemplateRequest,
    ) -> Result<v1::ApplyChatTemplateResponse, RequestError> {
        Err(RequestError::new(
            ErrorKind::Unavailable,
            "no worker is ready",
        ))
    }
}

/// Events of one request: `started`, then `delta`s, then one `finished` per choice, or an error
/// as the last item. Dropping it cancels the request within one step.
pub struct GenerationStream {
    events: Pin<Box<dyn Stream<Item = Result<v1::GenerateEvent, RequestError>> + Send>>,
}

impl Stream for GenerationStream {
    type Item = Result<v1::GenerateEvent, RequestError>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.events.as_mut().poll_next(context)
    }
}
