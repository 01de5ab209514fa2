//! How likely each continuation is: one blend over match lengths and sources.
//!
//! From the shortest matched length to the longest, with `N` the weight of the occurrences that
//! match at least that length, `c` the part of it that continues with a token and `d` the number
//! of different continuations:
//!
//! `p = (c + a * sqrt(d) * p_shorter) / (N + a * sqrt(d))`
//!
//! The escape `a` is large for short matches and small for long ones, because trusting a few
//! sightings too much is the common mistake.

use crate::chains::Occurrence;
use crate::places::SHARED;
use crate::{MAX_MATCH, TokenId};

/// Match lengths, in tokens, that are blended.
const LEVELS: [u16; 11] = [1, 2, 3, 4, 5, 6, 8, 10, 12, 16, 24];

/// Escape weight of each level: 60 / level^1.29, found by replaying source files.
const ESCAPES: [f32; LEVELS.len()] = [60.0, 24.5, 14.6, 10.1, 7.5, 6.0, 4.1, 3.1, 2.4, 1.7, 1.0];

/// Weight of an occurrence in the request's own texts against one in shared text.
const OWN_WEIGHT: f32 = 3.0;

/// A possible next token.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Candidate {
    pub(crate) token: TokenId,
    /// Probability given the path so far, before calibration.
    pub(crate) probability: f32,
    /// The place that is credited: the smallest that holds the token.
    pub(crate) place: u16,
}

/// Index of the longest level that a match of each length reaches.
const LEVEL_OF: [u8; MAX_MATCH + 1] = {
    let mut table = [0; MAX_MATCH + 1];
    let mut matched = 1;
    while matched <= MAX_MATCH {
        let mut level = 0;
        while level + 1 < LEVELS.len() && LEVELS[level + 1] as usize <= matched {
            level += 1;
        }
        table[matched] = level as u8;
        matched += 1;
    }
    table
};

/// Working memory of the blend, reused between nodes.
#[derive(Debug, Default)]
pub(crate) struct Scorer {
    /// Per candidate, the weight of its occurrences at each level or above.
    counts: Vec<[f32; LEVELS.len()]>,
}

impl Scorer {
    /// Replaces `candidates` by every continuation in `occurrences` with its probability, in the
    /// order of first sight, and gives the sum of the probabilities.
    pub(crate) fn score(
        &mut self,
        occurrences: &[Occurrence],
        candidates: &mut Vec<Candidate>,
    ) -> f32 {
        candidates.clear();
        self.counts.clear();
        let mut top = 0;
        for occurrence in occurrences {
            let level = LEVEL_OF[usize::from(occurrence.matched).min(MAX_MATCH)] as usize;
            let weight = if occurrence.place < SHARED {
                OWN_WEIGHT
            } else {
                1.0
            };
            let known = candidates
                .iter()
                .position(|known| known.token == occurrence.next);
            let index = known.unwrap_or_else(|| {
                candidates.push(Candidate {
                    token: occurrence.next,
                    probability: 0.0,
                    place: occurrence.place,
                });
                self.counts.push([0.0; LEVELS.len()]);
                candidates.len() - 1
            });
            candidates[index].place = candidates[index].place.min(occurrence.place);
            self.counts[index][level] += weight;
            top = top.max(level);
        }
        self.blend(top, candidates)
    }

    fn blend(&mut self, top: usize, candidates: &mut [Candidate]) -> f32 {
        let mut totals = [0.0_f32; LEVELS.len()];
        let mut distinct = [0.0_f32; LEVELS.len()];
        for counts in &mut self.counts {
            let mut sum = 0.0;
            for level in (0..=top).rev() {
                sum += counts[level];
                counts[level] = sum;
                totals[level] += sum;
                distinct[level] += f32::from(u8::from(sum > 0.0));
            }
        }
        let mut scale = [0.0_f32; LEVELS.len()];
        let mut escape = [0.0_f32; LEVELS.len()];
        for level in 0..=top {
            escape[level] = ESCAPES[level] * distinct[level].sqrt();
            scale[level] = 1.0 / (totals[level] + escape[level]);
        }
        let mut mass = 0.0;
        for (candidate, counts) in candidates.iter_mut().zip(&self.counts) {
            let mut probability = 0.0;
            for level in 0..=top {
                probability = (counts[level] + escape[level] * probability) * scale[level];
            }
            candidate.probability = probability;
            mass += probability;
        }
        mass
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::places::REQUEST;

    fn seen(next: TokenId, matched: u16, place: u16) -> Occurrence {
        Occurrence {
            position: 1,
            next,
            place,
            matched,
        }
    }

    fn score(occurrences: &[Occurrence]) -> Vec<Candidate> {
        let mut candidates = Vec::new();
        Scorer::default().score(occurrences, &mut candidates);
        candidates
    }

    #[test]
    fn one_sighting_is_trusted_more_the_longer_it_matches() {
        let values: Vec<_> = [1, 2, 4, 8, 16, 24]
            .map(|m| score(&[seen(7, m, REQUEST)])[0].probability)
            .into();
        assert!(values.is_sorted(), "{values:?}");
        assert!(values[0] < 0.1 && values[5] > 0.8, "{values:?}");
    }

    #[test]
    fn probabilities_sum_to_less_than_one() {
        let occurrences: Vec<_> = (0..40)
            .map(|i| seen(i % 7, (i % 24 + 1) as u16, 2))
            .collect();
        let mut candidates = Vec::new();
        let mass = Scorer::default().score(&occurrences, &mut candidates);
        let sum: f32 = candidates
            .iter()
            .map(|candidate| candidate.probability)
            .sum();
        assert!((mass - sum).abs() < 1e-5);
        assert!(mass > 0.0 && mass < 1.0);
    }

    #[test]
    fn agreement_of_two_sources_raises_the_value_and_credits_the_first() {
        let alone = score(&[seen(7, 6, SHARED)])[0];
        let both = score(&[seen(7, 6, SHARED), seen(7, 6, REQUEST)])[0];
        assert!(both.probability > alone.probability);
        assert_eq!((alone.place, both.place), (SHARED, REQUEST));
    }

    #[test]
    fn own_text_outweighs_shared_text() {
        let candidates = score(&[seen(1, 4, SHARED), seen(2, 4, REQUEST)]);
        assert!(candidates[1].probability > 2.0 * candidates[0].probability);
    }
}
