//! Answers of a tiny model through a real engine, their exact distribution, and the chi-square
//! between the two.

use std::collections::HashMap;

use spectrie_engine::{
    CostShape, Engine, EngineConfig, LogitRows, Plan, Request, RequestStats, StepResults, Verdicts,
};
use spectrie_sampling::SamplingParameters;
use spectrie_types::{Source, SpeculationMode};

use super::head::drafter;
use super::table_head::answer;

/// Tokens of the model; 0 ends an answer.
const VOCABULARY: usize = 12;
/// Longest answer.
pub(crate) const NUM_TOKENS: u32 = 3;
/// Answers taught to each namespace.
const NUM_TAUGHT: usize = 60;
/// Requests the engine holds at a time.
const NUM_HELD: u64 = 32;
/// Cells expected to hold fewer answers are counted together.
const LEAST_EXPECTED: f64 = 8.0;
/// Chance that a right sampler fails one case.
const SIGNIFICANCE: f64 = 1e-4;

/// A request to be sampled many times.
pub(crate) struct Case {
    pub(crate) name: &'static str,
    pub(crate) request: Request,
}

/// Where drafts come from, right and wrong ones in turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum DraftsOf {
    /// The likeliest answers, and the least likely ones, as text of two namespaces.
    Memory,
    /// A drafter that the runner calls.
    Head,
}

