//! API keys: who calls, and as which tenant.

use std::path::Path;

use sha2::{Digest as _, Sha256};
use subtle::ConstantTimeEq as _;

use crate::error::{ErrorKind, RequestError, RouterError};

/// The keys that may call, as digests. Without keys everyone may.
#[derive(Clone, Debug, Default)]
pub struct ApiKeys {
    keys: Option<Vec<([u8; 32], String)>>,
}

impl ApiKeys {
    /// Everyone may call, as no tenant in particular.
    pub fn open() -> Self {
        Self::default()
    }

    /// Reads a file of `KEY TENANT` lines; empty lines and lines that begin with `#` are skipped.
    ///
    /// # Errors
    /// [`RouterError::File`] names the line that is not of this form, without the key itself.
    pub fn from_file(path: &Path) -> Result<Self, RouterError> {
        let refuse = |message: String| RouterError::File {
            path: path.display().to_string(),
            option: "--api-keys",
            message,
        };
        let text = std::fs::read_to_string(path).map_err(|error| refuse(error.to_string()))?;
        Self::parse(&text).map_err(refuse)
    }

    fn parse(text: &str) -> Result<Self, String> {
        let mut keys = Vec::new();
        for (index, line) in text.lines().enumerate() {
            let line = line.trim();
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            let mut words = line.split_whitespace();
            let (Some(key), Some(tenant), None) = (words.next(), words.next(), words.next()) else {
                let words = line.split_whitespace().count();
                let line = index + 1;
                return Err(format!(
                    "line {line} has {words} words; allowed: 2: KEY TENANT"
                ));
            };
            if tenant.contains('/') {
                // It divides tenant and namespace: `a/b` would be another tenant's namespace.
                let line = index + 1;
                return Err(format!(
                    "line {line}: the tenant contains /, which is not allowed"
                ));
            }
            keys.push((Sha256::digest(key.as_bytes()).into(), tenant.to_owned()));
        }
        if keys.is_empty() {
            return Err("it holds no keys: add at least one line KEY TENANT".into());
        }
        Ok(Self { keys: Some(keys) })
    }

    /// The tenant of `key`; `None` when everyone may call.
    ///
    /// Compares digests in constant time, so that neither a key nor its place in the file leaks.
    ///
    /// # Errors
    /// [`ErrorKind::Unauthenticated`] when a key is needed and none or an unknown one was given.
    pub fn tenant(&self, key: Option<&str>) -> Result<Option<String>, RequestError> {
        let Some(keys) = &self.keys else {
            return Ok(None);
        };
        let Some(key) = key else {
            let message = "no API key: send the header authorization: Bearer KEY";
            return Err(RequestError::new(ErrorKind::Unauthenticated, message));
        };
        let digest: [u8; 32] = Sha256::digest(key.as_bytes()).into();
        let mut found = None;
        for (known, tenant) in keys {
            if bool::from(known.ct_eq(&digest)) {
                found = Some(tenant);
            }
        }
        match found {
            Some(tenant) => Ok(Some(tenant.clone())),
            None => Err(RequestError::new(
                ErrorKind::Unauthenticated,
                "unknown api key",
            )),
        }
    }

    /// The key in an `authorization` header's value, if it is of the form `Bearer KEY`.
    pub fn bearer(header: &str) -> Option<&str> {
        let (scheme, key) = header.split_once(' ')?;
        scheme.eq_ignore_ascii_case("bearer").then_some(key.trim())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_key_gives_its_tenant_and_others_are_refused() {
        let keys = ApiKeys::parse("# keys\nalpha one\n\nbeta two\n").unwrap();
        assert_eq!(keys.tenant(Some("beta")).unwrap().as_deref(), Some("two"));
        for key in [None, Some("gamma"), Some("")] {
            assert_eq!(
                keys.tenant(key).unwrap_err().kind,
                ErrorKind::Unauthenticated
            );
        }
    }

    #[test]
    fn without_keys_everyone_may_call() {
        assert_eq!(ApiKeys::open().tenant(None).unwrap(), None);
    }

    #[test]
    fn bad_line_is_named_without_its_key() {
        let message = ApiKeys::parse("good one\nsecret\n").unwrap_err();
        assert!(
            message.contains("line 2") && !message.contains("secret"),
            "{message}"
        );
        assert!(ApiKeys::parse("# none\n").is_err());
        assert!(ApiKeys::parse("key a/b\n").is_err());
    }

    #[test]
    fn bearer_takes_any_case_of_the_scheme() {
        assert_eq!(ApiKeys::bearer("bearer  k"), Some("k"));
        assert_eq!(ApiKeys::bearer("Basic k"), None);
    }
}
