//! A possible next token of a node.

use crate::TokenId;

/// A possible next token.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Candidate {
    pub(crate) token: TokenId,
    /// Probability given the path so far.
    pub(crate) probability: f32,
    /// The origin that is credited: the smallest that holds the token.
    pub(crate) origin: u16,
}
