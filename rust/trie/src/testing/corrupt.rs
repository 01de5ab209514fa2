//! Damage to files: seeded, so that an input that fails can be made again from its number alone.

use std::panic::{AssertUnwindSafe, catch_unwind};

use rand::rngs::StdRng;
use rand::seq::IndexedRandom;
use rand::{Rng, SeedableRng};

use crate::store::atomic_file::CHECKSUM_BYTES;

/// Words that bounds are often wrong about.
const WORDS: [u32; 10] = [
    0,
    1,
    2,
    255,
    256,
    1 << 20,
    i32::MAX as u32,
    1 << 31,
    u32::MAX - 1,
    u32::MAX,
];

/// How many inputs were read as whole files, and how many were refused.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Outcome {
    pub(crate) accepted: u32,
    pub(crate) refused: u32,
}

/// Tries the inputs numbered below `count`. `accepts` makes one from its random numbers and says
/// whether it was read; one that makes it panic is named.
pub(crate) fn try_inputs(count: u32, accepts: impl Fn(&mut StdRng) -> bool) -> Outcome {
    let mut outcome = Outcome::default();
    for number in 0..count {
        let mut random = StdRng::seed_from_u64(u64::from(number));
        let accepted = catch_unwind(AssertUnwindSafe(|| accepts(&mut random)))
            .unwrap_or_else(|_| panic!("input {number} of {count} makes the reader panic"));
        if accepted {
            outcome.accepted += 1;
        } else {
            outcome.refused += 1;
        }
    }
    println!("{count} inputs: {outcome:?}");
    outcome
}

/// Changes `bytes` in one to four places; their number stays unless `resizes`.
pub(crate) fn damage(bytes: &mut Vec<u8>, resizes: bool, random: &mut StdRng) {
    for _ in 0..random.random_range(1..=4) {
        if bytes.is_empty() {
            bytes.push(random.random());
        }
        let at = random.random_range(0..bytes.len());
        let count = random.random_range(1..=(bytes.len() - at).min(64));
        match random.random_range(0..if resizes { 8 } else { 5 }) {
            0 => bytes[at] ^= 1 << random.random_range(0..8),
            1 => bytes[at] = random.random(),
            2 => {
                let word = WORDS.choose(random).copied().unwrap_or(0);
                overwrite(bytes, at & !3, &word.to_le_bytes());
            }
            3 => {
                let cell = bytes[at & !3..]
                    .first_chunk()
                    .map_or(0, |word| u32::from_le_bytes(*word));
                let word = cell.wrapping_add_signed(random.random_range(-4..=4));
                overwrite(bytes, at & !3, &word.to_le_bytes());
            }
            4 => {
                let from = random.random_range(0..=bytes.len() - count);
                bytes.copy_within(from..from + count, at);
            }
            5 => bytes.truncate(at),
            6 => drop(bytes.drain(at..at + count)),
            _ => {
                let copy = bytes[at..at + count].to_vec();
                let to = random.random_range(0..=bytes.len());
                drop(bytes.splice(to..to, copy));
            }
        }
    }
}

fn overwrite(bytes: &mut [u8], at: usize, new: &[u8]) {
    for (byte, new) in bytes[at..].iter_mut().zip(new) {
        *byte = *new;
    }
}

/// Makes the checksum at the end of `block` that of the bytes before it.
pub(crate) fn seal(block: &mut [u8]) {
    if let Some((body, checksum)) = block.split_last_chunk_mut::<CHECKSUM_BYTES>() {
        *checksum = xxhash_rust::xxh3::xxh3_64(body).to_le_bytes();
    }
}
