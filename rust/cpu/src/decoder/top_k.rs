//! The likeliest tokens of each row of logits, with their probabilities.

use spectrie_simd::Isa;

use crate::error::CpuError;
use crate::simd::{Kernel, LANES, ROUND, Simd, launch, sum};

/// Number of tokens returned for each row.
pub const TOP_K: usize = 8;

/// Values whose greatest is kept lane by lane: a bucket is one lane of one block, 16 values.
const BLOCK: usize = 16 * LANES;

/// Writes the [`TOP_K`] likeliest tokens of each row, likeliest first, and their probabilities: the
/// softmax of the plain row, at temperature 1.
///
/// `logits: [rows, width]`, `ids` and `probabilities: [rows, 8]`. Ties go to the lowest id, so the
/// first id is the row's argmax. NaN is ignored. When the greatest value of a row is not finite, or
/// too few values are above minus infinity, the remaining ids are -1 and their probabilities 0.
///
/// # Errors
/// [`CpuError::Length`] when the sizes do not fit.
pub fn top_k(
    logits: &[f32],
    width: usize,
    ids: &mut [i32],
    probabilities: &mut [f32],
) -> Result<(), CpuError> {
    let rows = ids.len() / TOP_K;
    for (what, given, expected) in [
        ("ids", ids.len(), rows * TOP_K),
        ("probabilities", probabilities.len(), rows * TOP_K),
        ("logits", logits.len(), rows * width),
    ] {
        if given != expected {
            return Err(CpuError::Length {
                what,
                given,
                expected,
            });
        }
    }
    for (row, (ids, probabilities)) in ids
        .chunks_exact_mut(TOP_K)
        .zip(probabilities.chunks_exact_mut(TOP_K))
        .enumerate()
    {
        let logits = &logits[row * width..(row + 1) * width];
        let row = TopKRow {
            logits,
            ids,
            probabilities,
        };
        launch(Isa::detect(), row);
    }
    Ok(())
}

/// One row, with room for [`TOP_K`] answers.
pub(crate) struct TopKRow<'a> {
    pub(crate) logits: &'a [f32],
    pub(crate) ids: &'a mut [i32],
    pub(crate) probabilities: &'a mut [f32],
}

/// A row's likeliest tokens so far, likeliest first.
struct Best {
    logits: [f32; TOP_K],
    ids: [i32; TOP_K],
}

impl Best {
    #[inline(always)]
    fn offer(&mut self, logit: f32, id: i32) {
        let before = |at: usize| {
            logit > self.logits[at]
                || (logit.total_cmp(&self.logits[at]).is_eq() && id < self.ids[at])
        };
        let Some(place) = (0..TOP_K).find(|&at| self.ids[at] < 0 || before(at)) else {
            return;
        };
        self.logits.copy_within(place..TOP_K - 1, place + 1);
        self.ids.copy_within(place..TOP_K - 1, place + 1);
        self.logits[place] = logit;
        self.ids[place] = id;
    }
}

impl Kernel for TopKRow<'_> {
    #[inline(always)]
    fn run<S: Simd>(self) {
        let mut maxima = Vec::with_capacity(self.logits.len().div_ceil(BLOCK));
        let greatest = bucket_maxima::<S>(self.logits, &mut maxima);
        let floor = floor_of(greatest);
        let mut best = Best {
            logits: [f32::NEG_INFINITY; TOP_K],
            ids: [-1; TOP_K],
        };
        for (block, lanes) in maxima.iter().enumerate() {
            // As one comparison of vectors: few blocks hold any.
            let greatest = lanes
                .iter()
                .fold(f32::NEG_INFINITY, |a, &b| if b > a { b } else { a });
            if greatest < floor {
                continue;
            }
            for lane in (0..LANES).filter(|&lane| lanes[lane] >= floor) {
                let first = block * BLOCK + lane;
                let end = self.logits.len().min((block + 1) * BLOCK);
                for id in (first..end).step_by(LANES) {
                    // Adding zero makes the two zeros one, so that they tie.
                    let logit = self.logits[id] + 0.0;
                    if logit >= floor && logit > f32::NEG_INFINITY {
                        best.offer(logit, id as i32);
                    }
                }
            }
        }
        if !best.logits[0].is_finite() {
            self.ids.fill(-1);
            self.probabilities.fill(0.0);
            return;
        }
        self.ids.copy_from_slice(&best.ids);
        let total = weight_of::<S>(self.logits, best.logits[0]);
        let mut lanes = [f32::NEG_INFINITY; LANES];
        lanes[..TOP_K].copy_from_slice(&best.logits);
        S::store(weights::<S>(S::load(&lanes), best.logits[0]), &mut lanes);
        for (index, probability) in self.probabilities.iter_mut().enumerate() {
            *probability = if best.ids[index] < 0 {
                0.0
            } else {
                lanes[index] / total
            };
        }
    }
}

