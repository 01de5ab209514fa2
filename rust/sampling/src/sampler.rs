//! Samples one token from one row of logits, independent of the other rows in the batch.

use spectrie_simd::{Isa, Work};
use spectrie_types::options::SamplingParameters;

use crate::argmax::{argmax, greatest};
use crate::candidate::Candidate;
use crate::history::History;
use crate::ln::ln;
use crate::logprobs::{TokenLogprobs, logprobs};
use crate::noise::{NoiseRow, gumbel, least_bits};
use crate::select::{LANES, cut_to_share, gather, likeliest, nucleus_end};
use crate::typical::TypicalSet;

/// Why a row has no token that could be drawn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NoToken {
    /// The model gave no finite largest logit.
    Model,
    /// The model gave one, but what the request asks for leaves none.
    Banned,
}

/// Tokens that outlived the cuts of a row.
#[derive(Debug, Clone, Copy)]
struct Survivors {
    /// Least score.
    floor: f32,
    /// The least likely of those that top-k and top-p left.
    end: Option<Candidate>,
    typical: Option<TypicalSet>,
}

impl Survivors {
    fn contains(&self, one: Candidate) -> bool {
        one.score >= self.floor
            && self.end.is_none_or(|end| one.order(end).is_le())
            && self.typical.is_none_or(|set| set.contains(one))
    }
}

/// Everything but the logits that decides a token.
#[derive(Debug, Clone, Copy)]
pub struct Draw<'a> {
    /// The options.
    pub parameters: &'a SamplingParameters,
    /// Tokens so far; `None` when no penalty asks for them.
    pub history: Option<&'a History>,
    /// Tokens that may not be drawn.
    pub masked: &'a [u32],
    /// Tokens that may be drawn, bit `v % 32` of word `v / 32` for token `v`; `None` = all. Tokens
    /// past the last word may not.
    pub allowed: Option<&'a [u32]>,
    /// Seed of the noise.
    pub choice_seed: u64,
    /// Index of the drawn token in prompt ++ output.
    pub position: u32,
}

impl<'a> Draw<'a> {
    /// A draw from all tokens, without a history.
    #[must_use]
    pub fn new(parameters: &'a SamplingParameters, choice_seed: u64, position: u32) -> Self {
        Self {
            parameters,
            history: None,
            masked: &[],
            allowed: None,
            choice_seed,
            position,
        }
    }
}

/// Draws tokens; holds scratch memory of one row.
///
/// The order is: `logit_bias`, repetition, frequency and presence penalty, masks, temperature,
/// top-k, top-p over what top-k left, min-p, typical over what is left, Gumbel noise. Ties go to
/// the lowest token id.
#[derive(Debug, Default)]
pub struct Sampler {
    row: Vec<f32>,
    kept: Vec<Candidate>,
    scores: Vec<f32>,
    masses: Vec<u64>,
}

impl Sampler {
    /// The token drawn from `logits`.
    ///
    /// # Errors
    /// [`NoToken`] where none can be drawn.
    pub fn draw(&mut self, logits: &[f32], draw: &Draw<'_>) -> Result<u32, NoToken> {
        Isa::detect().run(DrawWork {
            sampler: self,
            logits,
            draw,
        })
    }

    #[inline(always)]
    fn draw_from(&mut self, logits: &[f32], draw: &Draw<'_>) -> Result<u32, NoToken> {
        let parameters = draw.parameters;
        let plain = parameters.logit_bias.is_empty()
            && draw.history.is_none()
            && draw.masked.is_empty()
            && draw.allowed.is_none();
        if plain && parameters.is_greedy() {
            return argmax(logits).map(|best| best.token).ok_or(NoToken::Model);
        }
        self.row.clear();
        self.row.extend_from_slice(logits);
        adjust(&mut self.row, draw);
        if !parameters.is_greedy() {
            for score in &mut self.row {
                *score /= parameters.temperature;
            }
        }
        let best = argmax(&self.row).ok_or_else(|| match argmax(logits) {
            Some(_) => NoToken::Banned,
            None => NoToken::Model,
        })?;
        if parameters.is_greedy() {
            return Ok(best.token);
        }
        let survivors = self.survivors(parameters, best);
        let noise = NoiseRow::new(draw.choice_seed, draw.position);
        let start = if survivors.contains(best) {
            best
        } else {
            likeliest_of(&self.row, &survivors).unwrap_or(best)
        };
        Ok(noisiest(&self.row, start, &survivors, noise))
    }

    /// Log-probabilities of `token` and of the `num_top` likeliest tokens under `logits`.
    ///
    /// # Errors
    /// [`NoToken::Model`] where no logit is finite.
    pub fn logprobs(
        &mut self,
        logits: &[f32],
        token: u32,
        num_top: u32,
    ) -> Result<TokenLogprobs, NoToken> {
        Isa::detect().run(LogprobsWork {
            sampler: self,
            logits,
            token,
            num_top,
        })
    }

    /// What the cuts leave of the row.
    #[inline(always)]
    fn survivors(&mut self, parameters: &SamplingParameters, best: Candidate) -> Survivors {
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
            best.score + ln(f64::from(parameters.min_p)) as f32
        } else {
            f32::MIN
        };
        let mut survivors = Survivors {
            floor: end.map_or(floor, |end| floor.max(end.score)),
            end,
            typical: None,
        };
        if parameters.typical_p < 1.0 {
            let (max, share, masses) = (best.score, parameters.typical_p, &mut self.masses);
            let is_cut = end.is_some() || parameters.min_p > 0.0;
            survivors.typical = if is_cut {
                let kept = &mut self.kept;
                gather(&self.row, survivors.floor, kept, |one| {
                    survivors.contains(one)
                });
                self.scores.clear();
                self.scores.extend(kept.iter().map(|one| one.score));
                TypicalSet::new(&self.scores, |index| kept[index].token, max, share, masses)
            } else {
                TypicalSet::new(&self.row, |index| index as u32, max, share, masses)
            };
        }
        survivors
    }
}

