//! Shared secrets of workers and operators.

use std::path::Path;

use http::HeaderMap;
use sha2::{Digest as _, Sha256};
use subtle::ConstantTimeEq as _;

use crate::access::ApiKeys;
use crate::error::RouterError;

/// A secret, kept as its digest.
#[derive(Clone, Debug)]
pub(crate) struct Token([u8; 32]);

impl Token {
    fn new(secret: &str) -> Self {
        Self(Sha256::digest(secret.as_bytes()).into())
    }

    /// Reads the secret that a file holds, without the white space around it.
    ///
    /// # Errors
    /// [`RouterError::File`] with `option`, the name of the setting, when there is none.
    pub(crate) fn from_file(path: &Path, option: &'static str) -> Result<Self, RouterError> {
        let refuse = |message: String| RouterError::File {
            path: path.display().to_string(),
            option,
            message,
        };
        let text = std::fs::read_to_string(path).map_err(|error| refuse(error.to_string()))?;
        let secret = text.trim();
        if secret.is_empty() {
            return Err(refuse("it is empty: write a token into it".into()));
        }
        Ok(Self::new(secret))
    }

    /// Whether a call shows the secret as `authorization: Bearer SECRET`; takes the same time
    /// however much of it is right.
    pub(crate) fn is_shown(&self, headers: &HeaderMap) -> bool {
        let header = headers
            .get("authorization")
            .and_then(|value| value.to_str().ok());
        let given = header.and_then(ApiKeys::bearer).unwrap_or_default();
        let digest: [u8; 32] = Sha256::digest(given.as_bytes()).into();
        bool::from(digest.ct_eq(&self.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_whole_secret_as_a_bearer_is_taken() {
        let token = Token::new("secret");
        let shown = |value: &'static str| {
            let mut headers = HeaderMap::new();
            headers.insert("authorization", value.parse().unwrap());
            token.is_shown(&headers)
        };
        assert!(shown("Bearer secret"));
        assert!(!shown("Bearer secre") && !shown("Basic secret") && !shown("secret"));
        assert!(!token.is_shown(&HeaderMap::new()));
    }
}
