//! How likely each continuation is: counts blended over match lengths, then a mixer.
//!
//! The blend goes from the shortest matched length to the longest. With `N` the weight of the
//! occurrences that match at least that length, `c` the part of it that continues with a token
//! and `d` the number of different continuations:
//!
//! `p = (c + a * sqrt(d) * p_shorter) / (N + a * sqrt(d))`
//!
//! The escape `a` is large for short matches and small for long ones, because trusting a few
//! sightings too much is the common mistake. The mixer then weighs the blends of own and of shared
//! text, what the model itself said of the same context before, and what a blend cannot see:
//! [`crate::score::features`], [`crate::score::mixer`].

use crate::score::calibration::Calibration;
use crate::score::candidate::Candidate;
use crate::score::evidence::{Context, Evidence, LEVELS, Seen, gather};
use crate::score::features::{LogOdds, Logs, Node};
use crate::score::inputs::{Situation, logistic};
use crate::score::mixer::Mixer;

/// Escape weight of each level: 60 / level^1.29, found by replaying source files.
pub(crate) const ESCAPES: [f32; LEVELS.len()] = [
    60.0, 24.5, 14.6, 10.1, 7.5, 6.0, 4.1, 3.1, 2.4, 1.7, 1.0, 0.5, 0.3,
];

/// Weight of an occurrence in the request's own texts and of one in shared text.
pub(crate) const TEXT_WEIGHTS: [f32; 2] = [3.0, 1.0];

/// What the three blends count: both kinds of text, own text, shared text.
pub(crate) const BLENDS: [[f32; 2]; 3] = [TEXT_WEIGHTS, [1.0, 0.0], [0.0, 1.0]];

/// The set of weights for a longest match of each level; 0 = no match.
const SET_OF_LEVEL: [u8; LEVELS.len()] = [1, 2, 3, 4, 4, 5, 5, 6, 6, 7, 7, 8, 9];

/// Log-odds of hits lately above which the next set of weights counts.
const LATELY_SETS_AT: [f32; 5] = [-1.5, -0.7, 0.0, 0.7, 1.5];

/// Errors below this train nothing: most candidates are hopeless, and known to be.
const MIN_ERROR: f32 = 0.001;

/// What scored a node: enough to train the weights when the outcome is known.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Scored {
    pub(crate) node: Node,
    /// Which weights counted.
    pub(crate) situation: Situation,
    /// Sum of the probabilities.
    pub(crate) mass: f32,
}

/// Scores the continuations of a node.
#[derive(Debug, Default)]
pub(crate) struct Scorer {
    logs: Logs,
}

impl Scorer {
    /// Replaces `candidates` by every continuation that `context` names, with its probability, in
    /// the order of first sight, and appends to `seen` what names them.
    pub(crate) fn score(
        &self,
        context: Context<'_>,
        mixer: &Mixer,
        candidates: &mut Vec<Candidate>,
        seen: &mut Seen,
    ) -> Scored {
        let first = seen.evidence.len();
        let gathered = gather(context, candidates, seen);
        let tops = gathered.tops;
        let all = &mut seen.evidence[first..];
        let in_text = &mut all[..gathered.num_in_text];
        match tops {
            [Some(own), Some(shared)] => {
                blend(in_text, 0, own.max(shared));
                blend(in_text, 1, own);
                blend(in_text, 2, shared);
            }
            [Some(top), None] => blend_alone(in_text, 1, top),
            [None, Some(top)] => blend_alone(in_text, 2, top),
            [None, None] => {}
        }
        let set = |top: Option<usize>| top.map_or(0, |level| SET_OF_LEVEL[level]);
        let situation = Situation {
            own: set(tops[0]),
            shared: set(tops[1]),
            // One for each way in which the model answered here before, and did not.
            recycled: (0..3)
                .map(|kind| u8::from(context.answers[kind].is_some()) << kind)
                .sum(),
            lately: LATELY_SETS_AT
                .iter()
                .filter(|&&at| context.lately[1] > at)
                .count() as u8,
        };
        let node = Node::new(gathered, in_text, context, &self.logs);
        let weights = mixer.weights(situation);
        let log_odds = LogOdds::new(&node, &weights, &self.logs);
        let mut mass = 0.0;
        let mut before: Option<(&Evidence, f32)> = None;
        for (candidate, evidence) in candidates.iter_mut().zip(&*all) {
            // Many were seen once, after the same few tokens.
            candidate.probability = match before {
                Some((same, probability)) if same == evidence => probability,
                _ => logistic(log_odds.of(evidence)),
            };
            before = Some((evidence, candidate.probability));
            mass += candidate.probability;
        }
        if mass > 1.0 {
            mass = share_one(candidates, mass);
        }
        Scored {
            node,
            situation,
            mass,
        }
    }

    /// Trains `mixer` with what came of the candidates of a node.
    pub(crate) fn learn<'a>(
        &self,
        scored: &Scored,
        outcomes: impl Iterator<Item = (&'a Evidence, bool)>,
        mixer: &mut Mixer,
    ) {
        let weights = mixer.weights(scored.situation);
        let log_odds = LogOdds::new(&scored.node, &weights, &self.logs);
        let mut before: Option<(&Evidence, f32)> = None;
        let mut features = None;
        for (evidence, came) in outcomes {
            let probability = match before {
                Some((same, probability)) if same == evidence => probability,
                _ => {
                    features = None;
                    logistic(log_odds.of(evidence))
                }
            };
            before = Some((evidence, probability));
            let error = f32::from(u8::from(came)) - probability;
            if error.abs() >= MIN_ERROR {
                let features =
                    features.get_or_insert_with(|| scored.node.features(evidence, &self.logs));
                mixer.learn(scored.situation, features, error);
            }
        }
    }
}

