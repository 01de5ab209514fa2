//! Draws of single rows.

use spectrie_sampling::{Draw, History, NoToken, Sampler, SamplingParameters};

fn greedy() -> SamplingParameters {
    SamplingParameters {
        temperature: 0.0,
        ..SamplingParameters::default()
    }
}

fn drawn(
    history: Option<&History>,
    parameters: &SamplingParameters,
    masked: &[u32],
) -> Result<u32, NoToken> {
    let row = [5.0, 4.0, 3.0, -1.0];
    let draw = Draw {
        history,
        masked,
        ..Draw::new(parameters, 3, 5)
    };
    Sampler::default().draw(&row, &draw)
}

#[test]
fn only_allowed_tokens_are_drawn_and_none_past_the_last_word() {
    let parameters = SamplingParameters::default();
    let row = [0.0; 100];
    let mut sampler = Sampler::default();
    let mut seen = std::collections::BTreeSet::new();
    for position in 0..2_000 {
        let words = [u32::MAX, 0b1011, 0b1];
        let draw = Draw {
            allowed: Some(&words),
            position,
            ..Draw::new(&parameters, 3, 5)
        };
        let token = sampler.draw(&row, &draw).unwrap();
        assert!(token < 32 || [32, 33, 35, 64].contains(&token), "{token}");
        seen.insert(token);
    }
    assert_eq!(seen.len(), 36);
    let none = Draw {
        allowed: Some(&[]),
        ..Draw::new(&parameters, 3, 5)
    };
    assert_eq!(sampler.draw(&row, &none), Err(NoToken::Banned));
}

#[test]
fn rows_without_a_finite_greatest_logit_give_no_token() {
    let parameters = greedy();
    for value in [f32::NEG_INFINITY, f32::INFINITY, f32::NAN] {
        assert_eq!(
            Sampler::default().draw(&[value; 40], &Draw::new(&parameters, 3, 5)),
            Err(NoToken::Model)
        );
    }
    let noisy = SamplingParameters::default();
    assert_eq!(
        Sampler::default().draw(&[f32::NAN; 40], &Draw::new(&noisy, 3, 5)),
        Err(NoToken::Model)
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
        let draw = Draw::new(&parameters, 3, position);
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
    assert_eq!(drawn(Some(&history), &penalised, &[]), Ok(1));
    history.push(1);
    assert_eq!(drawn(Some(&history), &penalised, &[]), Ok(2));
    let presence = SamplingParameters {
        presence_penalty: 1.5,
        ..greedy()
    };
    assert_eq!(drawn(Some(&history), &presence, &[0]), Ok(2));
    let biased = SamplingParameters {
        logit_bias: vec![(3, 100.0)],
        ..greedy()
    };
    assert_eq!(drawn(None, &biased, &[]), Ok(3));
}
