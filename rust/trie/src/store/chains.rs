//! Hash chains over a token log: the index that every text source shares.
//!
//! Each position of the log is linked, once per order in [`ORDERS`], to the previous position
//! whose last `order` tokens fall into the same bucket; a table of heads holds the newest of each
//! bucket. A link names the position of the *continuation*: the token that followed the context.
//! Chains may mix contexts that share a bucket, so every visit compares tokens.

use crate::{MAX_MATCH, SEPARATOR, TokenId};

/// Context lengths, in tokens, that have a chain of their own.
pub(crate) const ORDERS: [usize; 4] = [1, 2, 4, 8];

/// Most occurrences taken per order, newest first: enough for nearly the counts that an unbounded
/// walk would give.
pub(crate) const LIMITS: [u32; 4] = [16, 32, 32, 16];

/// Buckets visited per occurrence wanted, so that a crowded bucket cannot make a draft slow.
const VISITS_PER_OCCURRENCE: u32 = 4;

/// A link whose chain goes on where it cannot be read now.
pub(crate) const CUT: u32 = u32::MAX;

/// A token log with hash chains that readers can walk.
pub(crate) trait Chains {
    /// Number of tokens that may be read.
    fn end(&self) -> u32;
    /// The token at `position`, which is below [`Chains::end`].
    fn token(&self, position: u32) -> TokenId;
    /// The newest continuation in the bucket of `hash`; 0 = none, [`CUT`] = out of reach.
    fn head(&self, order: usize, hash: u32) -> u32;
    /// The continuation before `position` in its bucket; 0 = none, [`CUT`] = out of reach.
    fn previous(&self, order: usize, position: u32) -> u32;
    /// Tokens before `position` that equal the end of `context`, at most `context.len()`.
    fn matched_before(&self, position: u32, context: &[TokenId]) -> usize {
        let max = context.len().min(position as usize);
        (0..max)
            .take_while(|&back| {
                self.token(position - 1 - back as u32) == context[context.len() - 1 - back]
            })
            .count()
    }
}

/// One place where the text before it equals the end of the context.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Occurrence {
    /// Position of the continuation in its log.
    pub(crate) position: u32,
    /// The continuation: the token at `position`.
    pub(crate) next: TokenId,
    /// Which log: see [`crate::sources::all::AllSources`].
    pub(crate) origin: u16,
    /// Tokens before `position` that equal the context's end, at most [`MAX_MATCH`].
    pub(crate) matched: u16,
}

/// Hashes of the last 1, 2, 4 and 8 tokens of `context`, and how many of them exist.
pub(crate) fn suffix_hashes(context: &[TokenId]) -> ([u32; ORDERS.len()], usize) {
    let mut hashes = [0; ORDERS.len()];
    let mut count = 0;
    let mut state = FIRST_STATE;
    let longest = ORDERS[ORDERS.len() - 1];
    for (index, &token) in context.iter().rev().take(longest).enumerate() {
        state = mixed(state, token);
        if index + 1 == ORDERS[count] {
            hashes[count] = state.wrapping_mul(LAST_FACTOR);
            count += 1;
        }
    }
    (hashes, count)
}

/// The hash of one order alone of the tokens `before` a position, the nearest first. There are as
/// many as the order has.
pub(crate) fn suffix_hash(order: usize, before: impl Iterator<Item = TokenId>) -> u32 {
    let state = before.take(ORDERS[order]).fold(FIRST_STATE, mixed);
    state.wrapping_mul(LAST_FACTOR)
}

const FIRST_STATE: u32 = 0x9E37_79B9;
const LAST_FACTOR: u32 = 0xC2B2_AE35;

fn mixed(state: u32, token: TokenId) -> u32 {
    let state = (state ^ token).wrapping_mul(0x85EB_CA6B);
    state ^ (state >> 15)
}

/// The bucket of `hash` in a table of `buckets`, a power of two of at most 2^32.
pub(crate) fn bucket(hash: u32, buckets: usize) -> usize {
    ((u64::from(hash) * buckets as u64) >> 32) as usize
}

