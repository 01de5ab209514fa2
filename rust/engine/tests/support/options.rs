//! Random sampling options: each option alone, and all at once.

use std::collections::HashMap;

use proptest::prelude::*;
use spectrie_engine::Request;
use spectrie_sampling::SamplingParameters;

use super::model::VOCABULARY;
use super::reference;

/// Every option of sampling, at its default or anywhere within its range; at times none at its
/// default.
pub(crate) fn sampling() -> impl Strategy<Value = SamplingParameters> {
    prop_oneof![5 => each_option(), 1 => every_option()]
}

fn each_option() -> impl Strategy<Value = SamplingParameters> {
    let temperature = prop_oneof![Just(0.0_f32), Just(0.0), 0.3_f32..1.5];
    let share = || prop_oneof![2 => Just(1.0_f32), 1 => 0.3_f32..1.0];
    let top_k = prop_oneof![Just(0_u32), 1_u32..50];
    let min_p = prop_oneof![Just(0.0_f32), 0.01_f32..0.5];
    let penalty = || prop_oneof![3 => Just(0.0_f32), 1 => -1.0_f32..1.5];
    let repetition = prop_oneof![3 => Just(1.0_f32), 1 => 0.8_f32..1.5];
    let bias = prop_oneof![2 => Just(HashMap::new()), 1 => bias()];
    (
        (temperature, share(), top_k, min_p, share()),
        (penalty(), penalty(), repetition, bias),
    )
        .prop_map(parameters)
}

fn every_option() -> impl Strategy<Value = SamplingParameters> {
    (
        (
            0.7_f32..1.5,
            0.5_f32..1.0,
            4_u32..30,
            0.01_f32..0.1,
            0.5_f32..0.99,
        ),
        (0.1_f32..1.0, 0.1_f32..1.0, 1.01_f32..1.5, bias()),
    )
        .prop_map(parameters)
}

fn bias() -> impl Strategy<Value = HashMap<u32, f32>> {
    prop::collection::hash_map(1..VOCABULARY as u32, -3.0_f32..3.0, 1..4)
}

type Cuts = (f32, f32, u32, f32, f32);
type Shifts = (f32, f32, f32, HashMap<u32, f32>);

fn parameters((cuts, shifts): (Cuts, Shifts)) -> SamplingParameters {
    let (temperature, top_p, top_k, min_p, typical_p) = cuts;
    let (frequency_penalty, presence_penalty, repetition_penalty, bias) = shifts;
    SamplingParameters {
        temperature,
        top_p,
        top_k,
        min_p,
        typical_p,
        frequency_penalty,
        presence_penalty,
        repetition_penalty,
        logit_bias: bias.into_iter().collect(),
    }
}

pub(crate) fn tokens(most: usize) -> impl Strategy<Value = Vec<u32>> {
    prop::collection::vec(1..VOCABULARY as u32, 1..most)
}

pub(crate) fn num_logprobs() -> impl Strategy<Value = Option<u32>> {
    prop::option::weighted(0.3, 0_u32..=20)
}

/// Places and lengths of words in the answer that would come without them.
pub(crate) fn bad_words() -> impl Strategy<Value = Vec<(usize, usize)>> {
    prop_oneof![
        2 => Just(vec![]),
        1 => prop::collection::vec((0_usize..40, 1_usize..4), 1..6),
    ]
}

/// Bars words of the request's own answer, so that they matter.
pub(crate) fn apply_bad_words(places: Vec<(usize, usize)>, mut request: Request) -> Request {
    if places.is_empty() {
        return request;
    }
    let (output, _) = reference::decode(&request);
    for (place, length) in places {
        let place = place % output.len();
        let word = &output[place..(place + length).min(output.len())];
        request.bad_words.push(word.to_vec());
    }
    request
}
