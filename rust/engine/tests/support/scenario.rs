//! Random traffic.

use proptest::prelude::*;
use spectrie_engine::{EngineConfig, Request};
use spectrie_types::{FinishKind, Recycle, SpeculationMode};

use super::expression::{Expression, expression};
use super::model::{PAGE_SIZE, VOCABULARY};
use super::options::{apply_bad_words, bad_words, num_logprobs, sampling, tokens};
use super::reference;

/// Longest prompt plus answer.
pub(crate) const MAX_CONTEXT: usize = 90;
/// What one step takes on the clock of the steps.
pub(crate) const STEP_S: f64 = 0.01;

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
    pub(super) fn expected(&self) -> (Vec<u32>, FinishKind) {
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
