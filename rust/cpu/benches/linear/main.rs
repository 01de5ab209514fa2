//! Speed of the packed products against a plain read of the same bytes.
//!
//! `cargo bench -p spectrie-cpu --bench linear -- [threads] [f32|bf16]`
//!
//! Weights come from 640 MB in turn, so that they come from memory as in a decode step. Reads and
//! products of all row counts take turns too; each figure is the tenth of its times from below, which
//! other load on the machine hardly moves.
#![allow(clippy::print_stdout, clippy::expect_used)] // prints, and fails by panicking

mod huge_pages;

use std::hint::black_box;
use std::time::Instant;

use huge_pages::use_huge_pages;
use spectrie_cpu::{Bf16, Dtype, Isa, Linear, Team};

const TOTAL_BYTES: usize = 640 << 20;
const ROWS: [usize; 9] = [1, 2, 4, 8, 12, 16, 32, 64, 256];
/// in, out: SmolLM2-135M, then single products of Qwen2.5-0.5B, -1.5B and Llama-3.1-8B.
const SHAPES: [(usize, usize); 8] = [
    (576, 960),
    (576, 576),
    (576, 3072),
    (1536, 576),
    (576, 49152),
    (896, 9728),
    (1536, 17920),
    (4096, 14336),
];

fn main() {
    // Cargo adds `--bench`.
    let mut arguments = std::env::args()
        .skip(1)
        .filter(|argument| argument != "--bench");
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let threads = arguments
        .next()
        .map_or(cores, |text| text.parse().expect("a number of threads"));
    let dtype = arguments.next();
    let team = Team::new(threads);
    println!("{threads} threads, {}", Isa::detect().name());
    if dtype.as_deref() != Some("bf16") {
        measure::<f32>(&team, "f32");
    }
    if dtype.as_deref() != Some("f32") {
        measure::<Bf16>(&team, "bf16");
    }
}

fn measure<E: Dtype>(team: &Team, dtype: &str) {
    println!("\n{dtype}: GB/s of weights at rows (time against one row); GFLOP/s at the most rows");
    print!("{:>12} {:>6}", "shape", "read");
    for rows in ROWS {
        print!(" {rows:>12}");
    }
    println!(" {:>8}", "GFLOP/s");
    for (in_features, out_features) in SHAPES {
        measure_shape::<E>(team, in_features, out_features);
    }
}

fn measure_shape<E: Dtype>(team: &Team, in_features: usize, out_features: usize) {
    let weight = vec![E::from_f32(0.01); in_features * out_features];
    let bytes = size_of_val(weight.as_slice());
    let linears: Vec<Linear<E>> = (0..TOTAL_BYTES.div_ceil(bytes))
        .map(|_| {
            Linear::pack(&weight, None, in_features, out_features, Isa::detect())
                .expect("fitting sizes")
        })
        .collect();
    let data = vec![1u64; TOTAL_BYTES / 8];
    use_huge_pages();
    let x = vec![E::from_f32(0.5); ROWS[ROWS.len() - 1] * in_features];
    let mut out = vec![E::default(); ROWS[ROWS.len() - 1] * out_features];
    let mut times = vec![Vec::new(); ROWS.len() + 1];
    // One figure is of some megabytes: long against a wake-up, short against what disturbs it.
    let group = (4usize << 20).div_ceil(bytes);
    let mut next = 0;
    let rounds = (linears.len() / group).clamp(30, 200);
    for round in 0..rounds {
        for (column, times) in times.iter_mut().enumerate() {
            let began = Instant::now();
            if column == 0 {
                read(team, &data, next * bytes / 8, group * bytes / 8);
            } else {
                let rows = ROWS[column - 1];
                // Products of many rows take long and vary little.
                if rows > 64 && round % 8 > 0 {
                    continue;
                }
                for i in 0..group {
                    let linear = &linears[(next + i) % linears.len()];
                    let (x, out) = (&x[..rows * in_features], &mut out[..rows * out_features]);
                    linear.apply(team, x, out).expect("fitting buffers");
                }
            }
            times.push(began.elapsed().as_secs_f64() / group as f64);
            next = (next + group) % linears.len();
        }
    }
    let best: Vec<f64> = times.into_iter().map(low).collect();
    print!(
        "{:>12} {:>6.1}",
        format!("{in_features}x{out_features}"),
        bytes as f64 / best[0] / 1e9
    );
    for time in &best[1..] {
        print!(
            " {:>6.1} {:>5.2}",
            bytes as f64 / time / 1e9,
            time / best[1]
        );
    }
    let most = ROWS[ROWS.len() - 1] * 2 * in_features * out_features;
    println!(" {:>8.0}", most as f64 / best[ROWS.len()] / 1e9);
}

/// Reads `len` words from `start` on, going round at the end, each member a contiguous part: one word
/// of each cache line, in four places at a time, which is the quickest way found.
fn read(team: &Team, data: &[u64], start: usize, len: usize) {
    let done = team.run(&|member| {
        let part = len / member.threads();
        let from = (start + part * member.index()) % (data.len() - part);
        let mut lines = data[from..][..part].as_chunks::<8>().0.chunks(part / 32);
        let mut next = || lines.next().unwrap_or_default();
        let (a, b, c, d) = (next(), next(), next(), next());
        let mut seen = [0; 4];
        for (((a, b), c), d) in a.iter().zip(b).zip(c).zip(d) {
            for (seen, line) in seen.iter_mut().zip([a, b, c, d]) {
                *seen |= line[0];
            }
        }
        black_box(seen);
    });
    done.expect("no panic");
}

/// The tenth of the times from below.
fn low(mut times: Vec<f64>) -> f64 {
    times.sort_by(f64::total_cmp);
    times[times.len() / 10]
}
