//! Draws one token from one row of logits, exactly the same whatever the row's company.

use std::collections::HashMap;

use crate::noise::{NoiseRow, gumbel, least_bits};
use crate::request::SamplingParameters;
use crate::survivors::{Candidate, cut_to_share, likeliest, nucleus_end};

/// The row has no token that could be drawn: no finite largest logit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct NoToken;

/// Tokens seen so far, for penalties: occurrences in the output, 0 for tokens of the prompt alone.
#[derive(Debug, Clone, Default)]
pub(crate) struct History {
    counts: HashMap<u32, u32>,
}

impl History {
    pub(crate) fn new(prompt: &[u32]) -> Self {
        Self {
            counts: prompt.iter().map(|&token| (token, 0)).collect(),
        }
    }

    pub(crate) fn push(&mut self, token: u32) {
        *self.counts.entry(token).or_insert(0) += 1;
    }
}

/// Everything but the logits that decides a token.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Draw<'a> {
    pub(crate) parameters: &'a SamplingParameters,
    /// Tokens so far; `None` when no penalty asks for them.
    pub(crate) history: Option<&'a History>,
    /// Tokens that may not be drawn.
    pub(crate) masked: &'a [u32],
    pub(crate) choice_seed: u64,
    /// Index of the drawn token in prompt ++ output.
    pub(crate) position: u32,
}

/// Draws tokens; holds scratch memory of one row.
///
/// The order is: `logit_bias`, repetition, frequency and presence penalty, masks, temperature,
/// top-k, top-p over what top-k left, min-p, Gumbel noise. Ties go to the lowest token id.
#[derive(Debug, Default)]
pub(crate) struct Sampler {
    row: Vec<f32>,
    kept: Vec<Candidate>,
}

impl Sampler {
    /// The token drawn from `logits`.
    pub(crate) fn draw(&mut self, logits: &[f32], draw: &Draw<'_>) -> Result<u32, NoToken> {
        let parameters = draw.parameters;
        let plain =
            parameters.logit_bias.is_empty() && draw.history.is_none() && draw.masked.is_empty();
        if plain && parameters.is_greedy() {
            return argmax(logits).map(|best| best.token).ok_or(NoToken);
        }
        self.row.clear();
        self.row.extend_from_slice(logits);
        adjust(&mut self.row, draw);
        if parameters.is_greedy() {
            return argmax(&self.row).map(|best| best.token).ok_or(NoToken);
        }
        for score in &mut self.row {
            *score /= parameters.temperature;
        }
        self.draw_noisy(draw)
    }

    fn draw_noisy(&mut self, draw: &Draw<'_>) -> Result<u32, NoToken> {
        let parameters = draw.parameters;
        let best = argmax(&self.row).ok_or(NoToken)?;
        let top_k = parameters.top_k as usize;
        let end = if top_k > 0 && top_k < self.row.len() {
            likeliest(&self.row, top_k, &mut self.kept);
            if parameters.top_p < 1.0 {
                cut_to_share(&mut self.kept, best.score, parameters.top_p);
            }
            self.kept.last().copied()
        } else if parameters.top_p < 1.0 {
            Some(nucleus_end(
                &self.row,
                best.score,
                parameters.top_p,
                &mut self.kept,
            ))
        } else {
            None
        };
        let floor = if parameters.min_p > 0.0 {
            best.score + parameters.min_p.ln()
        } else {
            f32::MIN
        };
        let survives =
            |one: Candidate| one.score >= floor && end.is_none_or(|end| one.order(end).is_le());
        let noise = NoiseRow::new(draw.choice_seed, draw.position);
        Ok(noisiest(
            &self.row,
            best,
            end.map_or(floor, |end| floor.max(end.score)),
            survives,
            noise,
        ))
    }
}

