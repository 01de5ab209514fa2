//! The likeliest tokens of rows of logits against a sorted row in double precision.

use crate::support::Random;
use spectrie_cpu::{CpuError, TOP_K, top_k};

fn top_of(logits: &[f32], rows: usize) -> (Vec<i32>, Vec<f32>) {
    let (mut ids, mut probabilities) = (vec![7; rows * TOP_K], vec![7.0; rows * TOP_K]);
    top_k(logits, logits.len() / rows, &mut ids, &mut probabilities).expect("fitting buffers");
    (ids, probabilities)
}

/// The same by sorting.
fn sorted(row: &[f32]) -> (Vec<i32>, Vec<f64>) {
    let mut order: Vec<usize> = (0..row.len()).filter(|&id| !row[id].is_nan()).collect();
    order.sort_by(|&a, &b| row[b].partial_cmp(&row[a]).expect("no NaN").then(a.cmp(&b)));
    let weight = |id: usize| f64::from(row[id] - row[order[0]]).exp();
    let total: f64 = order.iter().map(|&id| weight(id)).sum();
    let top = &order[..TOP_K.min(order.len())];
    (
        top.iter().map(|&id| id as i32).collect(),
        top.iter().map(|&id| weight(id) / total).collect(),
    )
}

fn check(row: &[f32]) {
    let (ids, probabilities) = top_of(row, 1);
    let (want_ids, want) = sorted(row);
    assert_eq!(ids[..want_ids.len()], want_ids, "{} values", row.len());
    for (got, want) in probabilities.iter().zip(want) {
        assert!(
            (f64::from(*got) - want).abs() < 1e-5 * want + 1e-9,
            "{got}, want {want}"
        );
    }
}

#[test]
fn tokens_and_probabilities_match_a_sorted_row_of_any_width() {
    for width in [8, 9, 16, 17, 63, 256, 257, 1000, 4097, 49_152] {
        let mut random = Random(width as u64);
        let row: Vec<f32> = random
            .numbers::<f32>(width)
            .iter()
            .map(|x| x * 12.0)
            .collect();
        check(&row);
        // Few values, hence many ties.
        let steps: Vec<f32> = row.iter().map(|x| x.round()).collect();
        check(&steps);
        check(&vec![0.25; width]);
    }
}

#[test]
fn the_likeliest_may_all_lie_in_one_lane() {
    let mut row = vec![0.0; 2000];
    for index in 0..10 {
        row[5 + 16 * index] = 3.0 + (index % 4) as f32;
    }
    check(&row);
}

#[test]
fn zeros_of_either_sign_tie() {
    let mut row = vec![-1.0; 100];
    row[40] = 0.0;
    row[7] = -0.0;
    assert_eq!(top_of(&row, 1).0[..3], [7, 40, 0]);
}

#[test]
fn nan_is_passed_over_and_rows_without_a_finite_greatest_give_no_token() {
    let mut row: Vec<f32> = Random(3).numbers(3000);
    for id in [0, 5, 1024, 2999] {
        row[id] = f32::NAN;
    }
    check(&row);
    for value in [f32::NAN, f32::NEG_INFINITY, f32::INFINITY] {
        let (ids, probabilities) = top_of(&[value; 300], 1);
        assert_eq!(ids, [-1; TOP_K]);
        assert_eq!(probabilities, [0.0; TOP_K]);
    }
    row[17] = f32::INFINITY;
    assert_eq!(top_of(&row, 1).0, [-1; TOP_K]);
}

#[test]
fn tokens_at_minus_infinity_are_left_out() {
    let mut row = vec![f32::NEG_INFINITY; 500];
    row[3] = 1.0;
    row[499] = 1.0;
    let (ids, probabilities) = top_of(&row, 1);
    assert_eq!(ids, [3, 499, -1, -1, -1, -1, -1, -1]);
    assert!((probabilities[0] - 0.5).abs() < 1e-6 && probabilities[2].to_bits() == 0);
    assert_eq!(top_of(&[2.0, 3.0, 1.0], 1).0[..4], [1, 0, 2, -1]);
}

#[test]
fn rows_do_not_depend_on_their_company() {
    let (rows, width) = (11, 9_001);
    let logits: Vec<f32> = Random(5).numbers(rows * width);
    let (mut ids, mut probabilities) = (vec![0; rows * TOP_K], vec![0.0; rows * TOP_K]);
    top_k(&logits, width, &mut ids, &mut probabilities).expect("fitting buffers");
    for row in 0..rows {
        let alone = top_of(&logits[row * width..(row + 1) * width], 1);
        let range = row * TOP_K..(row + 1) * TOP_K;
        assert_eq!(alone.0, ids[range.clone()]);
        let bits = |values: &[f32]| values.iter().map(|v| v.to_bits()).collect::<Vec<_>>();
        assert_eq!(bits(&alone.1), bits(&probabilities[range]));
    }
}

#[test]
fn sizes_that_do_not_fit_are_refused() {
    let mut probabilities = [0.0; TOP_K];
    let error = top_k(&[0.0; 30], 16, &mut [0; TOP_K], &mut probabilities);
    assert_eq!(
        error,
        Err(CpuError::Length {
            what: "logits",
            given: 30,
            expected: 16
        })
    );
    assert!(top_k(&[0.0; 16], 16, &mut [0; 9], &mut probabilities).is_err());
}

/// Not a test: prints the cost of a row. `cargo test --release -p spectrie-cpu -- --ignored cost`
#[test]
#[ignore = "prints a time"]
fn cost_of_a_row() {
    let (rows, width) = (8, 49_152);
    let logits: Vec<f32> = Random(5)
        .numbers::<f32>(rows * width)
        .iter()
        .map(|x| x * 10.0)
        .collect();
    let (mut ids, mut probabilities) = (vec![0; rows * TOP_K], vec![0.0; rows * TOP_K]);
    let mut best = f64::MAX;
    for _ in 0..300 {
        let start = std::time::Instant::now();
        top_k(&logits, width, &mut ids, &mut probabilities).expect("fitting buffers");
        best = best.min(start.elapsed().as_secs_f64());
    }
    println!("{:.1} us a row", best * 1e6 / rows as f64);
}
