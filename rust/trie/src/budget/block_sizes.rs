//! How large the blocks of a namespace are, by its text and its share.

use crate::store::block::Block;
use crate::store::block_shape::{MAX_BLOCK_TOKENS, MIN_BLOCK_TOKENS};
use crate::store::heads;

/// Tokens of a namespace's first block, where its share allows.
const FIRST_BLOCK_TOKENS: usize = 1 << 10;

/// A namespace's text, and its share, are held in at least this many blocks, so that evicting one
/// forgets a small part; and in at most so many, however small its share is.
const BLOCKS_PER_TEXT: u64 = 16;
const BLOCKS_PER_SHARE: usize = 8;
const MOST_PER_TEXT: u64 = 1024;

/// Bytes of a share that others leave: it may end within the last block that is given.
pub(super) fn kept_bytes(share_bytes: usize) -> usize {
    let block = Block::bytes_for(MIN_BLOCK_TOKENS) + heads::bytes_for(MIN_BLOCK_TOKENS as u64);
    (share_bytes - share_bytes / BLOCKS_PER_SHARE).saturating_sub(block)
}

/// Tokens of the next block of a namespace with `share_bytes` whose blocks hold `tokens`.
pub(super) fn block_tokens(tokens: u64, share_bytes: usize) -> usize {
    let (block, heads) = (
        Block::bytes_for(MAX_BLOCK_TOKENS),
        heads::bytes_for(MAX_BLOCK_TOKENS as u64),
    );
    let bytes_per_token = (block + heads).div_ceil(MAX_BLOCK_TOKENS);
    let most = (share_bytes / BLOCKS_PER_SHARE / bytes_per_token)
        .clamp(MIN_BLOCK_TOKENS, MAX_BLOCK_TOKENS);
    let wanted = (tokens / BLOCKS_PER_TEXT) as usize;
    // The largest power of two that is not above either.
    let tokens_of = |wanted: usize| 1 << wanted.ilog2();
    let least = (tokens.div_ceil(MOST_PER_TEXT) as usize).next_power_of_two();
    tokens_of(wanted.max(FIRST_BLOCK_TOKENS).min(most)).max(least.min(MAX_BLOCK_TOKENS))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_grow_with_the_text_up_to_an_eighth_of_the_share() {
        assert_eq!(block_tokens(0, 256 << 20), 1 << 10);
        assert_eq!(block_tokens(100_000, 256 << 20), 4 << 10);
        assert_eq!(block_tokens(100_000_000, 4 << 30), 1 << 20);
        assert_eq!(block_tokens(100_000, 64 << 10), 256);
        assert_eq!(block_tokens(4_000_000, 256 << 10), 4 << 10, "not too many");
        let most = block_tokens(100_000_000, 64 << 20);
        let bytes = Block::bytes_for(most) + heads::bytes_for(most as u64);
        assert!(bytes * BLOCKS_PER_SHARE <= 64 << 20);
    }

    #[test]
    fn the_number_of_blocks_grows_with_the_logarithm_of_the_text() {
        let blocks = |most: u64| {
            let (mut tokens, mut blocks) = (0, 0);
            while tokens < most {
                tokens += block_tokens(tokens, 8 << 30) as u64;
                blocks += 1;
            }
            blocks
        };
        assert_eq!(
            (blocks(1 << 15), blocks(1 << 20), blocks(1 << 24)),
            (32, 112, 176)
        );
        assert_eq!(blocks(100 << 20), 176 + 84, "of the largest size");
    }
}
