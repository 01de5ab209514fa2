//! Which bucket of a table a hash belongs to, while the table grows and shrinks (linear hashing,
//! Litwin 1980, with four buckets for one).
//!
//! A table of `size` buckets began with [`begun`] of them. It grows by splitting these into four,
//! one after the other: each keeps the hashes whose next two bits are zero, and three new buckets
//! take the others. Once all are split, it begins again with four times as many. An entry is moved
//! once while the table quadruples, a third as often as if buckets were split into two.

/// Buckets of the smallest table. Loom explores every word, so it has few.
#[cfg(not(all(test, loom)))]
pub(crate) const FIRST_BUCKETS: u32 = 128;
#[cfg(all(test, loom))]
pub(crate) const FIRST_BUCKETS: u32 = 4;

/// Buckets that one is split into, and those of them that are new.
pub(crate) const FAN: u32 = 4;
pub(crate) const NEW: u32 = FAN - 1;

/// The bits of a hash that choose a bucket, the most important first from below.
pub(crate) fn bits_of(hash: u32) -> u32 {
    hash ^ (hash >> 16)
}

/// Buckets that a table of `size` had when it began to split them. At most 2^29 for a `size` of
/// less than 2^31.
pub(crate) fn begun(size: u32) -> u32 {
    FIRST_BUCKETS << ((size / FIRST_BUCKETS).ilog2() & !1)
}

/// The largest size of at most `most` buckets, and at least the smallest, at which all splits that
/// were begun are done.
pub(crate) fn whole(most: u32) -> u32 {
    let begun = begun(most);
    begun + (most - begun) / NEW * NEW
}

/// The number of the bucket whose hashes have these low bits, and zeros before them as far as
/// buckets were split.
pub(crate) fn number(bits: u32) -> u32 {
    if bits < FIRST_BUCKETS {
        return bits;
    }
    let begun = begun(bits);
    let part = bits >> begun.trailing_zeros();
    begun + NEW * (bits & (begun - 1)) + part - 1
}

/// The number of the bucket that `hash` belongs to in a table of `size`.
pub(crate) fn bucket(hash: u32, size: u32) -> u32 {
    let bits = bits_of(hash);
    let begun = begun(size);
    let split = number(bits & (FAN * begun - 1));
    if split < size {
        split
    } else {
        number(bits & (begun - 1))
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn a_hash_moves_only_to_a_bucket_that_is_new() {
        let hashes: Vec<u32> = (0..2000_u32).map(|i| i.wrapping_mul(0x9E37_79B9)).collect();
        for size in (FIRST_BUCKETS..5000).step_by(NEW as usize) {
            let size = whole(size);
            for &hash in &hashes {
                let (before, after) = (bucket(hash, size), bucket(hash, size + NEW));
                assert!(before < size);
                assert!(after == before || (size..size + NEW).contains(&after));
            }
        }
    }

    #[test]
    fn every_bucket_is_used() {
        for size in [128, 131, 512, 515, 1001, 2048] {
            let found: HashSet<u32> = (0..1 << 16).map(|bits| bucket(bits, size)).collect();
            assert_eq!(found.len(), size as usize);
        }
    }

    #[test]
    fn the_largest_table_has_a_bucket_for_every_hash() {
        let size = 1 << 30;
        assert_eq!(begun(size), 1 << 29);
        for hash in [0, 1, u32::MAX, 1 << 31, 0x9E37_79B9] {
            assert!(bucket(hash, size) < size);
        }
    }
}
