//! How few tokens a text can have, known without tokenizing it.
//!
//! A text has at least as many tokens as its bytes divided by the longest token. This holds for a
//! tokenizer that drops and joins nothing: every byte or character has a token of its own, and what
//! comes before the vocabulary (normalizer, splitter) shortens no text, or by a known factor. For
//! any other tokenizer nothing is known.

use serde_json::Value;
use tokenizers::{ModelWrapper, Tokenizer};

/// Composed characters are at least a third of their parts in UTF-8 (Unicode Standard Annex 15,
/// maximum expansion factor of NFD).
const NFC_FACTOR: usize = 3;

/// The most text that one token stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Reach {
    /// In bytes; none when there is no bound.
    longest: Option<usize>,
    /// Whether a token may take any amount of white space beside it.
    takes_spaces: bool,
}

impl Reach {
    /// Of a tokenizer whose longest token has `longest` bytes as text and `longest_name` as written
    /// in its vocabulary.
    pub(crate) fn of(tokenizer: &Tokenizer, longest: usize, longest_name: usize) -> Self {
        let added = tokenizer.get_added_tokens_decoder();
        let longest_added = added.values().map(|token| token.content.len()).max();
        let longest = longest.max(longest_added.unwrap_or(0));
        let takes_spaces = added.values().any(|token| token.lstrip || token.rstrip);
        let json = |value: serde_json::Result<Value>| value.unwrap_or(Value::Bool(false));
        let splitter = json(serde_json::to_value(tokenizer.get_pre_tokenizer()));
        let normalizer = json(serde_json::to_value(tokenizer.get_normalizer()));
        let is_byte_level = parts(&splitter, "pretokenizers")
            .iter()
            .any(|part| part["type"] == "ByteLevel");
        let own = if is_byte_level && has_every_byte(tokenizer) {
            Some(longest)
        } else if falls_back_to_bytes(tokenizer) {
            Some(longest_name.max(longest))
        } else {
            None
        };
        let keeps = parts(&splitter, "pretokenizers")
            .iter()
            .all(|part| keeps_all(part));
        let factor = parts(&normalizer, "normalizers")
            .iter()
            .try_fold(1_usize, |product, part| {
                shrinking(part)?.checked_mul(product)
            });
        let longest = own.filter(|_| keeps).zip(factor);
        Self {
            longest: longest.map(|(own, factor)| own.max(1).saturating_mul(factor)),
            takes_spaces,
        }
    }

    /// Fewest tokens that `text` can have.
    pub(crate) fn fewest_tokens(&self, text: &str) -> usize {
        let Some(longest) = self.longest else {
            return 0;
        };
        let num_bytes = if self.takes_spaces {
            let kept = text.chars().filter(|letter| !letter.is_whitespace());
            kept.map(char::len_utf8).sum()
        } else {
            text.len()
        };
        num_bytes.div_ceil(longest)
    }

    /// The part of a piece of text that surely has tokens of its own.
    pub(crate) fn counted<'a>(&self, piece: &'a str) -> &'a str {
        if self.takes_spaces {
            piece.trim()
        } else {
            piece
        }
    }
}

/// The steps of a sequence, or the one step itself; none when absent.
fn parts<'a>(step: &'a Value, member: &str) -> Vec<&'a Value> {
    match step {
        Value::Null => Vec::new(),
        _ if step["type"] == "Sequence" => match step[member].as_array() {
            Some(steps) => steps.iter().flat_map(|step| parts(step, member)).collect(),
            None => vec![step],
        },
        _ => vec![step],
    }
}

/// Whether a step of the splitter keeps every character.
fn keeps_all(part: &Value) -> bool {
    match part["type"].as_str() {
        Some("ByteLevel" | "Metaspace" | "Digits") => true,
        Some("Split" | "Punctuation") => {
            let behavior = part["behavior"].as_str();
            behavior.is_some_and(|behavior| behavior != "Removed")
        }
        _ => false,
    }
}

/// How many times shorter a step of the normalizer may make a text; none when it is not known.
fn shrinking(part: &Value) -> Option<usize> {
    match part["type"].as_str()? {
        "Prepend" => Some(1),
        "NFC" => Some(NFC_FACTOR),
        "Replace" => {
            let pattern = part["pattern"]["String"].as_str()?;
            let content = part["content"].as_str()?;
            (content.len() >= pattern.len()).then_some(1)
        }
        _ => None,
    }
}

/// Whether the vocabulary holds the letter of every byte, so that nothing is unknown.
fn has_every_byte(tokenizer: &Tokenizer) -> bool {
    let mut next = 255;
    matches!(tokenizer.get_model(), ModelWrapper::BPE(_))
        && (0..=255_u8).all(|byte| {
            let is_printable = matches!(byte, b'!'..=b'~' | 0xA1..=0xAC | 0xAE..=0xFF);
            let letter = if is_printable {
                Some(char::from(byte))
            } else {
                next += 1;
                char::from_u32(next)
            };
            letter.is_some_and(|letter| tokenizer.token_to_id(&letter.to_string()).is_some())
        })
}

/// Whether unknown characters become tokens of their bytes.
fn falls_back_to_bytes(tokenizer: &Tokenizer) -> bool {
    let falls_back = match tokenizer.get_model() {
        ModelWrapper::BPE(model) => model.byte_fallback,
        ModelWrapper::Unigram(model) => model.byte_fallback(),
        _ => false,
    };
    falls_back
        && (0..=255).all(|byte| {
            let token = format!("<0x{byte:02X}>");
            tokenizer.token_to_id(&token).is_some()
        })
}
