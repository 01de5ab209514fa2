//! What the model said next.

use spectrie_types::sizes::TOP_K;

use crate::TokenId;

/// The likeliest tokens after a key, descending.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Answer {
    tokens: [(TokenId, f32); TOP_K],
    len: usize,
}

impl Answer {
    /// The tokens before the first probability of 0, [`TOP_K`] at most.
    pub(crate) fn of(tokens: &[(TokenId, f32)]) -> Self {
        let mut answer = Self::default();
        let likely = tokens.iter().take_while(|(_, given)| *given > 0.0);
        for &token in likely.take(TOP_K) {
            answer.push(token);
        }
        answer
    }

    /// Appends a token; there are fewer than [`TOP_K`].
    pub(super) fn push(&mut self, token: (TokenId, f32)) {
        self.tokens[self.len] = token;
        self.len += 1;
    }

    pub(crate) fn tokens(&self) -> &[(TokenId, f32)] {
        &self.tokens[..self.len]
    }
}
