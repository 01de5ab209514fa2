//! Conversion of text to token ids and back.

use crate::error::TextError;
use crate::pieces::PieceTable;
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
}

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
        Ok(Self {
            inner: Arc::new(Inner { tokenizer, pieces }),
        })
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
