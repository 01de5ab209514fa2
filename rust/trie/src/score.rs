//! How likely each continuation is: one blend over match lengths and sources, then a mixer.
//!
//! The blend goes from the shortest matched length to the longest. With `N` the weight of the
//! occurrences that match at least that length, `c` the part of it that continues with a token
//! and `d` the number of different continuations:
//!
//! `p = (c + a * sqrt(d) * p_shorter) / (N + a * sqrt(d))`
//!
//! The escape `a` is large for short matches and small for long ones, because trusting a few
//! sightings too much is the common mistake. The mixer then corrects the blend by what it cannot
//! see: [`crate::mixer`].

use std::cmp::Reverse;

use crate::chains::Occurrence;
use crate::mixer::{Features, Mixer, logit};
use crate::places::SHARED;
use crate::{MAX_MATCH, TokenId};

/// Match lengths, in tokens, that are blended.
pub(crate) const LEVELS: [u16; 11] = [1, 2, 3, 4, 5, 6, 8, 10, 12, 16, 24];

/// Escape weight of each level: 60 / level^1.29, found by replaying source files.
pub(crate) const ESCAPES: [f32; LEVELS.len()] =
    [60.0, 24.5, 14.6, 10.1, 7.5, 6.0, 4.1, 3.1, 2.4, 1.7, 1.0];

/// Weight of an occurrence in the request's own texts and of one in shared text.
pub(crate) const WEIGHTS: [f32; 2] = [3.0, 1.0];

/// A possible next token.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Candidate {
    pub(crate) token: TokenId,
    /// Probability given the path so far.
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

/// How often a candidate was seen.
#[derive(Clone, Copy, Debug, Default)]
struct Evidence {
    /// Weight of its occurrences at each level or above.
    counts: [f32; LEVELS.len()],
    /// Occurrences in the request's own texts and in shared text.
    seen: [u16; 2],
    /// Whether it is the newest continuation of the longest match, own and shared.
    newest: [bool; 2],
}

/// Scores the continuations of a node. Keeps its working memory between nodes.
#[derive(Debug, Default)]
pub(crate) struct Scorer {
    /// In the order of the candidates.
    evidence: Vec<Evidence>,
    /// The inputs of each candidate's probability, in the order of the candidates.
    pub(crate) features: Vec<Features>,
}

impl Scorer {
    /// Replaces `candidates` by every continuation in `occurrences` of a node at `depth`, with its
    /// probability, in the order of first sight, and gives the sum of the probabilities.
    pub(crate) fn score(
        &mut self,
        occurrences: &[Occurrence],
        depth: u16,
        mixer: &Mixer,
        candidates: &mut Vec<Candidate>,
    ) -> f32 {
        let top = self.count(occurrences, candidates);
        self.blend(top, candidates);
        self.mix(depth, mixer, candidates)
    }

    /// Gathers the evidence of each candidate and gives the highest level.
    fn count(&mut self, occurrences: &[Occurrence], candidates: &mut Vec<Candidate>) -> usize {
        candidates.clear();
        self.evidence.clear();
        let mut top = 0;
        // Freshness of the longest match so far and its candidate, own and shared.
        let mut newest = [None; 2];
        for occurrence in occurrences {
            let matched = occurrence.matched.min(MAX_MATCH as u16);
            let level = LEVEL_OF[usize::from(matched)] as usize;
            let shared = usize::from(occurrence.place >= SHARED);
            let known = candidates
                .iter()
                .position(|known| known.token == occurrence.next);
            let index = known.unwrap_or_else(|| {
                candidates.push(Candidate {
                    token: occurrence.next,
                    probability: 0.0,
                    place: occurrence.place,
                });
                self.evidence.push(Evidence::default());
                candidates.len() - 1
            });
            candidates[index].place = candidates[index].place.min(occurrence.place);
            self.evidence[index].counts[level] += WEIGHTS[shared];
            self.evidence[index].seen[shared] += 1;
            let freshness = (matched, Reverse(occurrence.place), occurrence.position);
            newest[shared] = newest[shared].max(Some((freshness, index)));
            top = top.max(level);
        }
        for (shared, newest) in newest.iter().enumerate() {
            if let Some((_, index)) = newest {
                self.evidence[*index].newest[shared] = true;
            }
        }
        top
    }

    /// Turns the blended probabilities into what the mixer makes of them.
    fn mix(&mut self, depth: u16, mixer: &Mixer, candidates: &mut [Candidate]) -> f32 {
        let total = |shared: usize| -> f32 {
            let all: u16 = self
                .evidence
                .iter()
                .map(|evidence| evidence.seen[shared])
                .sum();
            f32::from(all).ln_1p()
        };
        let totals = [total(0), total(1)];
        let rivals = (candidates.len() as f32).ln();
        let depth = f32::from(depth).ln_1p();
        self.features.clear();
        let mut mass = 0.0;
        for (candidate, evidence) in candidates.iter_mut().zip(&self.evidence) {
            let flag = |newest: bool| f32::from(u8::from(newest));
            let features = [
                1.0,
                logit(candidate.probability),
                f32::from(evidence.seen[0]).ln_1p(),
                f32::from(evidence.seen[1]).ln_1p(),
                totals[0],
                totals[1],
                rivals,
                depth,
                flag(evidence.newest[0]),
                flag(evidence.newest[1]),
            ];
            candidate.probability = mixer.probability(&features);
            mass += candidate.probability;
            self.features.push(features);
        }
        if mass > 1.0 {
            for candidate in candidates {
                candidate.probability /= mass;
            }
        }
        mass.min(1.0)
    }

    fn blend(&mut self, top: usize, candidates: &mut [Candidate]) {
        let mut totals = [0.0_f32; LEVELS.len()];
        let mut distinct = [0.0_f32; LEVELS.len()];
        for Evidence { counts, .. } in &mut self.evidence {
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
        for (candidate, Evidence { counts, .. }) in candidates.iter_mut().zip(&self.evidence) {
            let mut probability = 0.0;
            for level in 0..=top {
                probability = (counts[level] + escape[level] * probability) * scale[level];
            }
            candidate.probability = probability;
        }
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
        Scorer::default().score(occurrences, 0, &Mixer::default(), &mut candidates);
        candidates
    }

    #[test]
    fn one_sighting_is_trusted_more_the_longer_it_matches() {
        let values: Vec<_> = [1, 2, 4, 8, 16, 24]
            .map(|m| score(&[seen(7, m, REQUEST)])[0].probability)
            .into();
        assert!(values.is_sorted(), "{values:?}");
        assert!(values[0] < 0.4 && values[5] > 0.9, "{values:?}");
    }

    #[test]
    fn probabilities_sum_to_one_at_most() {
        let occurrences: Vec<_> = (0..40)
            .map(|i| seen(i % 7, (i % 24 + 1) as u16, 2))
            .collect();
        let mut candidates = Vec::new();
        let mass = Scorer::default().score(&occurrences, 0, &Mixer::default(), &mut candidates);
        let sum: f32 = candidates
            .iter()
            .map(|candidate| candidate.probability)
            .sum();
        assert!((mass - sum).abs() < 1e-5);
        assert!(mass > 0.0 && mass <= 1.0);
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
