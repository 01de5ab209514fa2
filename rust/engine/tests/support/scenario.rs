//! Random traffic, run to its end with every promise of the engine checked on the way.

use std::collections::{HashMap, HashSet};

use proptest::prelude::*;
use spectrie_engine::{
    CostShape, Engine, EngineConfig, Finish, Plan, Request, RequestOutput, StepResults, TopTokens,
    Verdicts,
};
use spectrie_sampling::TokenLogprobs;
use spectrie_trie::{DraftConfig, Drafter};
use spectrie_types::{FinishKind, Recycle, SpeculationMode};

use super::device::drawn_by_device;
use super::expression::{Expression, expression};
use super::model::{FakeModel, PAGE_SIZE, STRIDE, VOCABULARY};
use super::options::{apply_bad_words, bad_words, num_logprobs, sampling, tokens};
use super::reference;

/// Longest prompt plus answer.
const MAX_CONTEXT: usize = 90;
/// Far above what any scenario needs: reaching it is starvation.
const MAX_STEPS: usize = 20_000;
/// What one step takes on the scenario's clock.
const STEP_S: f64 = 0.01;

/// A request and what happens to it.
#[derive(Debug, Clone)]
pub(crate) struct Visit {
    pub(crate) arrives_at_step: usize,
    pub(crate) request: Request,
    pub(crate) cancelled_at_step: Option<usize>,
    /// Tokens an earlier attempt emitted.
    pub(crate) num_resumed: usize,
    /// What the output is held to.
    pub(crate) expression: Option<Expression>,
}

impl Visit {
    /// What decoding alone gives.
    fn expected(&self) -> (Vec<u32>, FinishKind) {
        reference::decode_within(&self.request, self.expression.as_ref())
    }
}

#[derive(Debug, Clone)]
pub(crate) struct Scenario {
    pub(crate) config: EngineConfig,
    pub(crate) costs: Option<(Vec<usize>, Vec<f64>)>,
    pub(crate) visits: Vec<Visit>,
}

/// A prompt that begins as others do, in one of two namespaces.
fn prompt() -> impl Strategy<Value = (Vec<u32>, String)> {
    let beginning = (0_usize..4, 0_usize..30);
    let own = prop_oneof![2 => prop::collection::vec(1..VOCABULARY as u32, 0..6), 1 => tokens(40)];
    let namespace = prop_oneof![3 => Just("a"), 1 => Just("b")];
    (beginning, own, namespace).prop_map(|((text, length), own, namespace)| {
        let shared = (0..length).map(|index| (7 * index + text) as u32 % 30 + 1);
        let mut prompt: Vec<u32> = shared.chain(own).collect();
        prompt.truncate(60);
        if prompt.is_empty() {
            prompt.push(1);
        }
        (prompt, namespace.to_owned())
    })
}

fn visit() -> impl Strategy<Value = Visit> {
    let drafting = (
        prop::option::weighted(
            0.2,
            prop_oneof![Just(SpeculationMode::Off), Just(SpeculationMode::Prob)],
        ),
        prop::option::weighted(0.2, 0_u32..=63),
        any::<bool>(),
        prop::option::weighted(0.3, tokens(30)),
        prop::option::weighted(0.1, 0_u32..40),
    );
    let ends = (
        1_u32..40,
        0_u32..6,
        prop::collection::vec(1..VOCABULARY as u32, 0..2),
        any::<bool>(),
    );
    let fate = (
        0_usize..60,
        prop::option::weighted(0.15, 0_usize..100),
        0_usize..20,
        -1_i32..2,
        prop::option::weighted(0.3, Just("other".to_owned())),
    );
    let told = (num_logprobs(), num_logprobs(), bad_words());
    let held = prop::option::weighted(0.2, expression());
    (
        prompt(),
        sampling(),
        any::<u64>(),
        ends,
        drafting,
        fate,
        (told, held),
    )
        .prop_map(
            |(
                (prompt_ids, namespace),
                sampling,
                choice_seed,
                ends,
                drafting,
                fate,
                (told, expression),
            )| {
                let (logprobs, prompt_logprobs, bad_words) = told;
                let (max_tokens, min_tokens, stop_token_ids, ignore_eos) = ends;
                let (speculation, max_draft_tokens, learn, prediction, deadline) = drafting;
                let (arrives_at_step, cancelled_after, num_resumed, priority, tenant) = fate;
                Visit {
                    arrives_at_step,
                    cancelled_at_step: cancelled_after.map(|steps| arrives_at_step + steps),
                    num_resumed: num_resumed.saturating_sub(10),
                    request: apply_bad_words(
                        bad_words,
                        Request {
                            sampling,
                            logprobs,
                            prompt_logprobs,
                            choice_seed,
                            min_tokens,
                            stop_token_ids,
                            ignore_eos,
                            speculation,
                            max_draft_tokens,
                            learn,
                            prediction_ids: prediction.unwrap_or_default(),
                            deadline_s: deadline
                                .map(|steps| (arrives_at_step as f64 + f64::from(steps)) * STEP_S),
                            priority,
                            tenant,
                            namespace,
                            grammar: expression.as_ref().map(Expression::compiled),
                            ..Request::new(0, prompt_ids, max_tokens)
                        },
                    ),
                    expression,
                }
            },
        )
}

