//! What can go wrong with a request, and how gRPC and OpenAI HTTP say it.

use std::time::Duration;

use spectrie_request::{Refusal, RefusalKind, Violation};
use tonic_types::{ErrorDetails, FieldViolation, StatusExt as _};

use super::kind::ErrorKind;
use super::shown::{MAX_ECHO_BYTES, cut, shown};

/// Domain of `google.rpc.ErrorInfo`.
const DOMAIN: &str = "spectrie";

/// Why a request was refused or ended early.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[error("{message}")]
pub struct RequestError {
    /// The row of the error table.
    pub kind: ErrorKind,
    /// One sentence, lower case, with what was given and what is allowed.
    pub message: String,
    /// The fields at fault, as the proto file names them.
    pub violations: Vec<Violation>,
    /// When trying again may help.
    pub retry_after: Option<Duration>,
    /// Tokens the caller already has, for a stream that broke.
    pub tokens_sent: Option<u64>,
    /// The model or request that the error is about: (type, name).
    pub resource: Option<Box<(&'static str, String)>>,
    /// The request's id, once it has one.
    pub request_id: Option<String>,
}

impl RequestError {
    /// An error of `kind` with `message` alone.
    pub fn new(kind: ErrorKind, message: impl Into<String>) -> Self {
        Self {
            kind,
            message: message.into(),
            violations: Vec::new(),
            retry_after: None,
            tokens_sent: None,
            resource: None,
            request_id: None,
        }
    }

    /// One bad field.
    pub fn invalid(field: impl Into<String>, message: impl Into<String>) -> Self {
        Self::invalid_fields(vec![Violation::new(field, message)])
    }

    /// All bad fields of a request; `violations` must not be empty.
    pub fn invalid_fields(violations: Vec<Violation>) -> Self {
        Self::of_fields(ErrorKind::InvalidField, violations)
    }

    fn of_fields(kind: ErrorKind, violations: Vec<Violation>) -> Self {
        let sentences = violations.iter().map(ToString::to_string);
        let message = sentences.collect::<Vec<_>>().join("; ");
        Self {
            violations,
            ..Self::new(kind, message)
        }
    }

    /// No such model among `served`.
    pub fn model_not_found(model: &str, served: &[String]) -> Self {
        let model = cut(model, MAX_ECHO_BYTES);
        let message = format!(
            "model {model:?} is not served; allowed: {}",
            served.join(", ")
        );
        let resource = Some(Box::new(("model", model.into_owned())));
        Self {
            resource,
            ..Self::new(ErrorKind::ModelNotFound, message)
        }
    }

    /// A failure that trying again after `delay` may cure.
    pub fn retry(kind: ErrorKind, message: impl Into<String>, delay: Duration) -> Self {
        Self {
            retry_after: Some(delay),
            ..Self::new(kind, message)
        }
    }

    /// The worker of a running request died after `tokens_sent` tokens, and no other came in time.
    pub fn worker_lost(tokens_sent: u64, delay: Duration) -> Self {
        let message = format!(
            "the worker was lost after {tokens_sent} tokens were sent, and no other was ready in time"
        );
        Self {
            retry_after: Some(delay),
            tokens_sent: Some(tokens_sent),
            ..Self::new(ErrorKind::WorkerLost, message)
        }
    }

    /// Workers ended while they ran this request, the last of them ran nothing else. `refused_for`
    /// is how much longer it is refused, when that happened before.
    pub fn ends_workers(refused_for: Option<Duration>) -> Self {
        let until = refused_for.map_or_else(String::new, |left| {
            format!(
                "; as it stands it is refused for {} s more",
                left.as_secs() + 1
            )
        });
        let message = format!(
            "three workers in a row ended before they had a token of this request, and the last \
             ran nothing else: it is not tried again{until}. Change the prompt or leave out \
             options, and report the request with the workers' logs"
        );
        Self::new(ErrorKind::EndsWorkers, message)
    }

    /// The same error, knowing its request.
    #[must_use]
    pub fn of_request(mut self, request_id: &str) -> Self {
        self.request_id = Some(shown(request_id));
        self
    }

    /// The first field at fault: `param` of OpenAI's body.
    pub fn field(&self) -> Option<&str> {
        self.violations
            .first()
            .map(|violation| violation.field.as_str())
    }

