//! Text to token ids and back.

use crate::error::TextError;
use crate::pieces::PieceTable;
use std::sync::Arc;

/// A model's tokenizer. Cloning it is cheap; it is shared between threads.
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
    /// Reads the bytes of a tokenizer.json. Truncation and padding set there are ignored: a server
    /// neither cuts nor fills a prompt.
    ///
    /// # Errors
    /// [`TextError::InvalidTokenizer`] when they are no tokenizer, [`TextError::UnsupportedDecoder`]
    /// when its decoder cannot be followed token by token.
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

    /// Gives the token ids of `text`. Special tokens written out in the text are recognised;
    /// `add_special_tokens` also adds those that the model expects around a text, such as BOS.
    ///
    /// # Errors
    /// [`TextError::Tokenizer`] when the tokenizer refuses the text.
    pub fn encode(&self, text: &str, add_special_tokens: bool) -> Result<Vec<u32>, TextError> {
        let encoding = self
            .inner
            .tokenizer
            .encode_fast(text, add_special_tokens)
            .map_err(|source| TextError::Tokenizer { source })?;
        Ok(encoding.get_ids().to_vec())
    }

    /// Gives the token ids of each text, as [`encode`](Self::encode) does, on as many threads as the
    /// machine offers.
    ///
    /// # Errors
    /// [`TextError::Tokenizer`] when the tokenizer refuses one of the texts.
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

    /// Gives the text of `ids`. Ids outside the vocabulary add nothing, bytes that are not UTF-8
    /// become U+FFFD.
    ///
    /// # Errors
    /// [`TextError::Tokenizer`] when the tokenizer's decoder fails.
    pub fn decode(&self, ids: &[u32], skip_special_tokens: bool) -> Result<String, TextError> {
        self.inner
            .tokenizer
            .decode(ids, skip_special_tokens)
            .map_err(|source| TextError::Tokenizer { source })
    }

    /// One more than the largest token id. The model's own vocabulary may be larger.
    pub fn vocabulary_size(&self) -> usize {
        self.inner.pieces.len()
    }

    /// The id of the token written `token`, such as `<|im_end|>`.
    pub fn token_id(&self, token: &str) -> Option<u32> {
        self.inner.tokenizer.token_to_id(token)
    }

    /// The bytes that token `id` adds to a text that has begun; None for an id outside the
    /// vocabulary. Special tokens give the bytes of their names.
    pub fn token_bytes(&self, id: u32) -> Option<Vec<u8>> {
        self.inner.pieces.bytes_of(id)
    }

    /// Whether token `id` is a special one, which text leaves out unless asked.
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
