//! The text of `tests/golden/noise.json`: the constants of the noise and 1,000 cases.

use std::fmt::Write;

use spectrie_sampling::noise::{
    FINAL_MULTIPLIER_1, FINAL_MULTIPLIER_2, MESSAGE_BYTES, NoiseRow, STATE_INCREMENT,
    WORD_MULTIPLIER_1, WORD_MULTIPLIER_2,
};

/// The whole file.
pub(crate) fn text() -> String {
    let seeds: [u64; 8] = [
        0,
        1,
        42,
        0xFFFF_FFFF,
        1 << 32,
        0x0123_4567_89AB_CDEF,
        u64::MAX - 1,
        u64::MAX,
    ];
    let positions: [u32; 5] = [0, 1, 1_000, 131_071, u32::MAX];
    let tokens: [u32; 5] = [0, 1, 1_234, 49_151, 262_143];
    let mut cases = Vec::with_capacity(1_000);
    for seed in seeds {
        for position in positions {
            for token in tokens {
                cases.push((seed, position, token));
            }
        }
    }
    let mut state = 0x5EED_u64;
    while cases.len() < 1_000 {
        let mut next = || {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            state >> 32
        };
        let seed = (next() << 32) | next();
        cases.push((seed, next() as u32 % 200_000, next() as u32 % 200_000));
    }
    let mut text = String::new();
    writeln!(text, "{{").unwrap();
    writeln!(
        text,
        "  \"hash\": \"MurmurHash3_x86_32 of (seed_lo, seed_hi, position, token), seed 0\","
    )
    .unwrap();
    writeln!(text, "  \"word_multiplier_1\": {WORD_MULTIPLIER_1},").unwrap();
    writeln!(text, "  \"word_multiplier_2\": {WORD_MULTIPLIER_2},").unwrap();
    writeln!(text, "  \"state_increment\": {STATE_INCREMENT},").unwrap();
    writeln!(text, "  \"final_multiplier_1\": {FINAL_MULTIPLIER_1},").unwrap();
    writeln!(text, "  \"final_multiplier_2\": {FINAL_MULTIPLIER_2},").unwrap();
    writeln!(text, "  \"message_bytes\": {MESSAGE_BYTES},").unwrap();
    writeln!(text, "  \"cases\": [").unwrap();
    let last = cases.len() - 1;
    for (index, (seed, position, token)) in cases.into_iter().enumerate() {
        let row = NoiseRow::new(seed, position);
        let (bits, gumbel) = (row.bits(token), row.gumbel(token));
        let comma = if index == last { "" } else { "," };
        writeln!(
            text,
            "    {{\"seed\": {seed}, \"position\": {position}, \"token\": {token}, \"bits\": {bits}, \"gumbel\": {gumbel:?}}}{comma}"
        ).unwrap();
    }
    writeln!(text, "  ]\n}}").unwrap();
    text
}
