//! The text of `tests/golden/noise.json`: the constants of the noise and of masses, and cases.

use std::fmt::Write;

use spectrie_sampling::mass::mass;
use spectrie_sampling::noise::{
    FINAL_MULTIPLIER_1, FINAL_MULTIPLIER_2, LN_2_HIGH, LN_2_LOW, MESSAGE_BYTES, NoiseRow, R,
    STATE_INCREMENT, WORD_MULTIPLIER_1, WORD_MULTIPLIER_2, gumbel,
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
    writeln!(text, "  \"version\": 2,").unwrap();
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
    writeln!(text, "  \"r\": {R:?},").unwrap();
    writeln!(text, "  \"ln_2_high\": {LN_2_HIGH:?},").unwrap();
    writeln!(text, "  \"ln_2_low\": {LN_2_LOW:?},").unwrap();
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
    writeln!(text, "  ],").unwrap();
    let hard = hard_hashes().map(|bits| format!("[{bits}, {:?}]", gumbel(bits)));
    writeln!(text, "  \"hard_hashes\": {},", list(hard)).unwrap();
    let below = (0..400_u16).map(|step| -f32::from(step) * f32::from(step) / 1_777.0);
    let masses = below.map(|below| format!("[{below:?}, {}]", mass(below)));
    writeln!(text, "  \"masses\": {}\n}}", list(masses)).unwrap();
    text
}

/// Hashes where logarithms are hardest: at both ends, where noise changes its sign, and where the
/// exponent of a logarithm's argument does.
fn hard_hashes() -> impl Iterator<Item = u32> {
    // 2^32 times exp(-1), exp(-sqrt(1/2)), exp(-sqrt(2)), sqrt(1/2) and 1/2.
    let middles = [
        1_580_030_169,
        2_117_713_904,
        1_044_178_424,
        3_037_000_500,
        2_147_483_648,
    ];
    let ends = (0..20).flat_map(|i| [i, u32::MAX - i]);
    let powers = (5..31).flat_map(|bit| [1 << bit, (1 << bit) - 1, u32::MAX - (1 << bit)]);
    let around = middles
        .into_iter()
        .flat_map(|middle: u32| middle - 10..middle + 10);
    ends.chain(powers).chain(around)
}

/// A list, one item a line.
fn list(items: impl Iterator<Item = String>) -> String {
    let items: Vec<String> = items.collect();
    format!("[\n    {}\n  ]", items.join(",\n    "))
}
