//! The secret that a stream is resumed with.

use std::fmt;
use std::fmt::Write as _;

use rand::TryRngCore as _;
use rand::rngs::OsRng;
use sha2::{Digest as _, Sha256};
use subtle::ConstantTimeEq as _;

const NUM_BYTES: usize = 16;

/// 128 bits that only the client of a stream knows. Shown nowhere but to it: `Debug` hides it.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct ResumeToken([u8; NUM_BYTES]);

impl ResumeToken {
    /// A new one from the operating system; none while that has no random bits.
    pub(crate) fn draw() -> Option<Self> {
        let mut bytes = [0; NUM_BYTES];
        OsRng.try_fill_bytes(&mut bytes).ok()?;
        Some(Self(bytes))
    }

    /// What a client shows: 32 hexadecimal digits, as [`Self::to_text`] gives them.
    pub(crate) fn from_text(text: &str) -> Option<Self> {
        let digits = text.as_bytes();
        if digits.len() != 2 * NUM_BYTES || !digits.iter().all(u8::is_ascii_hexdigit) {
            return None;
        }
        let mut bytes = [0; NUM_BYTES];
        for (index, byte) in bytes.iter_mut().enumerate() {
            *byte = u8::from_str_radix(text.get(2 * index..2 * index + 2)?, 16).ok()?;
        }
        Some(Self(bytes))
    }

    /// For the client.
    pub(crate) fn to_text(&self) -> String {
        let mut text = String::with_capacity(2 * NUM_BYTES);
        for byte in self.0 {
            let _ = write!(text, "{byte:02x}");
        }
        text
    }

    /// What it is written down as.
    pub(crate) fn digest(&self) -> [u8; 32] {
        Sha256::digest(self.0).into()
    }

    /// The same as hexadecimal digits.
    pub(crate) fn hex_digest(&self) -> String {
        format!("{:x}", Sha256::digest(self.0))
    }

    /// Whether both are the same, in a time that does not depend on where they differ.
    pub(crate) fn is(&self, shown: &Self) -> bool {
        self.0.ct_eq(&shown.0).into()
    }
}

impl fmt::Debug for ResumeToken {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("ResumeToken")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn token_survives_its_text_and_is_no_other() {
        let (token, other) = (ResumeToken::draw().unwrap(), ResumeToken::draw().unwrap());
        let text = token.to_text();
        assert_eq!(text.len(), 32);
        let read = ResumeToken::from_text(&text).unwrap();
        assert!(token.is(&read) && !token.is(&other));
        assert_eq!(format!("{token:?}"), "ResumeToken");
    }

    #[test]
    fn other_texts_are_no_token() {
        for text in ["", "0", &"g".repeat(32), &"0".repeat(33), &"é".repeat(16)] {
            assert!(ResumeToken::from_text(text).is_none(), "{text}");
        }
    }
}
