//! Regular expressions over the bytes of the model's tokens, matched by derivatives: the plainest
//! way to say what may follow.

use std::sync::{Arc, OnceLock};

use proptest::prelude::*;
use spectrie_sampling::{Grammar, GrammarCompiler, GrammarSpec};

/// Bytes of the model's tokens by id. The first ends an answer, the last is a second spelling of
/// one before it.
pub(crate) const TOKENS: [&str; 40] = [
    "", "a", "b", "c", "d", "0", "1", "2", "{", "}", "\"", ":", ",", " ", "ab", "bc", "ca", "abc",
    "aa", "bb", "abab", "cab", "01", "10", "{\"", "\":", "\": ", "\"}", "\"a", "\"ab", "name",
    "\"name\"", "na", "me", "n", "m", "e", "12", "ba", "ab",
];

/// A set of texts.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Expression {
    Never,
    Empty,
    Byte(u8),
    Both(Arc<Expression>, Arc<Expression>),
    Either(Arc<Expression>, Arc<Expression>),
    Many(Arc<Expression>),
}

use Expression::{Both, Byte, Either, Empty, Many, Never};

impl Expression {
    pub(crate) fn text(text: &str) -> Self {
        text.bytes()
            .rev()
            .fold(Empty, |rest, byte| both(Byte(byte), rest))
    }

    pub(crate) fn accepts_end(&self) -> bool {
        match self {
            Never | Byte(_) => false,
            Empty | Many(_) => true,
            Both(first, second) => first.accepts_end() && second.accepts_end(),
            Either(one, other) => one.accepts_end() || other.accepts_end(),
        }
    }

    /// The texts that may follow `bytes`.
    pub(crate) fn after(&self, bytes: &[u8]) -> Self {
        bytes
            .iter()
            .fold(self.clone(), |place, &byte| place.after_byte(byte))
    }

    fn after_byte(&self, byte: u8) -> Self {
        match self {
            Byte(own) if *own == byte => Empty,
            Never | Empty | Byte(_) => Never,
            Both(first, second) => {
                let through = both(first.after_byte(byte), (**second).clone());
                if first.accepts_end() {
                    either(through, second.after_byte(byte))
                } else {
                    through
                }
            }
            Either(one, other) => either(one.after_byte(byte), other.after_byte(byte)),
            Many(one) => both(one.after_byte(byte), self.clone()),
        }
    }

    /// Whether `token` may follow; the token that ends an answer may where it may end.
    pub(crate) fn allows(&self, token: u32) -> bool {
        match TOKENS[token as usize].as_bytes() {
            [] => self.accepts_end(),
            bytes => self.after(bytes) != Never,
        }
    }

    /// Whether some token may follow that does not end the answer.
    pub(crate) fn goes_on(&self) -> bool {
        (1..TOKENS.len() as u32).any(|token| self.allows(token))
    }

    fn pattern(&self) -> String {
        match self {
            Never | Empty => "(?:)".into(),
            Byte(byte) => format!("\\x{byte:02x}"),
            Both(first, second) => format!("{}{}", first.pattern(), second.pattern()),
            Either(one, other) => format!("(?:{}|{})", one.pattern(), other.pattern()),
            Many(one) => format!("(?:{})*", one.pattern()),
        }
    }

    pub(crate) fn compiled(&self) -> Grammar {
        regex(&self.pattern())
    }
}

/// The grammar of a pattern.
pub(crate) fn regex(pattern: &str) -> Grammar {
    let spec = GrammarSpec::Regex(pattern.into());
    compiler().compile(&spec).unwrap()
}

/// The first token of these bytes.
pub(crate) fn id(text: &str) -> u32 {
    let found = TOKENS.iter().position(|token| *token == text);
    found.unwrap() as u32
}

/// Compiles for the model's vocabulary.
pub(crate) fn compiler() -> &'static GrammarCompiler {
    static COMPILER: OnceLock<GrammarCompiler> = OnceLock::new();
    COMPILER.get_or_init(|| {
        let bytes = TOKENS.iter().map(|text| text.as_bytes().to_vec()).collect();
        GrammarCompiler::new(bytes, &[0]).unwrap()
    })
}

/// Compiles for a model that usually writes in the longest tokens.
pub(crate) fn usual_compiler() -> GrammarCompiler {
    let bytes = TOKENS.iter().map(|text| text.as_bytes().to_vec()).collect();
    let encode = |mut text: &str| {
        let mut ids = Vec::new();
        while !text.is_empty() {
            let begins = TOKENS.iter().filter(|token| text.starts_with(**token));
            let longest = begins.max_by_key(|token| token.len()).unwrap();
            ids.push(id(longest));
            text = &text[longest.len()..];
        }
        ids
    };
    GrammarCompiler::with_tokenizer(bytes, &[0], encode).unwrap()
}

pub(crate) fn both(first: Expression, second: Expression) -> Expression {
    match (first, second) {
        (Never, _) | (_, Never) => Never,
        (Empty, other) | (other, Empty) => other,
        (first, second) => Both(Arc::new(first), Arc::new(second)),
    }
}

pub(crate) fn either(one: Expression, other: Expression) -> Expression {
    match (one, other) {
        (Never, other) | (other, Never) => other,
        (one, other) if one == other => one,
        (one, other) => Either(Arc::new(one), Arc::new(other)),
    }
}

pub(crate) fn many(one: Expression) -> Expression {
    match one {
        Never | Empty => Empty,
        Many(_) => one,
        one => Many(Arc::new(one)),
    }
}

/// Any expression of some ten parts.
pub(crate) fn expression() -> impl Strategy<Value = Expression> {
    let words = [
        "a",
        "b",
        "ab",
        "01",
        "{\"name\": \"",
        "\"}",
        "abcab",
        "1",
        "name",
        " ",
    ];
    let leaf = prop::sample::select(words.to_vec()).prop_map(Expression::text);
    leaf.prop_recursive(4, 14, 2, |inner| {
        prop_oneof![
            3 => (inner.clone(), inner.clone()).prop_map(|(one, other)| both(one, other)),
            2 => (inner.clone(), inner.clone()).prop_map(|(one, other)| either(one, other)),
            1 => inner.prop_map(many),
        ]
    })
}
