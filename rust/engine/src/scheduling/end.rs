//! How a request ends.

use spectrie_types::FinishKind;

/// How a request ends.
#[derive(Debug)]
pub(crate) struct End {
    pub(crate) kind: FinishKind,
    pub(crate) message: Option<String>,
    /// Output tokens that count; all when absent.
    pub(crate) keep_tokens: Option<u32>,
    /// Whether the output is worth learning.
    pub(crate) learns: bool,
}

impl End {
    /// An end without message; output is learned where the model itself came to the end.
    pub(crate) fn of(kind: FinishKind) -> Self {
        Self {
            kind,
            message: None,
            keep_tokens: None,
            learns: kind.is_natural(),
        }
    }

    /// The same where only `keep_tokens` output tokens count, if some do not.
    pub(crate) fn keeping(self, keep_tokens: Option<u32>) -> Self {
        Self {
            keep_tokens,
            ..self
        }
    }

    /// An end by what the request asks for: no worker can run it to its end.
    pub(crate) fn refused(message: &str) -> Self {
        Self {
            message: Some(message.to_owned()),
            ..Self::of(FinishKind::Refused)
        }
    }

    /// An end by a failure.
    pub(crate) fn failed(message: &str) -> Self {
        Self {
            message: Some(message.to_owned()),
            ..Self::of(FinishKind::Failed)
        }
    }
}

/// A caller's command to end a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Cancel {
    pub(crate) handle: u64,
    /// Output tokens that count; all when absent.
    pub(crate) keep_tokens: Option<u32>,
    /// Whether what is kept may be learned.
    pub(crate) finished: bool,
}
