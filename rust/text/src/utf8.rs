//! Lossy conversion of bytes to text in pieces of any size, equal to one conversion of the whole.

/// The incomplete character at the end of what came so far: at most three bytes.
#[derive(Debug, Default, Clone)]
pub(crate) struct Utf8Tail {
    pending: Vec<u8>,
}

impl Utf8Tail {
    /// Appends the text of `bytes` to `out`, keeping back a character that is not complete yet.
    ///
    /// Invalid bytes become U+FFFD exactly as [`String::from_utf8_lossy`] groups them.
    pub(crate) fn push(&mut self, bytes: &[u8], out: &mut String) {
        if self.pending.is_empty()
            && let Ok(text) = std::str::from_utf8(bytes)
        {
            out.push_str(text);
            return;
        }
        self.pending.extend_from_slice(bytes);
        let all = std::mem::take(&mut self.pending);
        let mut rest = all.as_slice();
        loop {
            match std::str::from_utf8(rest) {
                Ok(text) => {
                    out.push_str(text);
                    return;
                }
                Err(error) => {
                    let (valid, after) = rest.split_at(error.valid_up_to());
                    out.push_str(&String::from_utf8_lossy(valid));
                    let Some(invalid) = error.error_len() else {
                        self.pending = after.to_vec();
                        return;
                    };
                    out.push(char::REPLACEMENT_CHARACTER);
                    rest = &after[invalid..];
                }
            }
        }
    }

    /// Appends what is left at the end: U+FFFD for a character that never became complete.
    pub(crate) fn finish(&mut self, out: &mut String) {
        out.push_str(&String::from_utf8_lossy(&std::mem::take(&mut self.pending)));
    }
}

#[cfg(test)]
mod tests {
    use super::Utf8Tail;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn pieces_give_what_the_whole_gives(
            pieces in prop::collection::vec(prop::collection::vec(byte(), 0..5), 0..12)
        ) {
            let mut tail = Utf8Tail::default();
            let mut text = String::new();
            for piece in &pieces {
                tail.push(piece, &mut text);
                prop_assert!(tail.pending.len() <= 3);
            }
            tail.finish(&mut text);
            let whole = pieces.concat();
            prop_assert_eq!(text, String::from_utf8_lossy(&whole));
        }
    }

    /// Bytes that often form, break and truncate characters of two, three and four bytes.
    fn byte() -> impl Strategy<Value = u8> {
        prop_oneof![
            Just(b'a'),
            Just(0xc3),
            Just(0xa9),
            Just(0xe4),
            Just(0xb8),
            Just(0xad),
            Just(0xf0),
            Just(0x9f),
            Just(0x99),
            Just(0x82),
            any::<u8>(),
        ]
    }
}
