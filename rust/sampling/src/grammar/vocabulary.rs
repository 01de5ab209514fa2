//! A model's vocabulary as the grammar library reads it.

use std::collections::HashMap;
use std::sync::Arc;

use llguidance::toktrie::{INVALID_TOKEN, SimpleVob, TokEnv, TokRxInfo, TokTrie, TokenizerEnv};

use crate::error::SamplingError;

/// Tokens of more bytes are never allowed: the library's trie is not deep enough for them.
const MAX_TOKEN_BYTES: usize = 1024;

/// Gives the tokens that a text is usually written in.
pub(super) type Encode = dyn Fn(&str) -> Vec<u32> + Send + Sync;

/// Bytes of each token, and which tokens end an answer.
pub(super) struct Vocabulary {
    trie: Arc<TokTrie>,
    /// Tokens of the same bytes as one before them, which stands for both in the trie.
    first_of: HashMap<u32, u32>,
    eos_token_ids: Vec<u32>,
    encode: Option<Arc<Encode>>,
}

impl Vocabulary {
    pub(super) fn new(
        mut token_bytes: Vec<Vec<u8>>,
        eos_token_ids: &[u32],
        encode: Option<Arc<Encode>>,
    ) -> Result<Self, SamplingError> {
        let count = token_bytes.len();
        if count == 0 {
            return Err(SamplingError::Config {
                name: "token_bytes",
                given: "empty".into(),
                allowed: "the bytes of at least one token".into(),
            });
        }
        if let Some(token) = eos_token_ids.iter().find(|&&id| id as usize >= count) {
            return Err(SamplingError::Config {
                name: "eos_token_ids",
                given: token.to_string(),
                allowed: format!("ids below the {count} tokens with bytes"),
            });
        }
        let mut first: HashMap<Vec<u8>, u32> = HashMap::with_capacity(count);
        let mut first_of = HashMap::new();
        for (id, bytes) in (0..).zip(&mut token_bytes) {
            // The marker of special tokens alone is no text either.
            if bytes.len() > MAX_TOKEN_BYTES || *bytes == [TokTrie::SPECIAL_TOKEN_MARKER] {
                bytes.clear();
            }
            if bytes.is_empty() {
                continue;
            }
            if let Some(&known) = first.get(bytes) {
                first_of.insert(id, known);
                bytes.clear();
            } else {
                first.insert(bytes.clone(), id);
            }
        }
        let trie = TokTrie::from(&TokRxInfo::new(count as u32, INVALID_TOKEN), &token_bytes);
        let trie = if eos_token_ids.is_empty() {
            trie
        } else {
            trie.with_eos_tokens(eos_token_ids)
        };
        Ok(Self {
            trie: Arc::new(trie),
            first_of,
            eos_token_ids: eos_token_ids.to_vec(),
            encode,
        })
    }

    /// The token that stands for `token` in the trie.
    pub(super) fn first_of(&self, token: u32) -> u32 {
        self.first_of.get(&token).copied().unwrap_or(token)
    }

    /// Allows what has the bytes of an allowed token.
    pub(super) fn allow_twins(&self, mask: &mut SimpleVob) {
        for (&twin, &first) in &self.first_of {
            if mask.is_allowed(first) {
                mask.allow_token(twin);
            }
        }
    }

    pub(super) fn eos_token_ids(&self) -> &[u32] {
        &self.eos_token_ids
    }

    /// Whether `token` has bytes or a name here.
    pub(super) fn knows(&self, token: u32) -> bool {
        (token as usize) < self.trie.vocab_size()
    }

    pub(super) fn is_eos(&self, token: u32) -> bool {
        self.eos_token_ids.contains(&token)
    }

    /// A split of `bytes` into long tokens; `None` where they cannot be spelt.
    pub(super) fn split(&self, bytes: &[u8]) -> Option<Vec<u32>> {
        let tokens = self.trie.greedy_tokenize(bytes);
        (self.trie.decode_raw(&tokens) == bytes).then_some(tokens)
    }

    /// How text that a grammar forces is spelt: as the model usually does, where that is known,
    /// else in any way.
    pub(super) fn spelling(&self) -> TokEnv {
        Arc::new(Spelling {
            trie: Arc::clone(&self.trie),
            encode: self.encode.clone(),
        })
    }
}

/// How texts are spelt.
struct Spelling {
    trie: Arc<TokTrie>,
    encode: Option<Arc<Encode>>,
}

impl TokenizerEnv for Spelling {
    fn tok_trie(&self) -> &TokTrie {
        &self.trie
    }

    fn tokenize_bytes(&self, bytes: &[u8]) -> Vec<u32> {
        let encoded = self.encode.as_ref().map(|encode| {
            self.trie
                .tokenize_with_greedy_fallback(bytes, |text| encode(text))
        });
        let count = self.trie.vocab_size() as u32;
        // A tokenizer may add a space before a text, or read the name of a special token in it.
        let spells = |tokens: &Vec<u32>| {
            tokens.iter().all(|&token| token < count) && self.trie.decode_raw(tokens) == bytes
        };
        encoded
            .filter(spells)
            .unwrap_or_else(|| self.trie.greedy_tokenize(bytes))
    }

    fn tokenize_is_canonical(&self) -> bool {
        self.encode.is_some()
    }
}
