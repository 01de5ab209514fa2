//! Tokens sampled with speculation follow the exact distribution, option by option: chi-square over
//! whole answers of a tiny model, drafted from right and from wrong memory, and by a drafter that is
//! right about some tokens.

use crate::support::distribution::{Case, DraftsOf, NUM_TOKENS, check};
use spectrie_engine::Request;
use spectrie_sampling::SamplingParameters;

/// Samples of each option: a second or less. The deep form takes a million.
const SAMPLES: u64 = 20_000;
const DEEP_SAMPLES: u64 = 1_000_000;

fn case(name: &'static str, change: impl FnOnce(&mut Request)) -> Case {
    let mut request = Request::new(0, vec![2, 3], NUM_TOKENS);
    request.ignore_eos = true;
    change(&mut request);
    Case { name, request }
}

fn sampling(name: &'static str, sampling: SamplingParameters) -> Case {
    case(name, |request| request.sampling = sampling)
}

fn plain() -> SamplingParameters {
    SamplingParameters::default()
}

fn temperatures() -> [Case; 3] {
    let named = [("cool", 0.4), ("temperature 1", 1.0), ("hot", 2.5)];
    named.map(|(name, temperature)| {
        let parameters = SamplingParameters {
            temperature,
            ..plain()
        };
        sampling(name, parameters)
    })
}

fn top_k() -> Case {
    sampling(
        "top_k",
        SamplingParameters {
            top_k: 4,
            ..plain()
        },
    )
}

fn top_p() -> Case {
    sampling(
        "top_p",
        SamplingParameters {
            top_p: 0.7,
            ..plain()
        },
    )
}

fn min_p() -> Case {
    sampling(
        "min_p",
        SamplingParameters {
            min_p: 0.25,
            ..plain()
        },
    )
}

fn typical_p() -> Case {
    let parameters = SamplingParameters {
        typical_p: 0.6,
        ..plain()
    };
    sampling("typical_p", parameters)
}

fn repetition_penalty() -> Case {
    let parameters = SamplingParameters {
        repetition_penalty: 1.8,
        ..plain()
    };
    sampling("repetition_penalty", parameters)
}

fn frequency_penalty() -> Case {
    let parameters = SamplingParameters {
        frequency_penalty: 1.3,
        ..plain()
    };
    sampling("frequency_penalty", parameters)
}

fn presence_penalty() -> Case {
    let parameters = SamplingParameters {
        presence_penalty: 1.3,
        ..plain()
    };
    sampling("presence_penalty", parameters)
}

fn logit_bias() -> Case {
    let parameters = SamplingParameters {
        logit_bias: vec![(1, 1.5), (4, -1.5), (0, 0.7)],
        ..plain()
    };
    sampling("logit_bias", parameters)
}

fn bad_words() -> Case {
    case("bad_words", |request| {
        request.bad_words = vec![vec![7], vec![4, 5], vec![8, 8], vec![1, 2, 6]];
    })
}

fn min_tokens() -> Case {
    case("min_tokens", |request| {
        request.min_tokens = 2;
        request.ignore_eos = false;
        request.stop_token_ids = vec![5];
    })
}

fn every_option() -> Case {
    case("every option", |request| {
        request.sampling = SamplingParameters {
            temperature: 1.3,
            top_p: 0.95,
            top_k: 9,
            min_p: 0.05,
            typical_p: 0.9,
            frequency_penalty: 0.4,
            presence_penalty: 0.3,
            repetition_penalty: 1.2,
            logit_bias: vec![(1, 1.0), (4, -1.0)],
        };
        request.bad_words = vec![vec![7], vec![4, 5]];
        request.min_tokens = 1;
        request.ignore_eos = false;
        request.stop_token_ids = vec![5];
        request.logprobs = Some(2);
    })
}

#[test]
fn temperature_samples_exactly() {
    for case in temperatures() {
        check(&case, SAMPLES, DraftsOf::Memory);
    }
}

#[test]
fn top_k_samples_exactly() {
    check(&top_k(), SAMPLES, DraftsOf::Memory);
}

#[test]
fn top_p_samples_exactly() {
    check(&top_p(), SAMPLES, DraftsOf::Memory);
}

#[test]
fn min_p_samples_exactly() {
    check(&min_p(), SAMPLES, DraftsOf::Memory);
}

#[test]
fn typical_p_samples_exactly() {
    check(&typical_p(), SAMPLES, DraftsOf::Memory);
}

#[test]
fn repetition_penalty_samples_exactly() {
    check(&repetition_penalty(), SAMPLES, DraftsOf::Memory);
}

#[test]
fn frequency_penalty_samples_exactly() {
    check(&frequency_penalty(), SAMPLES, DraftsOf::Memory);
}

#[test]
fn presence_penalty_samples_exactly() {
    check(&presence_penalty(), SAMPLES, DraftsOf::Memory);
}

#[test]
fn logit_bias_samples_exactly() {
    check(&logit_bias(), SAMPLES, DraftsOf::Memory);
}

#[test]
fn bad_words_sample_exactly() {
    check(&bad_words(), SAMPLES, DraftsOf::Memory);
}

#[test]
fn min_tokens_samples_exactly() {
    check(&min_tokens(), SAMPLES, DraftsOf::Memory);
}

#[test]
fn every_option_at_once_samples_exactly() {
    check(&every_option(), SAMPLES, DraftsOf::Memory);
}

/// Every case.
fn cases() -> Vec<Case> {
    let single = [
        top_k(),
        top_p(),
        min_p(),
        typical_p(),
        repetition_penalty(),
        frequency_penalty(),
        presence_penalty(),
        logit_bias(),
        bad_words(),
        min_tokens(),
        every_option(),
    ];
    temperatures().into_iter().chain(single).collect()
}

#[test]
fn with_a_drafter_every_option_samples_exactly() {
    for case in cases() {
        check(&case, SAMPLES, DraftsOf::Head);
    }
}

#[test]
#[ignore = "deep"]
fn a_million_samples_of_each_option_follow_the_exact_distribution() {
    for case in &cases() {
        check(case, DEEP_SAMPLES, DraftsOf::Memory);
        check(case, DEEP_SAMPLES, DraftsOf::Head);
    }
}
