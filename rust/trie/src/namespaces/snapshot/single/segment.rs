//! The segments of snapshots of version 1, which are still read: tokens, links and heads.

use crate::SEPARATOR;
use crate::store::block_shape::BlockShape;
use crate::store::chains::ORDERS;

/// Heads per token of capacity, as right shifts.
const HEAD_SHIFTS: [u32; ORDERS.len()] = [2, 1, 1, 1];

/// Bytes of a segment, without its checksum.
pub(super) fn saved_bytes(shape: BlockShape) -> usize {
    let capacity = shape.capacity as usize;
    let heads: usize = HEAD_SHIFTS.iter().map(|shift| capacity >> shift).sum();
    (shape.end as usize * (1 + ORDERS.len()) + heads) * size_of::<u32>()
}

/// The words, one bit a cell, of a segment's tokens that were context: what no chain of single
/// tokens leads to, the beginnings of documents excepted.
pub(super) fn contexts(shape: BlockShape, words: &[u32]) -> Vec<u32> {
    let end = shape.end as usize;
    let (tokens, rest) = words.split_at(end);
    let (links, heads) = rest.split_at(end * ORDERS.len());
    let mut found = vec![false; end];
    for &head in &heads[..shape.capacity as usize >> HEAD_SHIFTS[0]] {
        let mut cell = head as usize;
        // Each cell once, whatever the links say.
        while cell != 0 && cell < end && !found[cell] {
            found[cell] = true;
            cell = links[cell * ORDERS.len()] as usize;
        }
    }
    let mut contexts = vec![0; end.div_ceil(u32::BITS as usize)];
    for cell in 0..end {
        let is_first = cell == 0 || tokens[cell - 1] == SEPARATOR;
        let follower =
            tokens.get(cell + 1).is_none_or(|&next| next == SEPARATOR) || found[cell + 1];
        if tokens[cell] != SEPARATOR && !found[cell] && !(is_first && follower) {
            contexts[cell / u32::BITS as usize] |= 1 << (cell % u32::BITS as usize);
        }
    }
    contexts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn context_is_what_no_chain_leads_to() {
        let shape = BlockShape {
            capacity: 16,
            end: 10,
            num_tokens: 5,
            credit: 0,
        };
        let x = SEPARATOR;
        let mut words = vec![7, 8, 9, x, 1, 2, 3, 4, x, x];
        let mut links = vec![0; 10 * ORDERS.len()];
        links[2 * ORDERS.len()] = 1;
        links[7 * ORDERS.len()] = 6;
        // A link that leads around in circles is followed once.
        links[6 * ORDERS.len()] = 7;
        words.extend(links);
        words.extend([2, 7, 99, 0]);
        words.extend([0; 24]);
        assert_eq!(words.len() * 4, saved_bytes(shape));
        assert_eq!(contexts(shape, &words), [1 << 4 | 1 << 5]);
    }
}
