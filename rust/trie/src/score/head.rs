//! The answers of a drafter of the runner's, mixed with what all other sources say of a node.
//!
//! Its inputs are the log-odds that the others gave, and those that it gave. It is a layer of its own, so
//! nothing changes where it was not asked. The weights below it learn from their own errors, as if it
//! were not there.

use crate::TokenId;
use crate::score::candidate::Candidate;
use crate::score::evidence::Evidence;
use crate::score::head_inputs::{
    AGREES, ALONE, ASKED_ABOUT, GIVEN, HeadInputs, HeadSets, LEFT, LEFT_SILENT, LEVEL, LIKELY,
    NUM_INPUTS, ONE, RIVAL_GIVEN, RIVALS, SILENT, UNLIKELY, UNLIKELY_SILENT,
};
use crate::score::inputs::{Situation, logistic, logit};
use crate::score::mixer::Mixer;
use crate::score::scorer::share_one;
use crate::sources::asked::HeadAnswer;
use crate::sources::head_place::Place;

/// What was expected of a node that it answered.
#[derive(Debug)]
pub(crate) struct HeadScored {
    /// Who answered.
    pub(crate) drafter: usize,
    sets: HeadSets,
    tokens: Vec<TokenId>,
    inputs: Vec<HeadInputs>,
    /// Sum of the probabilities.
    pub(crate) mass: f32,
    /// Where it was asked.
    pub(crate) place: Place,
}

impl HeadScored {
    /// Whether `token` was a candidate.
    pub(crate) fn names(&self, token: TokenId) -> bool {
        self.tokens.contains(&token)
    }

    /// Trains the weights with the token that came.
    pub(crate) fn learn(&self, token: TokenId, mixer: &mut Mixer) {
        for (candidate, inputs) in self.tokens.iter().zip(&self.inputs) {
            let said = logistic(dot(&mixer.head_weights(self.drafter, self.sets), inputs));
            let came = f32::from(u8::from(*candidate == token));
            mixer.learn_head(self.drafter, self.sets, inputs, came - said);
        }
    }
}

/// Changes the probabilities of `candidates`, of which `seen` is known, by what was answered, and appends
/// the tokens that nobody else names. `at` says which weights the others had.
pub(crate) fn mix(
    answer: &HeadAnswer,
    candidates: &mut Vec<Candidate>,
    seen: &[Evidence],
    at: Situation,
    mixer: &Mixer,
) -> HeadScored {
    let likeliest = answer.likeliest.tokens();
    let given = |token: TokenId| likeliest.iter().find(|(named, _)| *named == token);
    let asked = |token: TokenId| answer.named.iter().find(|(named, _)| *named == token);
    let level = f32::from(answer.level.max(1)).ln();
    let given_by_all: f32 = candidates.iter().map(|one| one.probability).sum();
    let left = logit(1.0 - given_by_all);
    let left_by_likeliest = 1.0 - likeliest.iter().map(|(_, given)| given).sum::<f32>();
    let left_silent = logit(left_by_likeliest);
    // Where it names one token alone, what it leaves is the most that another can have.
    let rival_given = |token: TokenId| {
        let rival = likeliest.iter().take(2).find(|(other, _)| *other != token);
        logit(rival.map_or(left_by_likeliest, |&(_, given)| given))
    };
    let mut inputs = Vec::with_capacity(candidates.len() + likeliest.len());
    for (candidate, evidence) in candidates.iter().zip(seen) {
        let mut x = [0.0; NUM_INPUTS];
        x[ONE] = 1.0;
        let others = logit(candidate.probability);
        x[LIKELY] = others.max(0.0);
        x[RIVALS] = logit(given_by_all - candidate.probability);
        x[RIVAL_GIVEN] = rival_given(candidate.token);
        let said = match (given(candidate.token), asked(candidate.token)) {
            (Some(&(_, probability)), _) => Some((GIVEN, probability)),
            (None, Some(&(_, probability))) => Some((ASKED_ABOUT, probability)),
            (None, None) => None,
        };
        if let Some((kind, probability)) = said {
            x[kind] = logit(probability);
            x[UNLIKELY] = others.min(0.0);
            x[LEVEL] = level;
            let is_first = likeliest
                .first()
                .is_some_and(|&(first, _)| first == candidate.token);
            x[AGREES] = f32::from(u8::from(is_first && evidence.newest[0]));
        } else {
            x[SILENT] = 1.0;
            x[LEFT_SILENT] = left_silent;
            x[UNLIKELY_SILENT] = others.min(0.0);
        }
        inputs.push(x);
    }
    for &(token, probability) in likeliest {
        if candidates.iter().any(|candidate| candidate.token == token) {
            continue;
        }
        let mut x = [0.0; NUM_INPUTS];
        x[ONE] = 1.0;
        x[GIVEN] = logit(probability);
        x[ALONE] = x[GIVEN];
        x[LEFT] = left;
        x[RIVAL_GIVEN] = rival_given(token);
        x[LEVEL] = level;
        inputs.push(x);
        candidates.push(Candidate {
            token,
            probability,
            origin: answer.origin,
        });
    }
    let sets = HeadSets::new(answer.level, at);
    let weights = mixer.head_weights(answer.drafter, sets);
    let mut mass = 0.0;
    for (candidate, inputs) in candidates.iter_mut().zip(&inputs) {
        candidate.probability = logistic(dot(&weights, inputs));
        mass += candidate.probability;
    }
    if mass > 1.0 {
        mass = share_one(candidates, mass);
    }
    HeadScored {
        drafter: answer.drafter,
        sets,
        tokens: candidates.iter().map(|candidate| candidate.token).collect(),
        inputs,
        mass,
        place: answer.place,
    }
}

