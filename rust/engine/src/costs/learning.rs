//! What a curve learns from the forwards that it is told of.

use super::{CostCurve, CostShape, ForwardSize};

fn curve(rows: &[usize], milliseconds: &[f64]) -> CostCurve {
    CostCurve::new(rows, milliseconds, CostShape::default()).unwrap()
}

fn rows(rows: usize) -> ForwardSize {
    ForwardSize::of_tree(0, rows, 1)
}

/// A deterministic number in 0..1.
fn unit(index: u64) -> f64 {
    (spectrie_types::seed::splitmix(index) >> 11) as f64 / (1_u64 << 53) as f64
}

#[test]
fn measurements_move_the_curve_towards_them() {
    let mut curve = curve(&[1, 16], &[10.0, 20.0]);
    for _ in 0..500 {
        curve.observe(rows(16), 60.0);
        curve.observe(rows(1), 10.0);
    }
    for (count, truth) in [(16, 60.0), (1, 10.0)] {
        let at = curve.milliseconds(rows(count));
        assert!((at / truth - 1.0).abs() < 0.1, "{count} rows: {at}");
    }
}

#[test]
fn a_machine_that_changes_its_speed_is_followed_within_fifty_forwards() {
    let truth = |rows: usize| 9.0 + rows as f64;
    for factor in [2.0, 0.5, 5.0] {
        let mut curve = curve(&[1, 4, 16, 64], &[10.0, 13.0, 25.0, 73.0]);
        let mut step = 0;
        let mut run = |curve: &mut CostCurve, factor: f64, steps: u64| {
            for _ in 0..steps {
                step += 1;
                let count = 1 + (unit(step) * 20.0) as usize;
                let noise = 0.95 + 0.1 * unit(step + 1_000_000);
                curve.observe(rows(count), factor * truth(count) * noise);
            }
        };
        for (factor, steps) in [(1.0, 200), (factor, 50), (1.0, 50)] {
            run(&mut curve, factor, steps);
            for count in [1, 2, 4, 8, 16, 40] {
                let off = curve.milliseconds(rows(count)) / (factor * truth(count));
                assert!((off - 1.0).abs() < 0.1, "x{factor}, {count} rows: {off}");
            }
        }
    }
}

#[test]
fn hiccups_do_not_move_the_curve() {
    let mut curve = curve(&[1, 16], &[10.0, 20.0]);
    for step in 0..300 {
        let hiccup = if step % 10 == 0 { 30.0 } else { 1.0 };
        curve.observe(rows(16), 20.0 * hiccup);
        let at = curve.milliseconds(rows(16)) / curve.milliseconds(rows(1));
        assert!((at - 2.0).abs() < 0.3, "after {step}: {at}");
    }
    assert!((curve.milliseconds(rows(16)) - 20.0).abs() < 3.0);
}

#[test]
fn a_point_that_is_seldom_measured_learns_more_from_each_measurement() {
    // One row is measured in holdout steps alone, and is half as dear as it was.
    let mut curve = curve(&[1, 16], &[10.0, 20.0]);
    for step in 0..1000 {
        if step % 100 == 50 {
            curve.observe(rows(1), 5.0);
        } else {
            curve.observe(rows(16), 20.0);
        }
    }
    let at = curve.milliseconds(rows(1));
    assert!((at - 5.0).abs() < 1.0, "{at}");
    assert!((curve.milliseconds(rows(16)) - 20.0).abs() < 1.0);
}

#[test]
fn the_price_of_keys_is_corrected_by_long_and_short_contexts() {
    let shape = CostShape {
        ms_per_key: 0.001,
        ..CostShape::default()
    };
    let mut curve = CostCurve::new(&[1, 16], &[10.0, 20.0], shape).unwrap();
    let truth =
        |size: ForwardSize| 10.0 + (size.rows - 1) as f64 / 1.5 + 0.003 * size.kv_tokens as f64;
    let size = |step: u64| {
        let rows = 1 + step as usize % 16;
        let tokens = if unit(step) < 0.5 { 100 } else { 3000 };
        ForwardSize::of_tree(tokens, rows, 1)
    };
    for step in 0..2000 {
        curve.observe(size(step), truth(size(step)));
    }
    for step in 0..32 {
        let off = curve.milliseconds(size(step)) / truth(size(step));
        assert!((off - 1.0).abs() < 0.15, "{:?}: {off}", size(step));
    }
}

#[test]
fn a_stair_that_is_measured_teaches_that_stair() {
    let shape = CostShape {
        stair_rows: 64,
        ..CostShape::default()
    };
    let times = [10.0, 11.0, 12.0, 13.0];
    let mut curve = CostCurve::new(&[1, 8, 16, 64], &times, shape).unwrap();
    let truth = |count: usize| if count > 8 { 20.0 } else { 11.0 };
    for step in 0..2000 {
        let count = 2 + (unit(step) * 14.0) as usize;
        curve.observe(rows(count), truth(count));
    }
    for count in 2..=16 {
        let off = curve.milliseconds(rows(count)) / truth(count);
        assert!((off - 1.0).abs() < 0.1, "{count} rows: {off}");
    }
}

#[test]
fn what_tiles_read_is_corrected_apart_from_what_rows_read() {
    let shape = CostShape {
        ms_per_key: 0.0005,
        ms_per_read: 0.0005,
        tile_rows: 16,
        ..CostShape::default()
    };
    let mut curve = CostCurve::new(&[1, 16], &[10.0, 12.0], shape).unwrap();
    let truth = |size: ForwardSize| {
        10.0 + 2.0 * (size.rows - 1) as f64 / 15.0
            + 0.0001 * size.kv_tokens as f64
            + 0.002 * size.kv_reads as f64
    };
    let size = |step: u64| {
        let rows = 1 + (unit(step) * 16.0) as usize;
        let tokens = if unit(step + 1_000_000) < 0.5 {
            100
        } else {
            3000
        };
        ForwardSize::of_tree(tokens, rows, 16)
    };
    for step in 0..8000 {
        curve.observe(size(step), truth(size(step)));
    }
    for step in 0..64 {
        let off = curve.milliseconds(size(step)) / truth(size(step));
        assert!((off - 1.0).abs() < 0.2, "{:?}: {off}", size(step));
    }
}

#[test]
fn sizes_that_are_measured_the_wrong_way_round_share_a_time_and_part_again() {
    let mut curve = curve(&[1, 4, 8], &[10.0, 11.0, 12.0]);
    let mut observe = |times: [f64; 2], rounds: usize| {
        for round in 0..rounds {
            curve.observe(rows(1), 10.0);
            curve.observe(rows([4, 8][round % 2]), times[round % 2]);
        }
        [1, 4, 8, 12].map(|count| curve.milliseconds(rows(count)))
    };
    let [_, four, eight, twelve] = observe([14.0, 12.0], 2_000);
    assert!((four / 13.0 - 1.0).abs() < 0.03, "{four}");
    assert!(four <= eight && eight <= twelve, "{four} {eight} {twelve}");
    let [one, four, eight, _] = observe([14.0, 20.0], 100);
    for (at, truth) in [(one, 10.0), (four, 14.0), (eight, 20.0)] {
        assert!((at / truth - 1.0).abs() < 0.1, "{one} {four} {eight}");
    }
}