struct DrawWork<'a> {
    sampler: &'a mut Sampler,
    logits: &'a [f32],
    draw: &'a Draw<'a>,
}

impl Work for DrawWork<'_> {
    type Output = Result<u32, NoToken>;

    #[inline(always)]
    fn run(self) -> Self::Output {
        self.sampler.draw_from(self.logits, self.draw)
    }
}

struct LogprobsWork<'a> {
    sampler: &'a mut Sampler,
    logits: &'a [f32],
    token: u32,
    num_top: u32,
}

impl Work for LogprobsWork<'_> {
    type Output = Result<TokenLogprobs, NoToken>;

    #[inline(always)]
    fn run(self) -> Self::Output {
        let best = argmax(self.logits).ok_or(NoToken::Model)?;
        let kept = &mut self.sampler.kept;
        Ok(logprobs(self.logits, best, self.token, self.num_top, kept))
    }
}

/// The likeliest survivor of a row.
#[inline(always)]
fn likeliest_of(row: &[f32], survivors: &Survivors) -> Option<Candidate> {
    let mut likeliest: Option<Candidate> = None;
    for (block, first) in row.chunks(LANES).zip((0..).step_by(LANES)) {
        // A later token of equal score loses its tie.
        let known = likeliest.map_or(f32::NEG_INFINITY, |one| one.score);
        if greatest(block) > known {
            let all = (first..).zip(block);
            let all = all.map(|(token, &score)| Candidate { score, token });
            let fitting = all.filter(|one| survivors.contains(*one));
            likeliest = likeliest
                .into_iter()
                .chain(fitting)
                .min_by(|a, b| a.order(*b));
        }
    }
    likeliest
}

/// The surviving token with the greatest score plus noise; `start` is any of them, best a likely
/// one.
///
/// Blocks whose greatest score cannot win even with the noise of their luckiest hash are passed
/// over: rounding is monotonic, so where the bound loses, the value itself would lose too.
#[inline(always)]
fn noisiest(row: &[f32], start: Candidate, survivors: &Survivors, noise: NoiseRow) -> u32 {
    const BLOCK: usize = 64;
    let mut winner = Candidate {
        score: start.score + noise.gumbel(start.token),
        token: start.token,
    };
    for (index, block) in row.chunks(BLOCK).enumerate() {
        let max = greatest(block);
        let Some(least) = least_bits(winner.score, max).filter(|_| max >= survivors.floor) else {
            continue;
        };
        let first = (index * BLOCK) as u32;
        let mut bits = [0; BLOCK];
        for (lane, bits) in (first..).zip(&mut bits) {
            *bits = noise.bits(lane);
        }
        let mut luckiest = 0;
        for &bits in &bits {
            luckiest = bits.max(luckiest);
        }
        if luckiest < least {
            continue;
        }
        for (lane, (&score, bits)) in block.iter().zip(bits).enumerate() {
            let token = first + lane as u32;
            if bits >= least && survivors.contains(Candidate { score, token }) {
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

#[inline(always)]
fn adjust(row: &mut [f32], draw: &Draw<'_>) {
    let parameters = draw.parameters;
    for &(token, bias) in &parameters.logit_bias {
        row[token as usize] += bias;
    }
    if let Some(history) = draw.history {
        for (&token, &count) in history.tokens().iter().zip(history.counts()) {
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
    if let Some(allowed) = draw.allowed {
        bar_others(row, allowed);
    }
}

/// Bars the tokens of `row` whose bit in `allowed` is not set.
#[inline(always)]
fn bar_others(row: &mut [f32], allowed: &[u32]) {
    const WORD: usize = u32::BITS as usize;
    let words = allowed.iter().copied().chain(std::iter::repeat(0));
    for (logits, word) in row.chunks_mut(WORD).zip(words) {
        if word == u32::MAX {
            continue;
        }
        for (bit, logit) in logits.iter_mut().enumerate() {
            *logit = if word >> bit & 1 == 1 {
                *logit
            } else {
                f32::NEG_INFINITY
            };
        }
    }
}

#[cfg(test)]
mod tests {
    use spectrie_types::seed::splitmix;

    use super::*;

    fn work<'a>(sampler: &'a mut Sampler, logits: &'a [f32]) -> LogprobsWork<'a> {
        LogprobsWork {
            sampler,
            logits,
            token: 7,
            num_top: 20,
        }
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
            let mut row: Vec<f32> = (0..1_009_u64)
                .map(|token| 1.8 * gumbel(splitmix(seed << 32 | token) as u32))
                .collect();
            if seed % 2 == 1 {
                // Ties, zeros of either sign, denormal numbers and what no token can have.
                let hard = [0.0, -0.0, 1e-40, f32::NAN, f32::NEG_INFINITY, 2.5, 2.5];
                for (index, logit) in row.iter_mut().enumerate().step_by(3) {
                    *logit = hard[index / 3 % hard.len()];
                }
            }
            let (mut wide, mut narrow) = (Sampler::default(), Sampler::default());
            for isa in Isa::supported() {
                for parameters in [&plain, &every] {
                    let draw = Draw::new(parameters, 3, seed as u32);
                    let drawn = isa.run(DrawWork {
                        sampler: &mut wide,
                        logits: &row,
                        draw: &draw,
                    });
                    assert_eq!(drawn, narrow.draw_from(&row, &draw), "{}", isa.name());
                }
                let found = isa.run(work(&mut wide, &row));
                assert_eq!(found, work(&mut narrow, &row).run(), "{}", isa.name());
            }
        }
    }
}