/// The number of choices of one request.
fn siblings((visit, num_choices): (Visit, u64)) -> Vec<Visit> {
    let choice = |index: u64| {
        let mut choice = visit.clone();
        choice.request.choice_seed = visit.request.choice_seed.wrapping_add(index);
        // One may be cancelled while the others wait for what it computes.
        choice.cancelled_at_step = visit.cancelled_at_step.filter(|_| index == 0);
        choice
    };
    (0..num_choices).map(choice).collect()
}

/// Random traffic on a small engine with `speculation`.
pub(crate) fn scenario(speculation: SpeculationMode) -> impl Strategy<Value = Scenario> {
    let sizes = (
        18_usize..60,
        1_usize..7,
        1_usize..50,
        0_usize..80,
        0_usize..=63,
        0_u64..4,
    );
    let slope = prop::option::of(0.0_f64..0.2);
    let limits = (
        0_usize..12,
        0.02_f64..1.0,
        prop_oneof![Just(200.0_f64), Just(15.0)],
    );
    (
        sizes,
        limits,
        slope,
        any::<bool>(),
        prop::sample::select(vec![Recycle::Off, Recycle::Decode, Recycle::All]),
        prop::collection::vec((visit(), 1_u64..4), 1..9),
    )
        .prop_map(
            move |(
                (num_pages, max_running, chunk, rows, drafts, holdout),
                (lookahead_tokens, age_s, max_step_ms),
                slope,
                has_memory,
                recycle,
                visits,
            )| {
                let mut visits: Vec<Visit> = visits.into_iter().flat_map(siblings).collect();
                for (handle, visit) in (100..).zip(&mut visits) {
                    visit.request.handle = handle;
                }
                let config = EngineConfig {
                    eos_token_ids: vec![0],
                    page_size: PAGE_SIZE,
                    chunk_tokens: chunk,
                    max_batch_rows: max_running + rows,
                    max_step_ms,
                    age_s,
                    lookahead_tokens,
                    speculation,
                    max_draft_tokens: drafts,
                    memory_bytes: if has_memory { 4 << 20 } else { 0 },
                    recycle,
                    holdout_every: holdout,
                    ..EngineConfig::new(VOCABULARY, num_pages, MAX_CONTEXT, max_running)
                };
                let costs = slope.map(|slope| (vec![1, 101], vec![10.0, 10.0 + 1000.0 * slope]));
                Scenario {
                    config,
                    costs,
                    visits,
                }
            },
        )
}

/// What one request gave.
#[derive(Debug, Default)]
pub(crate) struct Seen {
    pub(crate) tokens: Vec<u32>,
    pub(crate) sources: Vec<u8>,
    pub(crate) logprobs: Vec<TokenLogprobs>,
    pub(crate) prompt_logprobs: Option<Vec<Option<TokenLogprobs>>>,
    pub(crate) finish: Option<Finish>,
}

