//! Conversion of text to token ids and back.

use crate::error::TextError;
use crate::pieces::PieceTable;
use crate::reach::Reach;
use std::sync::Arc;

/// The tokenizer of a model. Cheap to clone and safe to share between threads.
#[derive(Debug, Clone)]
pub struct Tokenizer {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    tokenizer: tokenizers::Tokenizer,
    pieces: PieceTable,
    reach: Reach,
}

/// A text of up to this many bytes for each token that the caller takes is tokenized at once:
/// texts of people and programs have fewer.
const BYTES_AT_ONCE: usize = 8;
/// Longer ones are counted in pieces of this many bytes first.
const PIECE_BYTES: usize = 64 << 10;
/// What a count in pieces must exceed the limit by, so that cuts within tokens refuse no text that
/// fits.
const MARGIN: usize = 2;

impl Tokenizer {
    /// Parses the bytes of a tokenizer.json. Ignores its truncation and padding: a server neither
    /// truncates nor pads a prompt.
    ///
    /// # Errors
    /// [`TextError::InvalidTokenizer`] if they are not a tokenizer,
    /// [`TextError::UnsupportedDecoder`] if its decoder cannot run token by token.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, TextError> {
        let invalid = |source| TextError::InvalidTokenizer { source };
        let mut tokenizer = tokenizers::Tokenizer::from_bytes(bytes).map_err(invalid)?;
        tokenizer.with_truncation(None).map_err(invalid)?;
        tokenizer.with_padding(None);
        let decoder = serde_json::to_value(tokenizer.get_decoder())
            .map_err(|source| invalid(source.into()))?;
        let count = vocabulary_size(&tokenizer);
        let added = tokenizer.get_added_vocabulary();
        let pieces = PieceTable::new(
            &decoder,
            count,
            |id| tokenizer.id_to_token(id),
            |token| added.is_special_token(token),
        )?;
        let name = |id| tokenizer.id_to_token(id).map_or(0, |token| token.len());
        let bytes = |id| pieces.get(id).map_or(0, |piece| piece.bytes.len());
        let longest_name = (0..count).map(name).max().unwrap_or(0);
        let longest = (0..count).map(bytes).max().unwrap_or(0);
        let reach = Reach::of(&tokenizer, longest, longest_name);
        Ok(Self {
            inner: Arc::new(Inner {
                tokenizer,
                pieces,
                reach,
            }),
        })
    }

    /// Returns the token ids of a text that should have at most `limit` tokens, as
    /// [`encode`](Self::encode) does. Work and memory are bounded by `limit`, not by the text: one
    /// that no tokenization can fit is refused at once, any other that is far too long when twice
    /// the limit is counted. The ids of one that is a little too long are returned.
    ///
    /// # Errors
    /// [`TextError::TooLong`] if it has more than `limit` tokens; [`TextError::Tokenizer`] if the
    /// tokenizer rejects it.
    pub fn encode_within(
        &self,
        text: &str,
        add_special_tokens: bool,
        limit: usize,
    ) -> Result<Vec<u32>, TextError> {
        if self.inner.reach.fewest_tokens(text) > limit {
            return Err(TextError::TooLong { limit });
        }
        let at_once = limit.saturating_mul(BYTES_AT_ONCE).max(PIECE_BYTES);
        if text.len() > at_once {
            self.check_pieces(text, limit)?;
        }
        self.encode(text, add_special_tokens)
    }

    /// Refuses a text whose pieces have more tokens together than the limit and its margin.
    fn check_pieces(&self, text: &str, limit: usize) -> Result<(), TextError> {
        let mut rest = text;
        let mut count = 0;
        while !rest.is_empty() {
            let mut end = rest.len().min(PIECE_BYTES);
            while !rest.is_char_boundary(end) {
                end -= 1;
            }
            let (piece, behind) = rest.split_at(end);
            rest = behind;
            let piece = self.inner.reach.counted(piece);
            if piece.is_empty() {
                continue;
            }
            count += self.encode(piece, false)?.len();
            if count > limit.saturating_mul(MARGIN) {
                return Err(TextError::TooLong { limit });
            }
        }
        Ok(())
    }

    /// Returns the token ids of `text`. Special tokens written out in the text are recognized;
    /// `add_special_tokens` adds those that the model expects around a text, such as BOS.
    ///
    /// # Errors
    /// [`TextError::Tokenizer`] if the tokenizer rejects the text.
    pub fn encode(&self, text: &str, add_special_tokens: bool) -> Result<Vec<u32>, TextError> {
        let encoding = self
            .inner
            .tokenizer
            .encode_fast(text, add_special_tokens)
            .map_err(|source| TextError::Tokenizer { source })?;
        Ok(encoding.get_ids().to_vec())
    }

    /// Returns the token ids of each text, as [`encode`](Self::encode) does, using all cores.
    ///
    /// # Errors
    /// [`TextError::Tokenizer`] if the tokenizer rejects a text.
    pub fn encode_batch(
        &self,
        texts: Vec<String>,
        add_special_tokens: bool,
    ) -> Result<Vec<Vec<u32>>, TextError> {
        let encodings = self
            .inner
            .tokenizer
            .encode_batch_fast(texts, add_special_tokens)
            .map_err(|source| TextError::Tokenizer { source })?;
        Ok(encodings
            .iter()
            .map(|encoding| encoding.get_ids().to_vec())
            .collect())
    }

    /// Returns the text of `ids`. Ids outside the vocabulary add nothing; bytes that are not UTF-8
    /// become U+FFFD.
    ///
    /// # Errors
    /// [`TextError::Tokenizer`] if the decoder fails.
    pub fn decode(&self, ids: &[u32], skip_special_tokens: bool) -> Result<String, TextError> {
        self.inner
            .tokenizer
            .decode(ids, skip_special_tokens)
            .map_err(|source| TextError::Tokenizer { source })
    }

    /// Returns the most bytes that the text of `ids` can have, without decoding them.
    pub fn most_bytes(&self, ids: &[u32]) -> usize {
        ids.iter().map(|&id| self.inner.pieces.most_bytes(id)).sum()
    }

    /// Returns the fewest tokens that a text can have, as far as its bytes say without tokenizing it.
    pub fn fewest_tokens(&self, text: &str) -> usize {
        self.inner.reach.fewest_tokens(text)
    }

    /// Returns one more than the largest token id. The model's own vocabulary may be larger.
    pub fn vocabulary_size(&self) -> usize {
        self.inner.pieces.len()
    }

    /// Returns the id of the token spelled `token`, such as `<|im_end|>`.
    pub fn token_id(&self, token: &str) -> Option<u32> {
        self.inner.tokenizer.token_to_id(token)
    }

    /// Returns the bytes that token `id` adds after other text; `None` for an id outside the
    /// vocabulary. A special token returns the bytes of its name.
    pub fn token_bytes(&self, id: u32) -> Option<Vec<u8>> {
        self.inner.pieces.bytes_of(id)
    }

    /// Returns true if token `id` is special; text omits special tokens by default.
    pub fn is_special_token(&self, id: u32) -> bool {
        self.inner.pieces.get(id).is_some_and(|piece| piece.special)
    }

    pub(crate) fn pieces(&self) -> &PieceTable {
        &self.inner.pieces
    }
}

fn vocabulary_size(tokenizer: &tokenizers::Tokenizer) -> u32 {
    let ids = tokenizer.get_vocab(true).into_values();
    ids.max().map_or(0, |largest| largest.saturating_add(1))
}