fn dot(weights: &HeadInputs, inputs: &HeadInputs) -> f32 {
    weights.iter().zip(inputs).map(|(w, x)| w * x).sum()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sources::all::{HEAD, REQUEST};
    use crate::sources::recycled::answer::Answer;

    fn answer(likeliest: &[(TokenId, f32)], named: &[(TokenId, f32)]) -> HeadAnswer {
        HeadAnswer {
            likeliest: Answer::of(likeliest),
            named: named.to_vec(),
            level: 1,
            drafter: 0,
            origin: HEAD,
            place: Place::new(1, 0.0, 0.0, 0.0),
        }
    }

    fn candidate(token: TokenId, probability: f32) -> Candidate {
        Candidate {
            token,
            probability,
            origin: REQUEST,
        }
    }

    /// What one candidate of the others' comes to be.
    fn mixed(probability: f32, answer: &HeadAnswer) -> Vec<Candidate> {
        let mut candidates = vec![candidate(5, probability)];
        mix(
            answer,
            &mut candidates,
            &[Evidence::default()],
            Situation::default(),
            &Mixer::default(),
        );
        candidates
    }

    #[test]
    fn a_token_that_nobody_else_names_is_nearly_as_likely_as_was_answered() {
        let candidates = mixed(0.01, &answer(&[(7, 0.6), (8, 0.2)], &[]));
        assert!((candidates[1].probability - 0.6).abs() < 0.2);
        assert!((candidates[2].probability - 0.2).abs() < 0.1);
        assert_eq!(
            (candidates[0].origin, candidates[1].origin),
            (REQUEST, HEAD)
        );
    }

    #[test]
    fn agreement_raises_and_contradiction_lowers_what_others_say() {
        let of = |others, answer: &HeadAnswer| mixed(others, answer)[0].probability;
        let agreed = of(0.6, &answer(&[(5, 0.7)], &[]));
        let contradicted = of(0.6, &answer(&[(7, 0.9)], &[(5, 0.001)]));
        let silent = of(0.6, &answer(&[(7, 0.3)], &[]));
        assert!(
            agreed > 0.65 && contradicted < 0.25,
            "{agreed} {contradicted}"
        );
        assert!(silent < 0.6 && silent > contradicted, "{silent}");
        // It lifts a token that others hardly believe in, and a copy stays likely.
        assert!(of(0.02, &answer(&[(5, 0.9)], &[])) > 0.5);
        assert!(of(0.97, &answer(&[(7, 0.3)], &[])) > 0.75);
    }

    #[test]
    fn a_contradiction_lowers_less_where_text_matches_far() {
        let wrong = answer(&[(7, 0.9)], &[(5, 0.001)]);
        let of = |own| {
            let mut candidates = vec![candidate(5, 0.9)];
            let at = Situation {
                own,
                ..Situation::default()
            };
            mix(
                &wrong,
                &mut candidates,
                &[Evidence::default()],
                at,
                &Mixer::default(),
            );
            candidates[0].probability
        };
        let (short, long) = (of(1), of(5));
        assert!(long > short + 0.1, "{short} {long}");
    }

    #[test]
    fn probabilities_sum_to_one_at_most() {
        let likeliest: Vec<_> = (0..8).map(|index| (100 + index, 0.12)).collect();
        let mut candidates: Vec<_> = (0..8).map(|token| candidate(token, 0.12)).collect();
        let seen = vec![Evidence::default(); 8];
        let scored = mix(
            &answer(&likeliest, &[]),
            &mut candidates,
            &seen,
            Situation::default(),
            &Mixer::default(),
        );
        let sum: f32 = candidates.iter().map(|one| one.probability).sum();
        assert!(sum <= 1.001 && (sum - scored.mass).abs() < 1e-4, "{sum}");
    }

    #[test]
    fn it_learns_whom_to_believe() {
        let mut mixer = Mixer::default();
        let wrong = answer(&[(7, 0.9)], &[(5, 0.01)]);
        let said = |mixer: &Mixer| {
            let mut candidates = vec![candidate(5, 0.6)];
            let scored = mix(
                &wrong,
                &mut candidates,
                &[Evidence::default()],
                Situation::default(),
                mixer,
            );
            (candidates[0].probability, candidates[1].probability, scored)
        };
        let (text_before, head_before, _) = said(&mixer);
        for _ in 0..300 {
            let (_, _, scored) = said(&mixer);
            scored.learn(5, &mut mixer);
        }
        let (text, head, _) = said(&mixer);
        assert!(text > text_before + 0.2, "{text_before} {text}");
        assert!(head < 0.7 * head_before, "{head_before} {head}");
    }
}
