//! Traffic run to its end, with every promise of the engine checked on the way.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use spectrie_engine::{
    Clock, CostShape, Engine, EngineConfig, Finish, Plan, Request, RequestOutput, StepResults,
    SystemClock, TopTokens, Verdicts,
};
use spectrie_sampling::TokenLogprobs;
use spectrie_trie::{DraftConfig, Drafter};
use spectrie_types::{FinishKind, SpeculationMode};

use super::device::drawn_by_device;
use super::model::{
    FakeModel, PAGE_SIZE, STRIDE, VOCABULARY, all_rows, wanted_logits, wanted_rows,
};
use super::reference;
use super::scenario::{MAX_CONTEXT, STEP_S, Scenario, Visit};

/// Far above what any scenario needs: reaching it is starvation.
pub(crate) const MAX_STEPS: usize = 20_000;

/// What one request gave.
#[derive(Debug, Default)]
pub(crate) struct Seen {
    pub(crate) tokens: Vec<u32>,
    pub(crate) sources: Vec<u8>,
    pub(crate) logprobs: Vec<TokenLogprobs>,
    pub(crate) prompt_logprobs: Option<Vec<Option<TokenLogprobs>>>,
    pub(crate) finish: Option<Finish>,
}

/// A clock that stands still: to the engine, requests of one step come at the same time.
#[derive(Debug)]
pub(crate) struct StillClock;

impl Clock for StillClock {
    fn now_s(&self) -> f64 {
        0.0
    }
}

/// Runs a scenario to its end.
pub(crate) fn run(scenario: &Scenario) -> HashMap<u64, Seen> {
    run_by(scenario, Arc::new(SystemClock::default()))
}

/// Runs a scenario to its end by another clock than the machine's.
pub(crate) fn run_by(scenario: &Scenario, clock: Arc<dyn Clock>) -> HashMap<u64, Seen> {
    run_asking(scenario, clock, |_, _, _| ())
}

/// As [`run_by`]; `ask` is called before each plan.
pub(crate) fn run_asking(
    scenario: &Scenario,
    clock: Arc<dyn Clock>,
    mut ask: impl FnMut(&Engine, &mut FakeModel, f64),
) -> HashMap<u64, Seen> {
    let engine = Engine::with_clock(scenario.config.clone(), clock).unwrap();
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
        ask(&engine, &mut model, now_s);
        let plan = engine.plan(now_s).unwrap();
        check_load(&engine, &scenario.config);
        take(&mut seen, engine.take_outputs().unwrap());
        if let Some(plan) = plan {
            check_limits(&plan, &scenario.config);
            let values = model.forward(&plan);
            let likeliest = plan.is_greedy.then(|| argmax_of_rows(&values));
            let drawn = plan
                .is_drawable()
                .then(|| drawn_by_device(&engine, &model, &plan, &values, &scenario.visits));
            let wanted = wanted_logits(&plan, &values);
            let verdicts = match (step % 4, likeliest.as_deref(), drawn.as_deref()) {
                (0 | 1, Some(tokens), _) => Verdicts::Tokens(tokens),
                (1 | 2, _, Some(tokens)) => Verdicts::Drawn {
                    tokens,
                    logits: wanted_rows(&wanted),
                },
                _ => all_rows(&plan, &values),
            };
            let (ids, probabilities) = model.top(&plan);
            let results = StepResults {
                verdicts,
                top: (step % 3 > 0).then_some(TopTokens {
                    ids: &ids,
                    probabilities: &probabilities,
                }),
                compacted: step % 5 < 3 && model.compact(&plan, &verdicts),
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

pub(crate) fn argmax_of_rows(values: &[f32]) -> Vec<i32> {
    let best = |row: &[f32]| {
        (0..VOCABULARY)
            .rev()
            .max_by(|&a, &b| row[a].total_cmp(&row[b]))
            .unwrap()
    };
    values.chunks(STRIDE).map(|row| best(row) as i32).collect()
}

pub(crate) fn take(seen: &mut HashMap<u64, Seen>, outputs: Vec<RequestOutput>) {
    let mut handles = HashSet::new();
    for output in outputs {
        assert!(handles.insert(output.handle), "a request appears twice");
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
pub(crate) fn begin(visit: &Visit) -> Request {
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
