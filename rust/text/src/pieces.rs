//! The bytes that each token adds to the text: the tokenizer's decoder as a table.

use crate::error::TextError;
use serde_json::Value;

/// Bytes of one token.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Piece<'a> {
    /// What it adds; for a `fallback` piece one byte.
    pub bytes: &'a [u8],
    /// A special token, left out of text unless asked for.
    pub special: bool,
    /// A byte token: a run of them is text if it is valid UTF-8 as a whole, else each is U+FFFD.
    pub fallback: bool,
}

/// How pieces become text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Joining {
    /// Bytes one after the other, converted lossily.
    Bytes,
    /// Texts one after the other, without up to `count` leading `content` characters.
    Stripped { content: char, count: usize },
    /// Texts one after the other; in the first one `replacement` is left out, not made a space.
    FirstWithout { replacement: char },
    /// Texts with a space between.
    Spaced,
}

/// All pieces of a vocabulary.
#[derive(Debug)]
pub(crate) struct PieceTable {
    bytes: Vec<u8>,
    /// End of each token's bytes.
    ends: Vec<u32>,
    flags: Vec<u8>,
    pub joining: Joining,
}

const KNOWN: u8 = 1;
const SPECIAL: u8 = 2;
const FALLBACK: u8 = 4;
/// Not text by itself: U+FFFD may stand for each of its bytes.
const PARTIAL: u8 = 8;

/// Bytes of U+FFFD.
const REPLACEMENT_BYTES: usize = 3;

impl PieceTable {
    /// Lays out `count` tokens.
    ///
    /// `decoder` is the decoder's JSON as tokenizer.json has it, `token` gives a token's own
    /// string, `special` says whether that string is a special token.
    pub(crate) fn new(
        decoder: &Value,
        count: u32,
        token: impl Fn(u32) -> Option<String>,
        special: impl Fn(&str) -> bool,
    ) -> Result<Self, TextError> {
        let rule = Rule::read(decoder)?;
        let mut table = Self {
            bytes: Vec::new(),
            ends: Vec::with_capacity(count as usize),
            flags: Vec::with_capacity(count as usize),
            joining: rule.joining.clone(),
        };
        for id in 0..count {
            let mut flags = 0;
            if let Some(text) = token(id) {
                flags |= KNOWN;
                if special(&text) {
                    flags |= SPECIAL;
                }
                let start = table.bytes.len();
                if rule.append(text, &mut table.bytes) {
                    flags |= FALLBACK | PARTIAL;
                } else if std::str::from_utf8(&table.bytes[start..]).is_err() {
                    flags |= PARTIAL;
                }
            }
            table.flags.push(flags);
            table.ends.push(table.bytes.len() as u32);
        }
        Ok(table)
    }

    /// One more than the largest token id.
    pub(crate) fn len(&self) -> usize {
        self.ends.len()
    }

    /// Most bytes that token `id` has in any text.
    pub(crate) fn most_bytes(&self, id: u32) -> usize {
        let num_bytes = self.get(id).map_or(0, |piece| piece.bytes.len());
        let is_partial = self
            .flags
            .get(id as usize)
            .is_some_and(|flags| flags & PARTIAL != 0);
        let each = if is_partial { REPLACEMENT_BYTES } else { 1 };
        num_bytes * each + usize::from(self.joining == Joining::Spaced)
    }

    /// The bytes that token `id` adds to a text that has begun; the name of a special token.
    pub(crate) fn bytes_of(&self, id: u32) -> Option<Vec<u8>> {
        let Piece { bytes, special, .. } = self.get(id)?;
        if special {
            return Some(bytes.to_vec());
        }
        Some(match self.joining {
            Joining::Bytes | Joining::Stripped { .. } => bytes.to_vec(),
            Joining::FirstWithout { replacement } => {
                let text = String::from_utf8_lossy(bytes);
                text.replace(replacement, " ").into_bytes()
            }
            Joining::Spaced => [b" ", bytes].concat(),
        })
    }

    /// The piece of token `id`; None for an id that the vocabulary does not know.
    pub(crate) fn get(&self, id: u32) -> Option<Piece<'_>> {
        let index = id as usize;
        let flags = *self.flags.get(index)?;
        if flags & KNOWN == 0 {
            return None;
        }
        let start = index.checked_sub(1).map_or(0, |before| self.ends[before]);
        Some(Piece {
            bytes: &self.bytes[start as usize..self.ends[index] as usize],
            special: flags & SPECIAL != 0,
            fallback: flags & FALLBACK != 0,
        })
    }
}