/// Lowers the odds of all candidates alike until their probabilities sum to one at most; the sum is
/// returned. Where all are unlikely it is well below one.
///
/// Each was judged without the others. Of a likely candidate and many unlikely ones the likely one
/// is still likely, which dividing all by the sum would deny.
pub(super) fn share_one(candidates: &mut [Candidate], mut mass: f32) -> f32 {
    for _ in 0..3 {
        let factor = 1.0 / (mass * mass);
        mass = 0.0;
        for candidate in &mut *candidates {
            candidate.probability = Calibration::scale(candidate.probability, factor);
            mass += candidate.probability;
        }
        if mass < 1.05 {
            break;
        }
    }
    if mass <= 1.0 {
        return mass;
    }
    for candidate in candidates {
        candidate.probability /= mass;
    }
    1.0
}

/// Blends text of one kind where there is no other: both blends are the same.
fn blend_alone(all: &mut [Evidence], index: usize, top: usize) {
    blend(all, index, top);
    for evidence in all {
        evidence.blends[0] = evidence.blends[index];
    }
}

/// Blends the levels up to `top` of what [`BLENDS`] counts.
fn blend(all: &mut [Evidence], index: usize, top: usize) {
    let [own, shared] = BLENDS[index];
    let weigh = |evidence: &Evidence, level: usize| {
        f32::from(evidence.counts[0][level]) * own + f32::from(evidence.counts[1][level]) * shared
    };
    let mut scale = [0.0_f32; LEVELS.len()];
    let mut escape = [0.0_f32; LEVELS.len()];
    for level in 0..=top {
        let mut total = 0.0;
        let mut distinct = 0.0_f32;
        for evidence in &*all {
            let sum = weigh(evidence, level);
            total += sum;
            distinct += f32::from(u8::from(sum > 0.0));
        }
        escape[level] = ESCAPES[level] * distinct.sqrt();
        scale[level] = 1.0 / (total + escape[level]);
    }
    for evidence in all {
        let mut probability = 0.0;
        for level in 0..=top {
            probability = (weigh(evidence, level) + escape[level] * probability) * scale[level];
        }
        evidence.blends[index] = probability;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::TokenId;
    use crate::sources::all::{REQUEST, SHARED};
    use crate::store::chains::Occurrence;

    fn seen(next: TokenId, matched: u16, origin: u16) -> Occurrence {
        Occurrence {
            position: 1,
            next,
            origin,
            matched,
        }
    }

    fn context(occurrences: &[Occurrence]) -> Context<'_> {
        Context {
            occurrences,
            answers: &[None; 3],
            hints: &[],
            depth: 0,
            lately: [0.0; 3],
        }
    }

    fn score(occurrences: &[Occurrence]) -> Vec<Candidate> {
        let mut candidates = Vec::new();
        let context = context(occurrences);
        let mut seen = Seen::default();
        Scorer::default().score(context, &Mixer::default(), &mut candidates, &mut seen);
        candidates
    }

    #[test]
    fn one_sighting_is_trusted_more_the_longer_it_matches() {
        let values: Vec<_> = [2, 4, 8, 24]
            .map(|m| score(&[seen(7, m, REQUEST)])[0].probability)
            .into();
        assert!(values.is_sorted(), "{values:?}");
        assert!(values[0] < 0.5 && values[3] > 0.8, "{values:?}");
    }

    #[test]
    fn a_likely_candidate_stays_likely_beside_many_unlikely_ones() {
        let candidate = |probability| Candidate {
            token: 7,
            probability,
            origin: 0,
        };
        let mut candidates: Vec<_> = std::iter::once(0.95)
            .chain([0.05; 40])
            .map(candidate)
            .collect();
        let mass = share_one(&mut candidates, 2.95);
        let sum: f32 = candidates
            .iter()
            .map(|candidate| candidate.probability)
            .sum();
        assert!((mass - sum).abs() < 1e-5 && mass <= 1.0, "{mass} {sum}");
        assert!(
            candidates[0].probability > 0.5,
            "{}",
            candidates[0].probability
        );
        assert!(candidates[1].probability > 0.0);
    }

    #[test]
    fn probabilities_sum_to_one_at_most() {
        let occurrences: Vec<_> = (0..40)
            .map(|i| seen(i % 7, (i % 24 + 1) as u16, 2))
            .collect();
        let mut candidates = Vec::new();
        let (context, mut seen) = (context(&occurrences), Seen::default());
        let mass = Scorer::default()
            .score(context, &Mixer::default(), &mut candidates, &mut seen)
            .mass;
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
        assert_eq!((alone.origin, both.origin), (SHARED, REQUEST));
    }

    #[test]
    fn own_text_outweighs_shared_text() {
        let candidates = score(&[seen(1, 4, SHARED), seen(2, 4, REQUEST)]);
        assert!(candidates[1].probability > 2.0 * candidates[0].probability);
    }
}
