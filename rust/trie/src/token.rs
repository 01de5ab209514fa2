//! Token identities.

/// A vocabulary index.
///
/// Any value below [`SEPARATOR`] is a token; draft memory does not know the vocabulary's size.
pub type TokenId = u32;

/// The one value that is no token: it ends a document.
///
/// Matches and continuations never cross it, so text that contains it behaves like several
/// documents inserted one after the other.
pub const SEPARATOR: TokenId = u32::MAX;
