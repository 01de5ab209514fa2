//! Requests that nothing predicts beside predictable ones of the same namespace.

use std::sync::Arc;

use spectrie_engine::{Clock, CostShape, Engine, EngineConfig, Request, StepResults, Verdicts};

const VOCABULARY: u32 = 512;
const PROMPT_TOKENS: u64 = 24;
const ANSWER_TOKENS: u32 = 64;
const REQUESTS: usize = 64;
const FORWARD_MS: f64 = 10.0;

/// What follows a token at a position.
type Next = fn(u32, u32) -> u32;

/// Every eight tokens the answer repeats.
fn predictable(last: u32, _position: u32) -> u32 {
    last / 8 * 8 + (last % 8 + 1) % 8
}

/// Follows from the token and its position, so no text before says it.
fn unpredictable(last: u32, position: u32) -> u32 {
    let place = u64::from(position) * u64::from(position) * 2_654_435_761 % 9_973;
    ((u64::from(last) * 131 + place) % u64::from(VOCABULARY - 1)) as u32 + 1
}

/// One of the tokens above 0, by chance.
fn noise(seed: u64) -> u32 {
    let mixed = (seed + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    let mixed = (mixed ^ mixed >> 29).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    ((mixed >> 32) % u64::from(VOCABULARY - 1)) as u32 + 1
}

/// Time does not pass, so that what is asked depends on what it earns alone.
#[derive(Debug)]
struct Still;

impl Clock for Still {
    fn now_s(&self) -> f64 {
        0.0
    }
}

struct Traffic {
    engine: Engine,
    handle: u64,
}

#[cfg(test)]
impl Traffic {
    fn new(max_running: usize) -> Self {
        let config = EngineConfig {
            holdout_every: 0,
            max_running,
            ..EngineConfig::new(VOCABULARY as usize, 20_000, 4096, 512)
        };
        let engine = Engine::with_clock(config, Arc::new(Still)).expect("an engine");
        let costs = ([1, 512], [FORWARD_MS, FORWARD_MS + 0.1]);
        engine
            .set_costs(&costs.0, &costs.1, CostShape::default())
            .expect("costs");
        Self { engine, handle: 0 }
    }

    /// Runs requests to their end, and gives their accepted tokens per step and request.
    fn accepted_per_step(&mut self, next: Next) -> f64 {
        let before = self.engine.load();
        for _ in 0..REQUESTS {
            let prompt = (0..PROMPT_TOKENS)
                .map(|at| noise(self.handle << 32 | at))
                .collect();
            let mut request = Request::new(self.handle, prompt, ANSWER_TOKENS);
            request.sampling.temperature = 0.0;
            request.ignore_eos = true;
            self.engine.submit(request).expect("room");
            self.handle += 1;
        }
        while let Some(plan) = self.engine.plan(0.0).expect("a plan") {
            let verdicts: Vec<i32> = plan
                .sample_rows
                .iter()
                .map(|&row| {
                    let (token, position) = (&plan.row_token, &plan.row_position);
                    next(token[row as usize] as u32, position[row as usize] as u32) as i32
                })
                .collect();
            let results = StepResults {
                verdicts: Verdicts::Tokens(&verdicts),
                top: None,
            };
            self.engine
                .commit(plan.plan_id, &results, FORWARD_MS, 0.0)
                .expect("outputs");
        }
        let after = self.engine.load();
        let accepted = after.accepted_tokens - before.accepted_tokens;
        let tokens = after.generated_tokens - before.generated_tokens;
        accepted as f64 / (tokens - accepted) as f64
    }
}

#[test]
fn predictable_requests_keep_their_gain_after_unpredictable_ones() {
    for max_running in [1, 4] {
        let fresh = Traffic::new(max_running).accepted_per_step(predictable);
        assert!(fresh > 4.0, "{fresh} accepted a step");
        for rounds in [1, 2] {
            let mut traffic = Traffic::new(max_running);
            for _ in 0..rounds {
                let lost = traffic.accepted_per_step(unpredictable);
                assert!(lost < 0.5, "{lost} accepted of what nothing predicts");
            }
            let after = traffic.accepted_per_step(predictable);
            assert!(
                after > 0.8 * fresh,
                "{max_running} at once, {rounds} rounds: {after} of {fresh} accepted a step"
            );
        }
    }
}