/// Pushes the greatest value of each bucket, and gives the greatest of each lane of the row.
#[inline(always)]
fn bucket_maxima<S: Simd>(row: &[f32], maxima: &mut Vec<[f32; LANES]>) -> [f32; LANES] {
    let lowest = S::splat(f32::NEG_INFINITY);
    let mut greatest = lowest;
    for block in row.chunks(BLOCK) {
        let mut max = lowest;
        let (parts, rest) = block.as_chunks::<LANES>();
        for part in parts {
            // The second operand where one is NaN, on every instruction set.
            max = S::max(S::load(part), max);
        }
        if !rest.is_empty() {
            max = S::max(S::load(&padded(rest)), max);
        }
        let mut lanes = [0.0; LANES];
        S::store(max, &mut lanes);
        maxima.push(lanes);
        greatest = S::max(max, greatest);
    }
    let mut lanes = [0.0; LANES];
    S::store(greatest, &mut lanes);
    lanes
}

#[inline(always)]
fn padded(rest: &[f32]) -> [f32; LANES] {
    let mut part = [f32::NEG_INFINITY; LANES];
    part[..rest.len()].copy_from_slice(rest);
    part
}

/// A value that [`TOP_K`] values of the row reach: the greatest of as many lanes do.
#[inline(always)]
fn floor_of(mut greatest: [f32; LANES]) -> f32 {
    greatest.sort_unstable_by(|a, b| b.total_cmp(a));
    greatest[TOP_K - 1]
}

/// The sum over a row of e to the power of `value - max`.
pub(crate) fn total_weight(row: &[f32], max: f32) -> f32 {
    let mut total = 0.0;
    let kernel = TotalWeight {
        row,
        max,
        total: &mut total,
    };
    launch(Isa::detect(), kernel);
    total
}

struct TotalWeight<'a> {
    row: &'a [f32],
    max: f32,
    total: &'a mut f32,
}

impl Kernel for TotalWeight<'_> {
    #[inline(always)]
    fn run<S: Simd>(self) {
        *self.total = weight_of::<S>(self.row, self.max);
    }
}

/// The sum of the row's weights against its greatest value.
#[inline(always)]
fn weight_of<S: Simd>(row: &[f32], max: f32) -> f32 {
    // Four sums, so that additions need not wait for each other.
    let mut sums = [S::splat(0.0); 4];
    let (quads, rest) = row.as_chunks::<{ 4 * LANES }>();
    for quad in quads {
        for (part, sum) in quad.as_chunks::<LANES>().0.iter().zip(&mut sums) {
            *sum = S::add(*sum, weights::<S>(S::load(part), max));
        }
    }
    for part in rest.chunks(LANES) {
        sums[0] = S::add(sums[0], weights::<S>(S::load(&padded(part)), max));
    }
    sum::<S>(S::add(S::add(sums[0], sums[1]), S::add(sums[2], sums[3])))
}

/// e to the power of `value - max`, within 4e-6; next to nothing where `value` is NaN or minus
/// infinity.
///
/// Shorter than [`crate::simd::exp2`], because it runs on every value and five digits are enough.
#[inline(always)]
fn weights<S: Simd>(values: S::V, max: f32) -> S::V {
    // ln(2)^k / k!
    const C: [f32; 6] = [
        1.0,
        std::f32::consts::LN_2,
        0.240_226_5,
        0.055_504_11,
        0.009_618_129,
        0.001_333_355_8,
    ];
    const LOG2_E: f32 = std::f32::consts::LOG2_E;
    let exponent = S::fma(values, S::splat(LOG2_E), S::splat(-max * LOG2_E));
    // The second operand where one is NaN, on every instruction set.
    let exponent = S::max(exponent, S::splat(-126.0));
    let rounded = S::add(exponent, S::splat(ROUND));
    let f = S::sub(exponent, S::sub(rounded, S::splat(ROUND)));
    let mut y = S::splat(C[5]);
    for k in (0..5).rev() {
        y = S::fma(y, f, S::splat(C[k]));
    }
    S::mul(y, S::pow2_of_rounded(rounded))
}
