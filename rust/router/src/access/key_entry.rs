//! What a keys file says of one key.

use std::fmt::Write as _;
use std::time::SystemTime;

use serde::{Serialize, Serializer};

/// A key and what it may do. The key itself is not kept, only its digest.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct KeyEntry {
    /// SHA-256 of the key; only its label is written.
    #[serde(rename = "sha256", serialize_with = "write_label")]
    pub digest: [u8; 32],
    /// Whose requests it sends.
    pub tenant: String,
    /// From when on it is refused, in seconds of Unix time; never when absent.
    pub expires: Option<i64>,
    /// Models that it may use; all when absent.
    pub models: Option<Vec<String>>,
    /// Highest priority that its requests may have; any when absent.
    pub max_priority: Option<i32>,
    /// Requests that it may send in a minute; any number when absent. One prompt is one request.
    pub requests_per_minute: Option<u32>,
    /// Tokens of prompts and answers in a minute; any number when absent.
    pub tokens_per_minute: Option<u32>,
    /// Requests that may run or wait at the same time; any number when absent.
    pub requests_at_once: Option<u32>,
}

impl KeyEntry {
    /// Whether it is refused from now on.
    pub fn is_expired(&self, now: SystemTime) -> bool {
        let since = now.duration_since(SystemTime::UNIX_EPOCH);
        let seconds = since.map_or(0, |since| since.as_secs());
        self.expires
            .is_some_and(|expires| i64::try_from(seconds).unwrap_or(i64::MAX) >= expires)
    }
}

/// The first digits of a digest: they tell keys apart, and no key can be found by them.
fn write_label<S: Serializer>(digest: &[u8; 32], serializer: S) -> Result<S::Ok, S::Error> {
    let mut digits = String::new();
    for byte in digest.iter().take(6) {
        let _ = write!(digits, "{byte:02x}");
    }
    serializer.serialize_str(&digits)
}
