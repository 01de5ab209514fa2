//! One request decoded alone, token by token, with whole sorts: what every schedule must reproduce.

use spectrie_engine::noise::NoiseRow;
use spectrie_engine::{FinishKind, MIN_TEMPERATURE, Request, SamplingParameters};

use super::model::logits;

/// All output tokens of a request, and why it ends.
pub(crate) fn decode(request: &Request) -> (Vec<u32>, FinishKind) {
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
        if output.len() >= request.max_tokens as usize {
            return (output.to_vec(), FinishKind::Length);
        }
        let mut row = logits(&tokens);
        adjust(&mut row, &request.sampling, &tokens, num_prompt);
        if output.len() < request.min_tokens as usize {
            for token in request.stop_token_ids.iter().copied().chain(eos) {
                row[token as usize] = f32::NEG_INFINITY;
            }
        }
        tokens.push(draw(
            &row,
            &request.sampling,
            request.choice_seed,
            tokens.len(),
        ));
    }
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

fn draw(row: &[f32], sampling: &SamplingParameters, seed: u64, position: usize) -> u32 {
    let greedy = sampling.temperature < MIN_TEMPERATURE;
    let scale = if greedy { 1.0 } else { sampling.temperature };
    let mut kept: Vec<(u32, f32)> = (0..).zip(row.iter().map(|&logit| logit / scale)).collect();
    kept.retain(|&(_, score)| score > f32::NEG_INFINITY);
    kept.sort_by(|a, b| b.1.total_cmp(&a.1).then(a.0.cmp(&b.0)));
    let max = kept[0].1;
    if greedy {
        return kept[0].0;
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
    let noise = NoiseRow::new(seed, position as u32);
    let mut noisy: Vec<(u32, f32)> = kept
        .into_iter()
        .map(|(token, score)| (token, score + noise.gumbel(token)))
        .collect();
    noisy.sort_by(|a, b| b.1.total_cmp(&a.1).then(a.0.cmp(&b.0)));
    noisy[0].0
}
