//! Checks of recorded tokens and probabilities.

use crate::{SEPARATOR, TokenId, TrieError};

/// Checks that a list holds tokens.
pub(super) fn check_tokens(name: &'static str, tokens: &[TokenId]) -> Result<(), TrieError> {
    match tokens.iter().position(|&token| token == SEPARATOR) {
        Some(index) => Err(TrieError::NotAToken { name, index }),
        None => Ok(()),
    }
}

/// Checks that an entry of `name` holds a token and its probability, which messages call `probability_name`.
pub(super) fn check_entry(
    (token, probability): (TokenId, f32),
    name: &'static str,
    probability_name: &'static str,
) -> Result<(), TrieError> {
    check_tokens(name, &[token])?;
    if (0.0..=1.0).contains(&probability) {
        return Ok(());
    }
    Err(TrieError::NotAProbability {
        name: probability_name,
        given: probability.to_string(),
    })
}
