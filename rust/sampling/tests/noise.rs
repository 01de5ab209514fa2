//! The noise meets the checked-in golden cases.

#[cfg(test)]
mod support {
    pub(crate) mod golden;
}

use std::path::Path;

use serde_json::Value;
use spectrie_sampling::noise::NoiseRow;

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