    /// The error as logs show it: where fields are at fault their names alone, since templates and
    /// grammars quote requests in what they complain of.
    pub(crate) fn logged(&self) -> String {
        if self.kind != ErrorKind::InvalidField {
            return shown(&self.message);
        }
        let fields: Vec<_> = self.violations.iter().map(|one| &*one.field).collect();
        if fields.is_empty() {
            return "not shown, since it may quote the request".to_owned();
        }
        shown(&fields.join(", "))
    }

    fn details(&self) -> ErrorDetails {
        let mut details = ErrorDetails::new();
        let mut metadata = std::collections::HashMap::new();
        if let Some(tokens) = self.tokens_sent {
            metadata.insert("tokens_sent".to_owned(), tokens.to_string());
        }
        details.set_error_info(self.kind.reason(), DOMAIN, metadata);
        if !self.violations.is_empty() {
            let violations = self
                .violations
                .iter()
                .map(|violation| FieldViolation::new(&violation.field, &violation.message));
            details.set_bad_request(violations.collect::<Vec<_>>());
        }
        if let Some(delay) = self.retry_after {
            details.set_retry_info(Some(delay));
        }
        if self.kind == ErrorKind::RateLimited {
            details.add_quota_failure_violation("tenant", &self.message);
        }
        if let Some((kind, name)) = self.resource.as_deref() {
            details.set_resource_info(*kind, name, "", &self.message);
        }
        if let Some(request_id) = &self.request_id {
            details.set_request_info(request_id, "");
        }
        details
    }
}

impl From<Refusal> for RequestError {
    fn from(refusal: Refusal) -> Self {
        let kind = match refusal.kind {
            RefusalKind::InvalidField => ErrorKind::InvalidField,
            RefusalKind::ContextLength => ErrorKind::ContextLength,
            RefusalKind::PermissionDenied => ErrorKind::PermissionDenied,
            RefusalKind::Unsupported => ErrorKind::Unsupported,
        };
        let mut error = Self::of_fields(kind, refusal.violations);
        match (kind, error.violations.as_slice()) {
            (ErrorKind::ContextLength, [only]) => error.message = only.message.clone(),
            (ErrorKind::PermissionDenied, [_]) => {
                error.message = "naming a namespace is not allowed, the server runs without \
                                 --allow-client-namespaces"
                    .into();
            }
            _ => {}
        }
        error
    }
}

impl From<RequestError> for tonic::Status {
    fn from(error: RequestError) -> Self {
        let details = error.details();
        Self::with_error_details(error.kind.grpc_code(), error.message, details)
    }
}

#[cfg(test)]
mod tests {
    use tonic::Code;

    use super::*;

    #[test]
    fn status_carries_every_detail() {
        let error = RequestError::worker_lost(7, Duration::from_secs(2)).of_request("r1");
        let status = tonic::Status::from(error);
        assert_eq!(status.code(), Code::Unavailable);
        let details = status.get_error_details();
        let info = details.error_info().unwrap();
        assert_eq!(info.reason, "WORKER_LOST");
        assert_eq!(info.metadata["tokens_sent"], "7");
        let delay = details.retry_info().unwrap().retry_delay;
        assert_eq!(delay, Some(Duration::from_secs(2)));
        assert_eq!(details.request_info().unwrap().request_id, "r1");
    }

    #[test]
    fn refused_namespace_has_a_sentence_of_its_own_unless_more_is_wrong() {
        let namespace = || Violation::new("namespace", "given \"a\"; allowed: only to be absent");
        let message = |violations| {
            let kind = RefusalKind::PermissionDenied;
            RequestError::from(Refusal { kind, violations }).message
        };
        assert!(message(vec![namespace()]).ends_with("--allow-client-namespaces"));
        let prompt = Violation::new("prompt", "given too much");
        assert_eq!(
            message(vec![namespace(), prompt]),
            "namespace: given \"a\"; allowed: only to be absent; prompt: given too much"
        );
    }

    #[test]
    fn invalid_fields_become_field_violations_and_the_first_is_the_param() {
        let error = RequestError::invalid("sampling.top_p", "given 2; allowed: above 0, up to 1");
        assert_eq!(error.field(), Some("sampling.top_p"));
        let status = tonic::Status::from(error);
        assert_eq!(
            status.message(),
            "sampling.top_p: given 2; allowed: above 0, up to 1"
        );
        let details = status.get_error_details();
        assert_eq!(
            details.bad_request().unwrap().field_violations[0].field,
            "sampling.top_p"
        );
    }
}
