//! The noise meets the checked-in golden cases.

#[cfg(test)]
mod support {
    pub(crate) mod golden;
}

use std::path::Path;

use serde_json::Value;
use spectrie_sampling::noise::{NoiseRow, gumbel};

/// On a difference the text wanted is left beside the build, to be compared and copied by hand.
#[test]
fn the_golden_file_is_what_the_definition_gives() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/golden/noise.json");
    let text = support::golden::text();
    if std::fs::read_to_string(path).unwrap() != text {
        let wanted = Path::new(env!("CARGO_TARGET_TMPDIR")).join("noise.json");
        std::fs::write(&wanted, text).unwrap();
        panic!("{path} differs from {}", wanted.display());
    }
}

#[test]
fn golden_cases_have_the_same_bits_and_noise() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/golden/noise.json");
    let golden: Value = serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap();
    let cases = golden["cases"].as_array().unwrap();
    assert_eq!(cases.len(), 1_000);
    for case in cases {
        let number = |name: &str| case[name].as_u64().unwrap();
        let row = NoiseRow::new(number("seed"), number("position") as u32);
        let token = number("token") as u32;
        assert_eq!(u64::from(row.bits(token)), number("bits"), "{case}");
        assert_eq!(
            row.gumbel(token).to_bits(),
            (case["gumbel"].as_f64().unwrap() as f32).to_bits(),
            "{case}"
        );
    }
}

/// How often the noise of some hashes is another 32-bit number than the platform's logarithm gives.
fn differing(hashes: impl Iterator<Item = u32>) -> u32 {
    let mut differing = 0;
    for bits in hashes {
        let uniform = (f64::from(bits) + 0.5) / 2.0_f64.powi(32);
        let (ours, library) = (gumbel(bits), (-(-uniform.ln()).ln()) as f32);
        if ours.to_bits() != library.to_bits() {
            let unit = library.next_up() - library;
            let apart = f64::from((ours - library).abs());
            assert!(apart <= f64::from(unit).max(2.0_f64.powi(-50)), "{bits}");
            differing += 1;
        }
    }
    differing
}

#[test]
fn noise_is_that_of_the_librarys_logarithm_within_a_unit() {
    // Every 4,099th hash, the ends, and where noise changes its sign.
    assert!(differing((0..=u32::MAX).step_by(4_099)) < 10);
    assert_eq!(
        differing((0..10_000).chain(u32::MAX - 10_000..=u32::MAX)),
        0
    );
    differing(1_580_020_169..1_580_040_169);
}

#[test]
#[ignore = "deep: minutes"]
fn all_noise_is_that_of_the_librarys_logarithm_within_a_unit() {
    let differing = differing(0..=u32::MAX);
    assert!(differing < 100_000, "{differing}");
}

#[test]
fn noise_has_the_moments_of_the_gumbel_distribution() {
    let mut sum = 0.0;
    let mut squares = 0.0;
    let count = 400_000_u32;
    for position in 0..40 {
        let row = NoiseRow::new(9, position);
        for token in 0..count / 40 {
            let value = f64::from(row.gumbel(token));
            sum += value;
            squares += value * value;
        }
    }
    let mean = sum / f64::from(count);
    let variance = squares / f64::from(count) - mean * mean;
    assert!((mean - 0.577_215_7).abs() < 0.01, "mean {mean}");
    assert!((variance - 1.644_934).abs() < 0.03, "variance {variance}");
}