/// Runs a scenario to its end.
pub(crate) fn run(scenario: &Scenario) -> HashMap<u64, Seen> {
    let engine = Engine::new(scenario.config.clone()).unwrap();
    if let Some((rows, milliseconds)) = &scenario.costs {
        engine
            .set_costs(rows, milliseconds, CostShape::default())
            .unwrap();
    }
    let mut model = FakeModel::new(scenario.config.num_pages);
    let mut seen: HashMap<u64, Seen> = HashMap::new();
    for step in 0.. {
        assert!(step < MAX_STEPS, "starvation");
        let now_s = step as f64 * STEP_S;
        for visit in &scenario.visits {
            if visit.arrives_at_step == step {
                seen.insert(visit.request.handle, Seen::default());
                engine.submit(begin(visit)).unwrap();
            }
            if visit.cancelled_at_step == Some(step) {
                engine.cancel(visit.request.handle, None, false);
            }
        }
        let plan = engine.plan(now_s).unwrap();
        check_load(&engine, &scenario.config);
        take(&mut seen, engine.take_outputs().unwrap());
        if let Some(plan) = plan {
            check_limits(&plan, &scenario.config);
            let values = model.forward(&plan);
            let likeliest = plan.is_greedy.then(|| argmax_of_rows(&values));
            let drawn = plan
                .is_drawable
                .then(|| drawn_by_device(&model, &plan, &scenario.visits));
            let verdicts = match (step % 4, likeliest.as_deref(), drawn.as_deref()) {
                (0 | 1, Some(tokens), _) => Verdicts::Tokens(tokens),
                (1 | 2, _, Some(tokens)) => Verdicts::Drawn(tokens),
                _ => Verdicts::Logits {
                    values: &values,
                    num_rows: plan.num_samples(),
                    row_stride: STRIDE,
                },
            };
            let (ids, probabilities) = model.top(&plan);
            let results = StepResults {
                verdicts,
                top: (step % 3 > 0).then_some(TopTokens {
                    ids: &ids,
                    probabilities: &probabilities,
                }),
            };
            take(
                &mut seen,
                engine
                    .commit(plan.plan_id, &results, 1.0 + plan.num_rows() as f64, now_s)
                    .unwrap(),
            );
        } else if scenario
            .visits
            .iter()
            .all(|visit| visit.arrives_at_step <= step)
        {
            break;
        }
    }
    let load = engine.load();
    assert_eq!((load.pages_used, load.running, load.waiting), (0, 0, 0));
    seen
}

fn argmax_of_rows(values: &[f32]) -> Vec<i32> {
    let best = |row: &[f32]| {
        (0..VOCABULARY)
            .rev()
            .max_by(|&a, &b| row[a].total_cmp(&row[b]))
            .unwrap()
    };
    values.chunks(STRIDE).map(|row| best(row) as i32).collect()
}

fn take(seen: &mut HashMap<u64, Seen>, outputs: Vec<RequestOutput>) {
    let mut handles = HashSet::new();
    for output in outputs {
        assert!(
            handles.insert(output.handle),
            "a request appears twice in one output"
        );
        let one = seen
            .get_mut(&output.handle)
            .expect("an output of an unknown request");
        assert_eq!(one.finish, None, "an output after the end");
        assert_eq!(output.token_ids.len(), output.sources.len());
        if let Some(logprobs) = output.logprobs {
            assert_eq!(output.token_ids.len(), logprobs.len());
            one.logprobs.extend(logprobs);
        }
        if let Some(prompt) = output.prompt_logprobs {
            assert!(one.tokens.is_empty() && !output.token_ids.is_empty());
            assert_eq!(one.prompt_logprobs.replace(prompt), None);
        }
        one.tokens.extend(output.token_ids);
        one.sources.extend(output.sources);
        one.finish = output.finish;
    }
}

fn check_load(engine: &Engine, config: &EngineConfig) {
    let load = engine.load();
    assert!(load.running <= config.max_running);
    assert!(load.pages_used + load.pages_cached <= load.pages_total);
    assert!(load.pages_total == config.num_pages);
    assert!(load.prefix_hit_tokens <= load.prefix_query_tokens);
    assert!(load.memory_bytes <= config.memory_bytes);
}

fn check_limits(plan: &Plan, config: &EngineConfig) {
    assert!(plan.num_rows() <= config.max_batch_rows);
    let mut num_chunk = 0;
    for request in 0..plan.num_requests() {
        let count = plan.request_row_count[request] as usize;
        if plan.request_kind[request] == 0 {
            num_chunk += count;
        } else {
            assert!(count <= 1 + config.max_draft_tokens);
        }
        assert!(plan.request_kv_len[request] as usize + count <= config.max_context);
    }
    assert!(num_chunk <= config.chunk_tokens);
}

/// The request as it is submitted, with what an earlier attempt emitted.
fn begin(visit: &Visit) -> Request {
    let mut request = visit.request.clone();
    if visit.num_resumed > 0 {
        let (mut tokens, _) = visit.expected();
        tokens.truncate(visit.num_resumed);
        request.emitted_token_ids = tokens;
    }
    request
}

/// Compares what a request gave with plain decoding, and its counts with each other.
pub(crate) fn check_visit(scenario: &Scenario, visit: &Visit, seen: &Seen) {
    let finish = seen.finish.as_ref().expect("every request ends");
    let config = &scenario.config;
    let total = visit.request.prompt_ids.len() + visit.request.max_tokens as usize;
    let fits = total <= config.max_context && total <= config.num_pages * PAGE_SIZE + 1;
    assert_eq!(finish.kind == FinishKind::Refused, !fits, "{finish:?}");
    if !fits {
        assert!(finish.message.is_some() && seen.tokens.is_empty());
        return;
    }
    let (expected, kind) = visit.expected();
    let resumed = visit.num_resumed.min(expected.len());
    let rest = &expected[resumed..];
    match finish.kind {
        FinishKind::Cancelled => {
            assert!(visit.cancelled_at_step.is_some() && rest.starts_with(&seen.tokens));
        }
        FinishKind::Deadline => {
            assert!(visit.request.deadline_s.is_some() && rest.starts_with(&seen.tokens));
        }
        other => assert_eq!((&seen.tokens[..], other), (rest, kind)),
    }
    check_counts(visit, seen, finish, &expected[..resumed]);
    check_logprobs(visit, seen, &expected[..resumed]);
}