/// The decoder, read.
struct Rule {
    byte_level: bool,
    replacements: Vec<(String, String)>,
    byte_fallback: bool,
    joining: Joining,
}

impl Rule {
    fn read(decoder: &Value) -> Result<Self, TextError> {
        let unsupported = || TextError::UnsupportedDecoder {
            found: decoder.to_string(),
        };
        let mut rule = Self {
            byte_level: false,
            replacements: Vec::new(),
            byte_fallback: false,
            joining: Joining::Stripped {
                content: ' ',
                count: 0,
            },
        };
        if decoder.is_null() {
            rule.joining = Joining::Spaced;
            return Ok(rule);
        }
        let one = std::slice::from_ref(decoder);
        let steps = match decoder["decoders"].as_array() {
            Some(steps) => steps.as_slice(),
            None => one,
        };
        let mut fused = false;
        for step in steps {
            match step["type"].as_str() {
                Some("ByteLevel") if steps.len() == 1 => {
                    rule.byte_level = true;
                    rule.joining = Joining::Bytes;
                }
                Some("Metaspace") if steps.len() == 1 => {
                    let replacement = one_char(&step["replacement"]).ok_or_else(unsupported)?;
                    rule.replacements.push((replacement.into(), " ".into()));
                    if step["prepend_scheme"].as_str() != Some("never") {
                        rule.joining = Joining::FirstWithout { replacement };
                    }
                }
                Some("Replace") if !fused && !rule.byte_fallback => {
                    let from = step["pattern"]["String"].as_str().ok_or_else(unsupported)?;
                    let to = step["content"].as_str().ok_or_else(unsupported)?;
                    rule.replacements.push((from.into(), to.into()));
                }
                Some("ByteFallback") if !fused => rule.byte_fallback = true,
                Some("Fuse") => fused = true,
                Some("Strip") if fused && step["stop"].as_u64() == Some(0) => {
                    let content = one_char(&step["content"]).ok_or_else(unsupported)?;
                    let count = step["start"].as_u64().ok_or_else(unsupported)? as usize;
                    rule.joining = Joining::Stripped { content, count };
                }
                _ => return Err(unsupported()),
            }
        }
        Ok(rule)
    }

    /// Appends a token's bytes to `out`; true for a byte token.
    fn append(&self, mut text: String, out: &mut Vec<u8>) -> bool {
        if self.byte_level {
            match text.chars().map(byte_of_char).collect::<Option<Vec<u8>>>() {
                Some(bytes) => out.extend(bytes),
                None => out.extend(text.bytes()),
            }
            return false;
        }
        if !self.keeps_replacement() {
            for (from, to) in &self.replacements {
                text = text.replace(from.as_str(), to);
            }
        }
        if self.byte_fallback
            && text.len() == 6
            && let Some(digits) = text.strip_prefix("<0x").and_then(|t| t.strip_suffix('>'))
            && let Ok(byte) = u8::from_str_radix(digits, 16)
        {
            out.push(byte);
            return true;
        }
        out.extend(text.bytes());
        false
    }

    /// The stream replaces when it knows which token is the first.
    fn keeps_replacement(&self) -> bool {
        matches!(self.joining, Joining::FirstWithout { .. })
    }
}

fn one_char(value: &Value) -> Option<char> {
    let mut chars = value.as_str()?.chars();
    chars.next().filter(|_| chars.next().is_none())
}

/// The byte that a character of a byte-level token stands for.
///
/// Printable Latin-1 characters stand for themselves; the other 68 bytes, in ascending order, are
/// written as U+0100 and following. Source: GPT-2's `bytes_to_unicode`.
fn byte_of_char(c: char) -> Option<u8> {
    match u32::from(c) {
        n @ (0x21..=0x7e | 0xa1..=0xac | 0xae..=0xff) => Some(n as u8),
        n @ 0x100..=0x120 => Some((n - 0x100) as u8),
        n @ 0x121..=0x142 => Some((n - 0x121 + 0x7f) as u8),
        0x143 => Some(0xad),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::byte_of_char;
    use std::collections::HashSet;

    #[test]
    fn every_byte_has_one_character() {
        let bytes: Vec<u8> = (0..0x200)
            .filter_map(char::from_u32)
            .filter_map(byte_of_char)
            .collect();
        assert_eq!(bytes.len(), 256);
        assert_eq!(bytes.iter().collect::<HashSet<_>>().len(), 256);
        assert_eq!(byte_of_char('Ġ'), Some(b' '));
        assert_eq!(byte_of_char('Ċ'), Some(b'\n'));
        assert_eq!(byte_of_char('č'), Some(b'\r'));
        assert_eq!(byte_of_char(' '), None);
    }
}
