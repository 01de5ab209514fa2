//! One request decoded alone, token by token, with whole sorts: what every schedule must reproduce.

use spectrie_engine::Request;
use spectrie_sampling::noise::NoiseRow;
use spectrie_sampling::{MIN_TEMPERATURE, SamplingParameters};
use spectrie_types::FinishKind;

use super::expression::{Expression, TOKENS};
use super::model::logits;

/// All output tokens of a request, and why it ends.
pub(crate) fn decode(request: &Request) -> (Vec<u32>, FinishKind) {
    decode_within(request, None)
}

/// As [`decode`], the output held to an expression.
pub(crate) fn decode_within(
    request: &Request,
    expression: Option<&Expression>,
) -> (Vec<u32>, FinishKind) {
    let mut place = expression.cloned();
    let mut tokens = request.prompt_ids.clone();
    let num_prompt = tokens.len();
    loop {
        let output = &tokens[num_prompt..];
        let eos = (!request.ignore_eos).then_some(0);
        if let Some(&last) = output.last() {
            if eos == Some(last) {
                return (output.to_vec(), FinishKind::Eos);
            }
            if request.stop_token_ids.contains(&last) {
                return (output.to_vec(), FinishKind::StopToken);
            }
        }
        if place.as_ref().is_some_and(|place| !place.goes_on()) {
            return (output.to_vec(), FinishKind::Complete);
        }
        if output.len() >= request.max_tokens as usize {
            return (output.to_vec(), FinishKind::Length);
        }
        let output = output.to_vec();
        let Some(token) = next_token(request, place.as_ref(), &tokens) else {
            // What a grammar cannot go on with ends it.
            let kind = expression.map_or(FinishKind::Failed, |_| FinishKind::Complete);
            return (output, kind);
        };
        place = place.map(|place| place.after(TOKENS[token as usize].as_bytes()));
        tokens.push(token);
    }
}

/// The token that a device draws after `tokens`, the prompt and any output or drafts; `None` where
/// nothing can be drawn.
pub(crate) fn drawn_after(
    request: &Request,
    expression: Option<&Expression>,
    tokens: &[u32],
) -> Option<u32> {
    let mut place = expression.cloned();
    for &token in &tokens[request.prompt_ids.len()..] {
        place = place.map(|place| place.after(TOKENS[token as usize].as_bytes()));
    }
    next_token(request, place.as_ref(), tokens)
}

fn next_token(request: &Request, place: Option<&Expression>, tokens: &[u32]) -> Option<u32> {
    let num_prompt = request.prompt_ids.len();
    let output = &tokens[num_prompt..];
    let eos = (!request.ignore_eos).then_some(0);
    let mut row = logits(tokens);
    adjust(&mut row, &request.sampling, tokens, num_prompt);
    if output.len() < request.min_tokens as usize {
        for token in request.stop_token_ids.iter().copied().chain(eos) {
            row[token as usize] = f32::NEG_INFINITY;
        }
    }
    for word in &request.bad_words {
        let (last, before) = word.split_last().unwrap();
        if output.ends_with(before) {
            row[*last as usize] = f32::NEG_INFINITY;
        }
    }
    if let Some(place) = place {
        for (token, logit) in (0..).zip(&mut row) {
            if !place.allows(token) || (request.ignore_eos && token == 0) {
                *logit = f32::NEG_INFINITY;
            }
        }
    }
    draw(&row, &request.sampling, request.choice_seed, tokens.len())
}

/// Logarithm of the model's probability of `token` after `prefix`, and the likeliest tokens with
/// theirs.
pub(crate) fn logprobs(prefix: &[u32], token: u32, num_top: usize) -> (f64, Vec<(u32, f64)>) {
    let row: Vec<f64> = logits(prefix).into_iter().map(f64::from).collect();
    let total: f64 = row.iter().map(|logit| logit.exp()).sum();
    let mut all: Vec<(u32, f64)> = (0..).zip(row.iter().map(|x| x - total.ln())).collect();
    let own = all[token as usize].1;
    all.sort_by(|a, b| b.1.total_cmp(&a.1).then(a.0.cmp(&b.0)));
    all.truncate(num_top);
    (own, all)
}

fn adjust(row: &mut [f32], sampling: &SamplingParameters, tokens: &[u32], num_prompt: usize) {
    for &(token, bias) in &sampling.logit_bias {
        row[token as usize] += bias;
    }
    for (token, logit) in row.iter_mut().enumerate() {
        let is_it = |other: &&u32| **other as usize == token;
        if tokens.iter().any(|other| is_it(&other)) {
            let factor = sampling.repetition_penalty;
            *logit = if *logit > 0.0 {
                *logit / factor
            } else {
                *logit * factor
            };
        }
        let count = tokens[num_prompt..].iter().filter(is_it).count();
        if count > 0 {
            *logit -= sampling.frequency_penalty * count as f32 + sampling.presence_penalty;
        }
    }
}

fn draw(row: &[f32], sampling: &SamplingParameters, seed: u64, position: usize) -> Option<u32> {
    let greedy = sampling.temperature < MIN_TEMPERATURE;
    let scale = if greedy { 1.0 } else { sampling.temperature };
    let mut kept: Vec<(u32, f32)> = (0..).zip(row.iter().map(|&logit| logit / scale)).collect();
    kept.retain(|&(_, score)| score > f32::NEG_INFINITY);
    kept.sort_by(|a, b| b.1.total_cmp(&a.1).then(a.0.cmp(&b.0)));
    let max = kept.first()?.1;
    if greedy {
        return Some(kept[0].0);
    }
    if sampling.top_k > 0 {
        kept.truncate(sampling.top_k as usize);
    }
    if sampling.top_p < 1.0 {
        let weight = |score: f32| f64::from(score - max).exp();
        let total: f64 = kept.iter().map(|&(_, score)| weight(score)).sum();
        let mut sum = 0.0;
        let before = kept.iter().position(|&(_, score)| {
            sum += weight(score);
            sum >= f64::from(sampling.top_p) * total
        });
        kept.truncate(before.map_or(kept.len(), |index| index + 1));
    }
    if sampling.min_p > 0.0 {
        kept.retain(|&(_, score)| score >= max + sampling.min_p.ln());
    }
    if sampling.typical_p < 1.0 {
        kept = typical(kept, f64::from(sampling.typical_p));
    }
    let noise = NoiseRow::new(seed, position as u32);
    let mut noisy: Vec<(u32, f32)> = kept
        .into_iter()
        .map(|(token, score)| (token, score + noise.gumbel(token)))
        .collect();
    noisy.sort_by(|a, b| b.1.total_cmp(&a.1).then(a.0.cmp(&b.0)));
    Some(noisy[0].0)
}

/// Locally typical tokens, by the definition: nearest to the entropy first, until their mass does.
fn typical(mut kept: Vec<(u32, f32)>, mass: f64) -> Vec<(u32, f32)> {
    let total: f64 = kept.iter().map(|&(_, score)| f64::from(score).exp()).sum();
    let information = |score: f32| total.ln() - f64::from(score);
    let entropy: f64 = kept
        .iter()
        .map(|&(_, score)| information(score) * (-information(score)).exp())
        .sum();
    let distance = |score: f32| (information(score) - entropy).abs();
    kept.sort_by(|a, b| distance(a.1).total_cmp(&distance(b.1)));
    let mut sum = 0.0;
    let last = kept.iter().position(|&(_, score)| {
        sum += (-information(score)).exp();
        sum >= mass
    });
    kept.truncate(last.map_or(kept.len(), |last| last + 1));
    kept
}