/// Checks the reported log-probabilities, and that their bits are those of decoding alone.
fn check_logprobs(visit: &Visit, seen: &Seen, resumed: &[u32]) {
    let request = &visit.request;
    let whole = [&request.prompt_ids[..], resumed, &seen.tokens].concat();
    let first = whole.len() - seen.tokens.len();
    match request.logprobs {
        None => assert!(seen.logprobs.is_empty()),
        Some(num_top) => {
            assert_eq!(seen.logprobs.len(), seen.tokens.len());
            for (index, told) in (first..).zip(&seen.logprobs) {
                check_told(&whole, index, num_top, told);
            }
        }
    }
    let prompt = request
        .prompt_logprobs
        .filter(|_| !seen.tokens.is_empty() && visit.num_resumed == 0);
    assert_eq!(seen.prompt_logprobs.is_some(), prompt.is_some());
    if let (Some(num_top), Some(told)) = (prompt, &seen.prompt_logprobs) {
        assert_eq!((told.len(), &told[0]), (request.prompt_ids.len(), &None));
        for (index, told) in told.iter().enumerate().skip(1) {
            check_told(&whole, index, num_top, told.as_ref().unwrap());
        }
    }
    if request.logprobs.is_none() && request.prompt_logprobs.is_none() {
        return;
    }
    let alone = alone(visit);
    assert!(alone.logprobs.starts_with(&seen.logprobs));
    if seen.prompt_logprobs.is_some() {
        assert_eq!(alone.prompt_logprobs, seen.prompt_logprobs);
    }
}

fn check_told(tokens: &[u32], index: usize, num_top: u32, told: &TokenLogprobs) {
    let (own, top) = reference::logprobs(&tokens[..index], tokens[index], num_top as usize);
    assert_eq!((told.token, told.top.len()), (tokens[index], top.len()));
    assert!((f64::from(told.logprob) - own).abs() < 1e-5);
    for (told, expected) in told.top.iter().zip(top) {
        assert_eq!(told.0, expected.0);
        assert!((f64::from(told.1) - expected.1).abs() < 1e-5);
    }
}

/// The output of a visit's request in an engine of its own, without drafts.
fn alone(visit: &Visit) -> Seen {
    let mut visit = visit.clone();
    visit.arrives_at_step = 0;
    visit.cancelled_at_step = None;
    visit.request.deadline_s = None;
    let handle = visit.request.handle;
    let scenario = Scenario {
        config: EngineConfig {
            speculation: SpeculationMode::Off,
            page_size: PAGE_SIZE,
            eos_token_ids: vec![0],
            ..EngineConfig::new(VOCABULARY, MAX_CONTEXT, MAX_CONTEXT, 1)
        },
        costs: None,
        visits: vec![visit],
    };
    run(&scenario).remove(&handle).unwrap()
}

fn check_counts(visit: &Visit, seen: &Seen, finish: &Finish, resumed: &[u32]) {
    let stats = &finish.stats;
    let emitted = seen.tokens.len() as u32;
    assert_eq!(
        stats.verify_steps + stats.accepted_tokens,
        emitted.saturating_sub(1)
    );
    assert_eq!(
        stats.accepted_by_source.iter().sum::<u32>(),
        stats.accepted_tokens
    );
    assert!(stats.accepted_tokens <= stats.drafted_tokens);
    assert!(stats.cached_tokens as usize <= visit.request.prompt_ids.len());
    let credited = seen.sources.iter().filter(|&&source| source != 1).count() as u32;
    if !matches!(finish.kind, FinishKind::Cancelled | FinishKind::Deadline) {
        assert_eq!(credited, stats.accepted_tokens);
        let mut drafter = Drafter::new(DraftConfig::default(), None);
        drafter.set_prediction(&visit.request.prediction_ids);
        drafter.push_prompt(&visit.request.prompt_ids);
        drafter.push_output(resumed);
        drafter.push_output(&seen.tokens);
        if emitted > 0 {
            assert_eq!(
                stats.accepted_prediction_tokens,
                drafter.accepted_prediction_tokens()
            );
        }
    }
}
