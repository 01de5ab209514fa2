//! Nanoseconds of one draw from a whole vocabulary, best of some rounds, by option.
#![allow(clippy::print_stdout, reason = "printing is what this program is for")]
#![allow(clippy::unwrap_used, reason = "a benchmark may stop")]

use std::hint::black_box;
use std::time::Instant;

use spectrie_sampling::noise::gumbel;
use spectrie_sampling::{Draw, History, Sampler, SamplingParameters};
use spectrie_types::seed::splitmix;

fn greedy() -> SamplingParameters {
    SamplingParameters {
        temperature: 0.0,
        ..SamplingParameters::default()
    }
}

fn main() {
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
                ..Draw::new(&parameters, 3, 5)
            };
            black_box(sampler.draw(row, &draw).unwrap());
        });
        println!("{name:20} {quickest:9.0} ns");
    }
    for num_top in [0, 5, 20] {
        let quickest = quickest(&rows, |_, row| {
            black_box(sampler.logprobs(row, 7, num_top).unwrap());
        });
        println!("logprobs {num_top:11} {quickest:9.0} ns");
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
