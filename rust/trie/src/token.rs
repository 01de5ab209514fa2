//! Token identities.

/// A vocabulary index.
///
/// Any value below [`SEPARATOR`] is a token; draft memory does not know the vocabulary's size.
pub type TokenId = u32;

/// The only value that is not a token: it separates documents.
///
/// Matches and continuations never cross it, so text that contains it behaves like several
/// documents inserted in turn.
pub const SEPARATOR: TokenId = u32::MAX;
