//! Draws of single rows, and how long they take.

use std::hint::black_box;
use std::time::Instant;

use spectrie_types::seed::splitmix;

use super::*;

fn draw(parameters: &SamplingParameters) -> Draw<'_> {
    Draw {
        parameters,
        history: None,
        masked: &[],
        allowed: None,
        choice_seed: 3,
        position: 5,
    }
}

fn greedy() -> SamplingParameters {
    SamplingParameters {
        temperature: 0.0,
        ..SamplingParameters::default()
    }
}

fn drawn(history: Option<&History>, parameters: &SamplingParameters, masked: &[u32]) -> u32 {
    let row = [5.0, 4.0, 3.0, -1.0];
    let draw = Draw {
        history,
        masked,
        ..draw(parameters)
    };
    Sampler::default().draw(&row, &draw).unwrap()
}

#[test]
fn only_allowed_tokens_are_drawn_and_none_past_the_last_word() {
    let parameters = SamplingParameters::default();
    let row = [0.0; 100];
    let mut sampler = Sampler::default();
    let mut seen = std::collections::BTreeSet::new();
    for position in 0..2_000 {
        let words = [u32::MAX, 0b1011, 0b1];
        let draw = Draw {
            allowed: Some(&words),
            position,
            ..draw(&parameters)
        };
        let token = sampler.draw(&row, &draw).unwrap();
        assert!(token < 32 || [32, 33, 35, 64].contains(&token), "{token}");
        seen.insert(token);
    }
    assert_eq!(seen.len(), 36);
    let none = Draw {
        allowed: Some(&[]),
        ..draw(&parameters)
    };
    assert_eq!(sampler.draw(&row, &none), Err(NoToken::Barred));
}

#[test]
fn rows_without_a_finite_greatest_logit_give_no_token() {
    let parameters = greedy();
    for value in [f32::NEG_INFINITY, f32::INFINITY, f32::NAN] {
        assert_eq!(
            Sampler::default().draw(&[value; 40], &draw(&parameters)),
            Err(NoToken::Model)
        );
    }
    let noisy = SamplingParameters::default();
    assert_eq!(
        Sampler::default().draw(&[f32::NAN; 40], &draw(&noisy)),
        Err(NoToken::Model)
    );
}

#[test]
fn drawn_tokens_follow_the_softmax() {
    let row = [2.0, 1.0, 0.0, -1.0];
    let parameters = SamplingParameters::default();
    let mut sampler = Sampler::default();
    let mut counts = [0_u32; 4];
    let draws = 40_000;
    for position in 0..draws {
        let draw = Draw {
            position,
            ..draw(&parameters)
        };
        counts[sampler.draw(&row, &draw).unwrap() as usize] += 1;
    }
    let total: f64 = row.iter().map(|&value| f64::from(value).exp()).sum();
    for (value, count) in row.iter().zip(counts) {
        let expected = f64::from(*value).exp() / total;
        assert!((f64::from(count) / f64::from(draws) - expected).abs() < 0.01);
    }
}

#[test]
fn penalties_masks_and_bias_reach_single_tokens() {
    let mut history = History::new(&[0]);
    let penalised = SamplingParameters {
        repetition_penalty: 2.0,
        ..greedy()
    };
    assert_eq!(drawn(Some(&history), &penalised, &[]), 1);
    history.push(1);
    assert_eq!(drawn(Some(&history), &penalised, &[]), 2);
    let presence = SamplingParameters {
        presence_penalty: 1.5,
        ..greedy()
    };
    assert_eq!(drawn(Some(&history), &presence, &[0]), 2);
    let biased = SamplingParameters {
        logit_bias: vec![(3, 100.0)],
        ..greedy()
    };
    assert_eq!(drawn(None, &biased, &[]), 3);
}

#[test]
fn instructions_do_not_change_draws_nor_log_probabilities() {
    let every = SamplingParameters {
        temperature: 0.9,
        top_p: 0.95,
        min_p: 0.001,
        typical_p: 0.9,
        ..SamplingParameters::default()
    };
    let plain = SamplingParameters::default();
    for seed in 0..200_u64 {
        let row: Vec<f32> = (0..1_009_u64)
            .map(|token| 1.8 * gumbel(splitmix(seed << 32 | token) as u32))
            .collect();
        let (mut wide, mut narrow) = (Sampler::default(), Sampler::default());
        for parameters in [&plain, &every] {
            let draw = Draw {
                position: seed as u32,
                ..draw(parameters)
            };
            assert_eq!(wide.draw(&row, &draw), narrow.draw_from(&row, &draw));
        }
        let work = LogprobsWork {
            sampler: &mut narrow,
            logits: &row,
            token: 7,
            num_top: 20,
        };
        assert_eq!(wide.logprobs(&row, 7, 20), work.run());
    }
}

/// Nanoseconds of one draw from a whole vocabulary, best of some rounds, by option.
#[test]
#[ignore = "deep: prints times"]
fn draws_take_so_many_nanoseconds() {
    let rows: Vec<Vec<f32>> = (0..32_u64)
        .map(|row| {
            (0..49_152_u64)
                .map(|token| {
                    let bits = splitmix(row << 32 | token) as u32;
                    1.8 * gumbel(bits)
                })
                .collect()
        })
        .collect();
    let plain = SamplingParameters::default();
    let mut history = History::new(&(0..400).collect::<Vec<u32>>());
    (300..500).for_each(|token| history.push(token));
    let cases = [
        ("greedy", greedy(), false),
        ("temperature", plain.clone(), false),
        (
            "top_p 0.9",
            SamplingParameters {
                top_p: 0.9,
                ..plain.clone()
            },
            false,
        ),
        (
            "top_k 50",
            SamplingParameters {
                top_k: 50,
                ..plain.clone()
            },
            false,
        ),
        (
            "typical_p 0.9",
            SamplingParameters {
                typical_p: 0.9,
                ..plain.clone()
            },
            false,
        ),
        (
            "all",
            SamplingParameters {
                temperature: 0.8,
                top_p: 0.9,
                top_k: 50,
                min_p: 0.02,
                typical_p: 0.95,
                frequency_penalty: 0.3,
                presence_penalty: 0.2,
                repetition_penalty: 1.1,
                logit_bias: vec![(7, 1.0), (9, -1.0)],
            },
            true,
        ),
    ];
    let mut sampler = Sampler::default();
    for (name, parameters, penalised) in cases {
        let quickest = quickest(&rows, |position, row| {
            let draw = Draw {
                history: penalised.then_some(&history),
                position,
                ..draw(&parameters)
            };
            black_box(sampler.draw(row, &draw).unwrap());
        });
        eprintln!("{name:20} {quickest:9.0} ns");
    }
    for num_top in [0, 5, 20] {
        let quickest = quickest(&rows, |_, row| {
            black_box(sampler.logprobs(row, 7, num_top).unwrap());
        });
        eprintln!("logprobs {num_top:11} {quickest:9.0} ns");
    }
}

/// Mean over the rows of the quickest of some rounds, in nanoseconds.
fn quickest(rows: &[Vec<f32>], mut work: impl FnMut(u32, &[f32])) -> f64 {
    let mut total = 0.0;
    for row in rows {
        let times = (0..20).map(|position| {
            let start = Instant::now();
            work(position, row);
            start.elapsed().as_nanos() as f64
        });
        total += times.fold(f64::INFINITY, f64::min);
    }
    total / rows.len() as f64
}
