//! Seeds of the choices of a request.

/// What is added for each choice: 2^64 divided by the golden ratio.
const INCREMENT: u64 = 0x9E37_79B9_7F4A_7C15;

/// The seed of choice `choice` of a request: the request's own for choice 0, so that `n` does not
/// change it, else a `SplitMix64` output.
#[must_use]
pub const fn choice_seed(request_seed: u64, choice: u32) -> u64 {
    if choice == 0 {
        return request_seed;
    }
    splitmix(request_seed.wrapping_add((choice as u64).wrapping_mul(INCREMENT)))
}

/// The `SplitMix64` finalizer (Steele, Lea and Flood, Fast Splittable Pseudorandom Number
/// Generators, 2014).
#[must_use]
#[inline]
pub const fn splitmix(mut z: u64) -> u64 {
    z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ (z >> 31)
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn choice_zero_keeps_the_seed_and_others_differ() {
        assert_eq!(choice_seed(7, 0), 7);
        let seeds: HashSet<u64> = (0..100).map(|i| choice_seed(7, i)).collect();
        assert_eq!(seeds.len(), 100);
    }

    #[test]
    fn choices_of_seed_zero_are_the_published_splitmix64_sequence() {
        let seeds = [1, 2, 3].map(|choice| choice_seed(0, choice));
        assert_eq!(
            seeds,
            [
                0xE220_A839_7B1D_CDAF,
                0x6E78_9E6A_A1B9_65F4,
                0x06C4_5D18_8009_454F
            ]
        );
    }
}
