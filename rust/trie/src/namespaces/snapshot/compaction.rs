//! Which parts are written again, so that dead text does not fill the disk.
//!
//! A part goes when less than half of it is alive. So at most one byte is written again for each
//! byte that died, and parts hold at most twice the live text. Saves of little text make small
//! parts; once there are many, those like the smallest become one. Text that is written again for
//! that is then in a much larger part, so it happens to a byte with the logarithm of the text: twice
//! for the usual sizes. (Merging always the smaller half wrote 11 to 25 times what was learnt in
//! saves of 250 tokens to 2,500; this writes 3 to 4 times.)

use std::collections::{BTreeMap, BTreeSet};

use crate::namespaces::snapshot::part::PART_BYTES;

/// Most parts that are less than half as large as a part can be.
pub(super) const MAX_SMALL_PARTS: usize = 64;

/// Parts at most so many times as large as the smallest become one with it.
const LIKE: u64 = 16;

/// The parts whose live runs the next save writes again, out of the `bytes` of each part and those
/// of its live runs.
pub(super) fn parts_to_rewrite(
    bytes: &BTreeMap<u32, u64>,
    live_bytes: &BTreeMap<u32, u64>,
) -> BTreeSet<u32> {
    let live = |part: &u32| live_bytes.get(part).copied().unwrap_or(0);
    let is_dead = |&(part, bytes): &(&u32, &u64)| live(part) * 2 < *bytes;
    let (dead, alive): (Vec<_>, Vec<_>) = bytes.iter().partition(is_dead);
    let mut rewritten: BTreeSet<u32> = dead.into_iter().map(|(part, _)| *part).collect();
    let small = alive
        .into_iter()
        .filter(|(_, bytes)| **bytes < PART_BYTES / 2);
    let mut small: Vec<_> = small.map(|(part, _)| (live(part), *part)).collect();
    // The one that this save makes is small too.
    if small.len() >= MAX_SMALL_PARTS {
        small.sort_unstable();
        let smallest = small[0].0;
        let num_like = small.partition_point(|(bytes, _)| *bytes <= smallest * LIKE);
        // Where it is alone, the smaller half.
        let count = if num_like > 1 {
            num_like
        } else {
            small.len() / 2
        };
        rewritten.extend(small[..count].iter().map(|(_, part)| part));
    }
    rewritten
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_of_which_less_than_half_is_alive_go() {
        let bytes = BTreeMap::from([(1, 1000), (2, 1000), (3, 1000)]);
        let live = BTreeMap::from([(1, 499), (2, 500)]);
        assert_eq!(parts_to_rewrite(&bytes, &live), [1, 3].into());
    }

    /// Bytes written for each byte learnt in `saves` of so many bytes, and the most parts.
    fn amplification(saves: u32, saved: impl Fn(u32) -> u64) -> (f64, usize) {
        let mut bytes = BTreeMap::new();
        let (mut learnt, mut written, mut most, mut next) = (0, 0, 0, 0);
        for number in 0..saves {
            let rewritten = parts_to_rewrite(&bytes, &bytes.clone());
            let moved: u64 = rewritten.iter().filter_map(|part| bytes.remove(part)).sum();
            learnt += saved(number);
            written += saved(number) + moved;
            let mut left = saved(number) + moved;
            while left > 0 {
                bytes.insert(next, left.min(PART_BYTES));
                left = left.saturating_sub(PART_BYTES);
                next += 1;
            }
            most = most.max(bytes.len());
        }
        (written as f64 / learnt as f64, most)
    }

    #[test]
    fn small_parts_become_large_ones_and_each_byte_moves_seldom() {
        for bytes in [1_000, 10_000, 100_000] {
            let (written, most) = amplification(10_000, |_| bytes);
            assert!(written < 4.0, "{written} of saves of {bytes}");
            assert!(most <= MAX_SMALL_PARTS + 20, "{most} of saves of {bytes}");
        }
        let (written, most) = amplification(5_000, |number| 1 << (number * 7 % 20));
        assert!(
            written < 4.0 && most <= MAX_SMALL_PARTS + 20,
            "{written} {most}"
        );
    }
}
