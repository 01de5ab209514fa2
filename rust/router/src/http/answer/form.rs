//! How an answer is formed, written down for whoever goes on with its stream.

use serde::{Deserialize, Serialize};

use crate::http::convert::{ApiRequest, Endpoint, Extras};

/// What the stream of one prompt looks like, beside what the core knows of it.
#[derive(Clone, Copy, Debug, Deserialize, Serialize)]
pub(crate) struct Form {
    pub(crate) endpoint: Endpoint,
    pub(crate) extras: Extras,
}

impl Form {
    /// Of a request that asks for a stream of one prompt; those of several prompts cannot be gone on
    /// with.
    pub(crate) fn of(api: &ApiRequest) -> Option<Self> {
        (api.stream && api.requests.len() == 1).then_some(Self {
            endpoint: api.endpoint,
            extras: api.extras,
        })
    }

    pub(crate) fn to_text(self) -> String {
        // Names and booleans always serialise.
        serde_json::to_string(&self).unwrap_or_default()
    }

    /// `None` for what another version wrote.
    pub(crate) fn from_text(text: &str) -> Option<Self> {
        serde_json::from_str(text).ok()
    }
}
