//! Norm and activation against double precision, and the independence of their rows.

use crate::support::Random;
use spectrie_cpu::{Bf16, CpuError, Dtype, add_rms_norm, rms_norm, silu_mul};

const EPSILON: f32 = 1e-5;

#[test]
fn norm_of_a_sum_matches_double_precision() {
    for width in [1, 7, 16, 100, 576] {
        let mut random = Random(width as u64);
        let (x, delta): (Vec<f32>, Vec<f32>) =
            (random.numbers(3 * width), random.numbers(3 * width));
        let weight: Vec<f32> = random.numbers(width);
        let (mut sum, mut out) = (x.clone(), vec![0f32; 3 * width]);
        add_rms_norm(&mut sum, &delta, &weight, EPSILON, &mut out).expect("fitting buffers");
        for row in 0..3 {
            let total: Vec<f64> = (row * width..(row + 1) * width)
                .map(|i| f64::from(x[i]) + f64::from(delta[i]))
                .collect();
            let mean = total.iter().map(|v| v * v).sum::<f64>() / width as f64;
            let inverse = 1.0 / (mean + f64::from(EPSILON)).sqrt();
            for i in 0..width {
                let got = f64::from(out[row * width + i]);
                let want = total[i] * inverse * f64::from(weight[i]);
                assert!(
                    (got - want).abs() < 1e-5,
                    "width {width}, element {i}: {got}, want {want}"
                );
                assert!((f64::from(sum[row * width + i]) - total[i]).abs() < 1e-6);
            }
        }
    }
}

#[test]
fn gated_activation_matches_double_precision() {
    for width in [1, 16, 33, 1536] {
        let mut random = Random(width as u64);
        let both: Vec<f32> = random
            .numbers::<f32>(4 * width)
            .iter()
            .map(|x| x * 30.0)
            .collect();
        let mut out = vec![0f32; 2 * width];
        silu_mul(&both, width, &mut out).expect("fitting buffers");
        for row in 0..2 {
            for i in 0..width {
                let gate = f64::from(both[2 * row * width + i]);
                let up = f64::from(both[(2 * row + 1) * width + i]);
                let want = gate / (1.0 + (-gate).exp()) * up;
                let got = f64::from(out[row * width + i]);
                assert!(
                    (got - want).abs() <= 1e-6 * want.abs() + 1e-7,
                    "{got}, want {want}"
                );
            }
        }
    }
}

#[test]
fn activation_of_extreme_gates_is_finite() {
    let mut out = [0f32; 2];
    silu_mul(&[-1e30, 1e30, 1.0, 1.0], 2, &mut out).expect("fitting buffers");
    assert!(out[0].abs() < 1e-6 && out[1] >= 1e30);
}

fn check_rows_alone<E: Dtype>() {
    let (rows, width) = (200, 576);
    let mut random = Random(3);
    let x: Vec<f32> = random.numbers(rows * width);
    let weight: Vec<f32> = random.numbers(width);
    let both: Vec<E> = random.numbers(rows * 2 * width);
    let bits = |x: &[E]| x.iter().map(|x| x.to_f32().to_bits()).collect::<Vec<_>>();
    let (mut normed, mut gated) = (
        vec![E::default(); rows * width],
        vec![E::default(); rows * width],
    );
    rms_norm(&mut x.clone(), &weight, EPSILON, &mut normed).expect("fitting buffers");
    silu_mul(&both, width, &mut gated).expect("fitting buffers");
    for row in 0..rows {
        let range = row * width..(row + 1) * width;
        let mut one = vec![E::default(); width];
        rms_norm(&mut x[range.clone()].to_vec(), &weight, EPSILON, &mut one).expect("one row");
        assert_eq!(
            bits(&one),
            bits(&normed[range.clone()]),
            "norm of row {row}"
        );
        let pair = &both[2 * row * width..2 * (row + 1) * width];
        silu_mul(pair, width, &mut one).expect("one row");
        assert_eq!(bits(&one), bits(&gated[range]), "activation of row {row}");
    }
}

#[test]
fn rows_are_bitwise_equal_alone_and_in_company() {
    check_rows_alone::<f32>();
    check_rows_alone::<Bf16>();
}

#[test]
fn sizes_that_do_not_fit_are_refused() {
    let mut out = [0f32; 3];
    let error = silu_mul(&[0f32; 5], 3, &mut out);
    assert_eq!(
        error,
        Err(CpuError::Length {
            what: "gate_up",
            given: 5,
            expected: 6
        })
    );
    let error = rms_norm(&mut [0.0; 4], &[1.0; 3], EPSILON, &mut out);
    assert_eq!(
        error,
        Err(CpuError::Length {
            what: "x",
            given: 4,
            expected: 3
        })
    );
    let error = add_rms_norm(&mut [0.0; 3], &[1f32; 2], &[1.0; 3], EPSILON, &mut out);
    assert_eq!(
        error,
        Err(CpuError::Length {
            what: "delta",
            given: 2,
            expected: 3
        })
    );
}

#[test]
fn bfloat16_rounds_to_nearest_even_and_keeps_nan() {
    for (value, bits) in [
        (1.0f32, 0x3f80u16),
        (f32::from_bits(0x3f80_8000), 0x3f80),
        (f32::from_bits(0x3f81_8000), 0x3f82),
        (f32::from_bits(0x3f80_8001), 0x3f81),
        (f32::MAX, 0x7f80),
        (-0.0, 0x8000),
    ] {
        assert_eq!(Bf16::from_f32(value).0, bits, "{value}");
    }
    assert!(
        Bf16::from_f32(f32::from_bits(0x7f80_0001))
            .to_f32()
            .is_nan()
    );
}