/// Logits after a token at a position: all that the model knows.
fn logits(token: u32, position: u32) -> [f32; VOCABULARY] {
    std::array::from_fn(|next| {
        let mut hash = (u64::from(token) << 32 | u64::from(position) << 16 | next as u64)
            .wrapping_mul(0x9E37_79B9_7F4A_7C15);
        hash = (hash ^ (hash >> 31)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        (hash >> 40) as f32 / (1_u64 << 24) as f32 * 4.0 - 1.5
    })
}

/// Probability of each answer to a request, computed in 64 bits with whole sorts.
fn exact(request: &Request) -> HashMap<Vec<u32>, f64> {
    let mut ended = HashMap::new();
    let mut open = vec![(Vec::new(), 1.0)];
    while let Some((output, probability)) = open.pop() {
        for (token, share) in (0..).zip(next(request, &output)) {
            if share > 0.0 {
                let mut longer: Vec<u32> = output.clone();
                longer.push(token);
                let ends = longer.len() == request.max_tokens as usize
                    || (token == 0 && !request.ignore_eos)
                    || request.stop_token_ids.contains(&token);
                if ends {
                    ended.insert(longer, probability * share);
                } else {
                    open.push((longer, probability * share));
                }
            }
        }
    }
    ended
}

/// Probability of each token after `output`.
fn next(request: &Request, output: &[u32]) -> [f64; VOCABULARY] {
    let tokens = [&request.prompt_ids[..], output].concat();
    let row = logits(tokens[tokens.len() - 1], tokens.len() as u32 - 1);
    let sampling = &request.sampling;
    let mut scores = row.map(f64::from);
    for &(token, bias) in &sampling.logit_bias {
        scores[token as usize] += f64::from(bias);
    }
    for (token, score) in (0..).zip(&mut scores) {
        let repetition = f64::from(sampling.repetition_penalty);
        if tokens.contains(&token) {
            *score *= if *score > 0.0 {
                1.0 / repetition
            } else {
                repetition
            };
        }
        let count = output.iter().filter(|&&one| one == token).count();
        *score -= f64::from(sampling.frequency_penalty) * count as f64;
        *score -= f64::from(sampling.presence_penalty) * f64::from(u8::from(count > 0));
    }
    if output.len() < request.min_tokens as usize {
        for &token in &request.stop_token_ids {
            scores[token as usize] = f64::NEG_INFINITY;
        }
        if !request.ignore_eos {
            scores[0] = f64::NEG_INFINITY;
        }
    }
    for word in &request.bad_words {
        let (last, before) = word.split_last().unwrap();
        if output.ends_with(before) {
            scores[*last as usize] = f64::NEG_INFINITY;
        }
    }
    cut(
        scores.map(|score| score / f64::from(sampling.temperature)),
        sampling,
    )
}

/// The softmax of scores after top-k, top-p, min-p and typical, in this order.
fn cut(scores: [f64; VOCABULARY], sampling: &SamplingParameters) -> [f64; VOCABULARY] {
    let mut kept: Vec<(usize, f64)> = scores.iter().map(|score| score.exp()).enumerate().collect();
    kept.retain(|&(_, mass)| mass > 0.0);
    kept.sort_by(|a, b| b.1.total_cmp(&a.1));
    if sampling.top_k > 0 {
        kept.truncate(sampling.top_k as usize);
    }
    keep_mass(&mut kept, f64::from(sampling.top_p));
    let least = kept[0].1 * f64::from(sampling.min_p);
    kept.retain(|&(_, mass)| mass >= least);
    let total: f64 = kept.iter().map(|one| one.1).sum();
    let entropy: f64 = kept
        .iter()
        .map(|one| -one.1 / total * (one.1 / total).ln())
        .sum();
    let distance = |mass: f64| (-(mass / total).ln() - entropy).abs();
    kept.sort_by(|a, b| distance(a.1).total_cmp(&distance(b.1)));
    keep_mass(&mut kept, f64::from(sampling.typical_p));
    let total: f64 = kept.iter().map(|one| one.1).sum();
    let mut probabilities = [0.0; VOCABULARY];
    for (token, mass) in kept {
        probabilities[token] = mass / total;
    }
    probabilities
}

/// Keeps the shortest head with this share of the mass.
fn keep_mass(kept: &mut Vec<(usize, f64)>, share: f64) {
    if share < 1.0 {
        let total: f64 = kept.iter().map(|one| one.1).sum();
        let mut sum = 0.0;
        let last = kept.iter().position(|one| {
            sum += one.1;
            sum >= share * total
        });
        kept.truncate(last.map_or(kept.len(), |last| last + 1));
    }
}

/// An engine that drafts for requests of a case in one of two ways.
fn engine(case: &Case, exact: &HashMap<Vec<u32>, f64>, drafts: DraftsOf) -> Engine {
    let engine = Engine::new(EngineConfig {
        eos_token_ids: vec![0],
        page_size: 4,
        speculation: match drafts {
            DraftsOf::Memory => SpeculationMode::Prob,
            DraftsOf::Head => SpeculationMode::Auto,
        },
        drafting_cost_ms: Some(0.0),
        memory_bytes: 4 << 20,
        ..EngineConfig::new(VOCABULARY, 256, 16, NUM_HELD as usize)
    })
    .unwrap();
    if drafts == DraftsOf::Head {
        let costs = engine.set_costs(&[1, 64], &[10.0, 11.0], CostShape::default());
        costs.unwrap();
        engine.add_drafter(drafter(0.001)).unwrap();
        return engine;
    }
    let mut answers: Vec<Vec<u32>> = every_answer();
    let probability = |answer: &Vec<u32>| exact.get(answer).copied().unwrap_or(0.0);
    answers.sort_by(|a, b| probability(b).total_cmp(&probability(a)));
    for (right, wrong) in answers.iter().zip(answers.iter().rev()).take(NUM_TAUGHT) {
        for (namespace, answer) in [("right", right), ("wrong", wrong)] {
            let text = [&case.request.prompt_ids[..], answer].concat();
            engine.learn(namespace, &text).unwrap();
        }
    }
    engine
}

/// How often each answer came.
fn sample(
    case: &Case,
    exact: &HashMap<Vec<u32>, f64>,
    samples: u64,
    drafts: DraftsOf,
) -> HashMap<Vec<u32>, u64> {
    let engine = engine(case, exact, drafts);
    // Noise of its own, so that one unlucky case implies nothing about the others.
    let letters = case.name.bytes().map(u64::from);
    let first_seed = letters.fold(0, |seed, letter| (seed * 31 + letter) % (1 << 40));
    let mut outputs: HashMap<u64, Vec<u32>> = HashMap::new();
    let mut counts = HashMap::new();
    // By memory.
    let mut stats = [RequestStats::default(), RequestStats::default()];
    let (mut submitted, mut ended) = (0, 0);
    while ended < samples {
        while submitted < samples && submitted - ended < NUM_HELD {
            let mut request = case.request.clone();
            request.handle = submitted;
            request.choice_seed = first_seed + submitted;
            request.namespace = ["right", "wrong"][submitted as usize % 2].into();
            request.learn = false;
            engine.submit(request).unwrap();
            submitted += 1;
        }
        while let Some(level) = engine.draft_plan(0.0).unwrap() {
            let answers = answer(&level, logits);
            engine.draft_results(&answers.view(), 0.001).unwrap();
        }
        let plan = engine.plan(0.0).unwrap().unwrap();
        let values = forward(&plan);
        let results = StepResults::from(Verdicts::Logits(LogitRows {
            values: &values,
            num_rows: plan.num_samples(),
            row_stride: VOCABULARY,
        }));
        for output in engine.commit(plan.plan_id, &results, 1.0, 0.0).unwrap() {
            let answer = outputs.entry(output.handle).or_default();
            answer.extend(output.token_ids);
            if let Some(finish) = output.finish {
                let sum = &mut stats[output.handle as usize % 2];
                sum.drafted_tokens += finish.stats.drafted_tokens;
                sum.accepted_tokens += finish.stats.accepted_tokens;
                let answer = outputs.remove(&output.handle).unwrap();
                *counts.entry(answer).or_insert(0) += 1;
                ended += 1;
            }
        }
    }
    // Without drafts that are taken and drafts that are not this would prove nothing.
    let drafted = stats.each_ref().map(|one| u64::from(one.drafted_tokens));
    let accepted = stats.each_ref().map(|one| u64::from(one.accepted_tokens));
    assert!(drafted.iter().all(|&one| one > samples / 10), "{drafted:?}");
    match drafts {
        DraftsOf::Memory => {
            let [right, wrong] = accepted.map(|count| count as f64 / (samples / 2) as f64);
            let name = case.name;
            assert!(
                right > 0.1 && wrong < 0.8 * right,
                "{name}: {right} {wrong}"
            );
        }
        DraftsOf::Head => {
            let of_head = engine.load().accepted_by_source[Source::Head as usize];
            let num_drafted: u64 = drafted.iter().sum();
            let is_mixed = of_head > samples / 10 && of_head < num_drafted * 9 / 10;
            assert!(is_mixed, "{}: {of_head} of {num_drafted}", case.name);
        }
    }
    counts
}

fn every_answer() -> Vec<Vec<u32>> {
    let tokens = 0..VOCABULARY as u32;
    let pairs = tokens
        .clone()
        .flat_map(|a| tokens.clone().map(move |b| [a, b]));
    pairs
        .flat_map(|[a, b]| tokens.clone().map(move |c| vec![a, b, c]))
        .collect()
}

fn forward(plan: &Plan) -> Vec<f32> {
    let rows = plan.sample_rows.iter().map(|&row| row as usize);
    rows.flat_map(|row| logits(plan.row_token[row] as u32, plan.row_position[row] as u32))
        .collect()
}

/// Chance of a chi-square as large as that between expected and counted answers, and its degrees
/// of freedom.
fn chance(
    expected: &HashMap<Vec<u32>, f64>,
    counts: &HashMap<Vec<u32>, u64>,
    samples: u64,
) -> (f64, f64) {
    let mut cells: Vec<(&Vec<u32>, f64)> = expected.iter().map(|(key, &p)| (key, p)).collect();
    cells.sort_by(|a, b| b.1.total_cmp(&a.1).then(a.0.cmp(b.0)));
    let (mut chi_square, mut num_cells) = (0.0, 0.0);
    let (mut cell, mut counted) = (0.0, 0);
    let mut left = 1.0;
    let num_answers = cells.len();
    for (index, (answer, probability)) in cells.into_iter().enumerate() {
        cell += probability * samples as f64;
        counted += counts.get(answer).copied().unwrap_or(0);
        left -= probability;
        let enough = cell >= LEAST_EXPECTED && left * samples as f64 >= LEAST_EXPECTED;
        if enough || index + 1 == num_answers {
            chi_square += (counted as f64 - cell).powi(2) / cell;
            num_cells += 1.0;
            (cell, counted) = (0.0, 0);
        }
    }
    let freedom: f64 = num_cells - 1.0;
    // Wilson and Hilferty: the cube root of a chi-square is nearly normal.
    let spread = 2.0 / (9.0 * freedom);
    let z = ((chi_square / freedom).cbrt() - (1.0 - spread)) / spread.sqrt();
    (normal_tail(z), freedom)
}

/// Chance that a normal variate exceeds `z`: Abramowitz and Stegun 26.2.17, within 8e-8.
fn normal_tail(z: f64) -> f64 {
    let t = 1.0 / (1.0 + 0.231_641_9 * z.abs());
    let coefficients = [
        1.330_274_429,
        -1.821_255_978,
        1.781_477_937,
        -0.356_563_782,
        0.319_381_53,
    ];
    let series = coefficients.iter().fold(0.0, |sum, one| (sum + one) * t);
    let tail = series * (-z * z / 2.0).exp() / std::f64::consts::TAU.sqrt();
    if z > 0.0 { tail } else { 1.0 - tail }
}

/// Asserts that answers that cannot come do not, and that the others come as often as they should.
pub(crate) fn check(case: &Case, samples: u64, drafts: DraftsOf) {
    let exact = exact(&case.request);
    let total: f64 = exact.values().sum();
    assert!((total - 1.0).abs() < 1e-9);
    let counts = sample(case, &exact, samples, drafts);
    for answer in counts.keys() {
        assert!(exact.contains_key(answer), "{}: {answer:?} came", case.name);
    }
    let (p, freedom) = chance(&exact, &counts, samples);
    eprintln!("{}: p {p:.4}, {freedom} degrees of freedom", case.name);
    assert!(
        p > SIGNIFICANCE,
        "{}: p {p:e}, {freedom} degrees of freedom",
        case.name
    );
}