/// Changes when links or heads of another build would not be found by this one.
pub(crate) fn chain_layout() -> u32 {
    let (hashes, _) = suffix_hashes(&[1, 2, 3, 4, 5, 6, 7, 8]);
    let words = hashes.into_iter().chain(ORDERS.map(|order| order as u32));
    words.fold(0x811C_9DC5, |hash, word| {
        (hash ^ word).wrapping_mul(0x0100_0193)
    })
}

/// The part of `tokens` that may serve as context: what follows the last separator, at most
/// [`MAX_MATCH`] tokens.
pub(crate) fn context_of(tokens: &[TokenId]) -> &[TokenId] {
    let tail = &tokens[tokens.len().saturating_sub(MAX_MATCH)..];
    let start = tail
        .iter()
        .rposition(|&token| token == SEPARATOR)
        .map_or(0, |index| index + 1);
    &tail[start..]
}

/// Appends the occurrences of every suffix of `context` that has a chain, longest order first and
/// newest first, each once.
///
/// `limits` holds the occurrences still wanted per order and is lowered by what was found, so
/// that several logs, newest first, share one bound. Gives the number of positions visited.
pub(crate) fn collect<C: Chains>(
    chains: &C,
    origin: u16,
    context: &[TokenId],
    limits: &mut [u32; ORDERS.len()],
    occurrences: &mut Vec<Occurrence>,
) -> u32 {
    let mut visited = 0;
    let (hashes, count) = suffix_hashes(context);
    let end = chains.end();
    // Oldest position that the walk of each longer order reached: what is at or above it and
    // matches that order has been taken already.
    let mut reached = [u32::MAX; ORDERS.len()];
    // No occurrence of the shortest context means none of a longer one.
    if count == 0 || chains.head(0, hashes[0]) == 0 {
        return visited;
    }
    for order in (0..count).rev() {
        let mut visits = limits[order] * VISITS_PER_OCCURRENCE;
        let mut position = chains.head(order, hashes[order]);
        while position != 0 && position != CUT && limits[order] > 0 && visits > 0 {
            visits -= 1;
            visited += 1;
            if position < end {
                let matched = chains.matched_before(position, context);
                if matched >= ORDERS[order] {
                    limits[order] -= 1;
                    let taken = (order + 1..count)
                        .any(|longer| matched >= ORDERS[longer] && position >= reached[longer]);
                    let next = chains.token(position);
                    if !taken && next != SEPARATOR {
                        let matched = matched as u16;
                        occurrences.push(Occurrence {
                            position,
                            next,
                            origin,
                            matched,
                        });
                    }
                }
                // Running requests fill their cells side by side, so links lead back in time
                // and not always to a lower position.
                reached[order] = reached[order].min(position);
            }
            position = chains.previous(order, position);
        }
        if position == 0 {
            reached[order] = 0;
        }
    }
    visited
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hashes_depend_on_the_last_tokens_only() {
        let (long, count) = suffix_hashes(&[1, 2, 3, 4, 5, 6, 7, 8, 9]);
        let (other, _) = suffix_hashes(&[9, 9, 9, 9, 9, 6, 7, 8, 9]);
        assert_eq!(count, 4);
        assert_eq!(long[..3], other[..3]);
        assert_ne!(long[3], other[3]);
        assert_eq!(suffix_hashes(&[1, 2, 3]).1, 2);
        for (order, hash) in long.into_iter().enumerate() {
            assert_eq!(suffix_hash(order, (1..=9).rev()), hash);
        }
        assert_eq!(suffix_hashes(&[]).1, 0);
    }

    #[test]
    fn context_starts_after_the_last_separator() {
        assert_eq!(context_of(&[1, SEPARATOR, 2, 3]), [2, 3]);
        assert_eq!(context_of(&[1, SEPARATOR]), []);
        let long: Vec<_> = (0..100).collect();
        assert_eq!(
            context_of(&long),
            (100 - MAX_MATCH as u32..100).collect::<Vec<_>>()
        );
    }
}
