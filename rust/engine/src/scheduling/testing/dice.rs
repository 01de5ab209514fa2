//! Engines and requests by chance.

use spectrie_types::seed::splitmix;
use spectrie_types::{Recycle, SpeculationMode};

use crate::config::EngineConfig;
use crate::request::Request;

/// Tokens of the model.
pub(super) const VOCABULARY: usize = 40;
pub(super) const PAGE_SIZE: usize = 4;
const MAX_CONTEXT: usize = 90;
/// What one step takes on the clock of the traffic.
pub(super) const STEP_S: f64 = 0.01;

/// Numbers that look random, the same on every machine.
pub(super) struct Dice(pub(super) u64);

impl Dice {
    pub(super) fn below(&mut self, end: usize) -> usize {
        self.0 = self.0.wrapping_add(1);
        (splitmix(self.0) >> 16) as usize % end
    }

    /// True once in `times`.
    pub(super) fn once_in(&mut self, times: usize) -> bool {
        self.below(times) == 0
    }

    /// An engine in which any one request fits.
    pub(super) fn config(&mut self) -> EngineConfig {
        let dice = self;
        let max_running = 1 + dice.below(8);
        let modes = [
            SpeculationMode::Off,
            SpeculationMode::Auto,
            SpeculationMode::Prob,
        ];
        EngineConfig {
            eos_token_ids: vec![0],
            page_size: PAGE_SIZE,
            chunk_tokens: 1 + dice.below(40),
            max_batch_rows: max_running + dice.below(60),
            max_step_ms: [200.0, 20.0][dice.below(2)],
            age_s: [0.05, 0.5][dice.below(2)],
            lookahead_tokens: [0, 4, 30][dice.below(3)],
            speculation: modes[dice.below(3)],
            max_draft_tokens: dice.below(12),
            recycle: Recycle::Decode,
            memory_bytes: 4 << 20,
            ..EngineConfig::new(VOCABULARY, 18 + dice.below(40), MAX_CONTEXT, max_running)
        }
    }

    /// A request that comes in step `step`.
    pub(super) fn request(&mut self, step: usize) -> Request {
        let dice = self;
        let (text, length) = (dice.below(5), dice.below(34));
        let beginning = (0..length).map(|index| (7 * index + text) as u32 % 30 + 1);
        let num_own = 1 + dice.below(6);
        let prompt: Vec<u32> = beginning
            .chain((0..num_own).map(|_| 1 + dice.below(VOCABULARY - 1) as u32))
            .collect();
        let mut request = Request::new(0, prompt, 1 + dice.below(30) as u32);
        request.namespace = ["a", "a", "b"][dice.below(3)].into();
        request.tenant = [None, Some("x".into()), Some("y".into())][dice.below(3)].clone();
        request.priority = [0, 0, 0, -1, 1, 3, 1000][dice.below(7)];
        request.learn = !dice.once_in(8);
        request.ignore_eos = dice.once_in(2);
        request.sampling.temperature = [0.0, 0.8][dice.below(2)];
        if dice.once_in(10) {
            request.deadline_s = Some(step as f64 * STEP_S + dice.below(100) as f64 * STEP_S);
        }
        if dice.once_in(15) {
            request.prompt_logprobs = Some(1);
        }
        request
    }
}