/// The surviving token with the greatest score plus noise. `best` is the one with the greatest
/// score; none below `floor` survives.
///
/// Blocks whose greatest score cannot win even with the noise of their luckiest hash are passed
/// over: rounding is monotonic, so where the bound loses, the value itself would lose too.
fn noisiest(
    row: &[f32],
    best: Candidate,
    floor: f32,
    survives: impl Fn(Candidate) -> bool,
    noise: NoiseRow,
) -> u32 {
    const BLOCK: usize = 64;
    let mut winner = Candidate {
        score: best.score + noise.gumbel(best.token),
        token: best.token,
    };
    for (index, block) in row.chunks(BLOCK).enumerate() {
        let max = block
            .iter()
            .fold(f32::NEG_INFINITY, |a, &b| if b > a { b } else { a });
        let Some(least) = least_bits(winner.score, max).filter(|_| max >= floor) else {
            continue;
        };
        let first = (index * BLOCK) as u32;
        let bits: [u32; BLOCK] = std::array::from_fn(|lane| noise.bits(first + lane as u32));
        if bits.iter().copied().fold(0, u32::max) < least {
            continue;
        }
        for (lane, (&score, bits)) in block.iter().zip(bits).enumerate() {
            let token = first + lane as u32;
            if bits >= least && survives(Candidate { score, token }) {
                let noisy = Candidate {
                    score: score + gumbel(bits),
                    token,
                };
                if noisy.order(winner).is_lt() {
                    winner = noisy;
                }
            }
        }
    }
    winner.token
}

fn adjust(row: &mut [f32], draw: &Draw<'_>) {
    let parameters = draw.parameters;
    for &(token, bias) in &parameters.logit_bias {
        row[token as usize] += bias;
    }
    if let Some(history) = draw.history {
        for (&token, &count) in &history.counts {
            let logit = &mut row[token as usize];
            let repetition = parameters.repetition_penalty;
            *logit = if *logit > 0.0 {
                *logit / repetition
            } else {
                *logit * repetition
            };
            if count > 0 {
                *logit -= parameters.frequency_penalty * count as f32 + parameters.presence_penalty;
            }
        }
    }
    for &token in draw.masked {
        row[token as usize] = f32::NEG_INFINITY;
    }
}

/// The greatest logit and its lowest token id; `None` unless the greatest is finite. NaN is passed
/// over.
fn argmax(row: &[f32]) -> Option<Candidate> {
    const BLOCK: usize = 1024;
    const LANES: usize = 16;
    let mut best = f32::NEG_INFINITY;
    let mut best_block = 0;
    for (index, block) in row.chunks(BLOCK).enumerate() {
        let mut lanes = [f32::NEG_INFINITY; LANES];
        let mut parts = block.chunks_exact(LANES);
        for part in &mut parts {
            for (lane, &value) in lanes.iter_mut().zip(part) {
                *lane = if value > *lane { value } else { *lane };
            }
        }
        let max = lanes
            .iter()
            .chain(parts.remainder())
            .fold(f32::NEG_INFINITY, |a, &b| if b > a { b } else { a });
        if max > best {
            best = max;
            best_block = index;
        }
    }
    let first = best_block * BLOCK;
    let offset = row[first.min(row.len())..]
        .iter()
        .position(|&value| value >= best)?;
    best.is_finite().then_some(Candidate {
        score: best,
        token: (first + offset) as u32,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn draw(parameters: &SamplingParameters) -> Draw<'_> {
        Draw {
            parameters,
            history: None,
            masked: &[],
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
    fn argmax_takes_the_lowest_id_of_equal_logits_and_passes_nan_over() {
        let mut row = vec![0.0; 5_000];
        row[3_000] = 2.0;
        row[4_999] = 2.0;
        row[17] = f32::NAN;
        assert_eq!(argmax(&row).map(|one| one.token), Some(3_000));
        row[1_023] = 2.0;
        assert_eq!(argmax(&row).map(|one| one.token), Some(1_023));
    }

    #[test]
    fn rows_without_a_finite_greatest_logit_give_no_token() {
        let parameters = greedy();
        for value in [f32::NEG_INFINITY, f32::INFINITY, f32::NAN] {
            assert_eq!(
                Sampler::default().draw(&[value; 40], &draw(&parameters)),
                Err(NoToken)
            );
        }
        let noisy = SamplingParameters::default();
        assert_eq!(
            Sampler::default().draw(&[f32::NAN; 40], &draw(&noisy)),
            Err(NoToken)
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
}
