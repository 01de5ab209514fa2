//! Callers' texts in messages and logs: cut, and without control characters.

use std::borrow::Cow;
use std::fmt::Write as _;

/// Longest text of a caller's that a message repeats, in bytes.
pub(crate) const MAX_ECHO_BYTES: usize = 256;

/// `text`, or its beginning and its length where it is longer than `limit` bytes.
pub(crate) fn cut(text: &str, limit: usize) -> Cow<'_, str> {
    if text.len() <= limit {
        return Cow::Borrowed(text);
    }
    let mut end = limit;
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    Cow::Owned(format!("{}… ({} bytes)", &text[..end], text.len()))
}

/// `text` on one line: control characters but for `kept` are written as escapes.
pub(crate) fn escaped(text: &str, kept: Option<char>) -> Cow<'_, str> {
    let must = |letter: char| letter.is_control() && letter != '\t' && Some(letter) != kept;
    if !text.contains(must) {
        return Cow::Borrowed(text);
    }
    let mut line = String::with_capacity(text.len() + 16);
    for letter in text.chars() {
        if must(letter) {
            // Writing to a string does not fail.
            let _ = write!(line, "{}", letter.escape_default());
        } else {
            line.push(letter);
        }
    }
    Cow::Owned(line)
}

/// A caller's text as logs show it.
pub(crate) fn shown(text: &str) -> String {
    escaped(&cut(text, MAX_ECHO_BYTES), None).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_texts_are_cut_between_characters_and_say_their_length() {
        assert_eq!(cut("short", 5), "short");
        assert_eq!(cut("éé", 3), "é… (4 bytes)");
        assert_eq!(shown(&"a".repeat(1 << 20)).len(), MAX_ECHO_BYTES + 19);
    }

    #[test]
    fn control_characters_are_escaped() {
        assert_eq!(shown("a\nb\u{1b}[31m\u{85}é"), "a\\nb\\u{1b}[31m\\u{85}é");
        assert_eq!(escaped("\u{1b}[1m\r", Some('\u{1b}')), "\u{1b}[1m\\r");
    }
}
