//! A device that reads nothing but a packed step, and draws from each sampled row.

use spectrie_engine::{BANNED, DeviceShape, Engine, PackedStep, Plan, TileRows};
use spectrie_sampling::{Draw, History, NoToken, Sampler, SamplingParameters};
use spectrie_types::PackedSection;

use super::model::{STRIDE, VOCABULARY};

/// What an engine packed.
pub(crate) struct Packed {
    pub(crate) step: PackedStep,
    words: Vec<i32>,
}

impl Packed {
    /// Packs the open plan.
    pub(crate) fn new(engine: &Engine, plan: &Plan) -> Self {
        let shape = DeviceShape::new(2, 2, &[None, Some(100)], VOCABULARY).unwrap();
        let tiles = TileRows {
            part: 16,
            prompt: 16,
        };
        let mut words = vec![77; 1 << 16];
        let step = engine.pack(plan, &shape, tiles, &mut words).unwrap();
        words.truncate(step.num_words);
        Self { step, words }
    }

    pub(crate) fn section(&self, section: PackedSection) -> &[i32] {
        let (begin, len) = self.step.section(section);
        &self.words[begin..begin + len]
    }

    /// Entries of one owner in a list.
    fn listed(&self, starts: PackedSection, entries: PackedSection, owner: usize) -> &[i32] {
        let starts = self.section(starts);
        &self.section(entries)[starts[owner] as usize..starts[owner + 1] as usize]
    }

    /// The token drawn from each sampled row of logits.
    pub(crate) fn drawn(&self, values: &[f32]) -> Vec<i32> {
        assert!(self.step.is_drawn);
        let rows = 0..self.step.num_samples;
        let mut sampler = Sampler::default();
        rows.map(|row| self.draw(row, &values[row * STRIDE..][..VOCABULARY], &mut sampler))
            .collect()
    }

    fn draw(&self, row: usize, logits: &[f32], sampler: &mut Sampler) -> i32 {
        use PackedSection as P;
        let word = |section| self.section(section)[row];
        let float = |section| f32::from_bits(word(section) as u32);
        let request = word(P::Request) as usize;
        let tokens = self.listed(P::BiasStart, P::BiasToken, request);
        let values = self.listed(P::BiasStart, P::BiasValue, request);
        let biases = tokens.iter().zip(values);
        let biases = biases.map(|(&token, &value)| (token as u32, f32::from_bits(value as u32)));
        let parameters = SamplingParameters {
            temperature: float(P::Temperature),
            top_p: float(P::TopP),
            top_k: word(P::TopK) as u32,
            min_p: float(P::MinP),
            typical_p: float(P::TypicalP),
            frequency_penalty: float(P::Frequency),
            presence_penalty: float(P::Presence),
            repetition_penalty: float(P::Repetition),
            logit_bias: biases.collect(),
        };
        let seen = self.listed(P::SeenStart, P::SeenToken, request);
        let counts = self.listed(P::SeenStart, P::SeenCount, request);
        let mut history = History::new(&unsigned(seen));
        for (&token, &count) in seen.iter().zip(counts) {
            (0..count).for_each(|_| history.push(token as u32));
        }
        for token in unsigned(self.listed(P::PathStart, P::PathToken, row)) {
            history.push(token);
        }
        let num_words = VOCABULARY.div_ceil(32);
        let masks = unsigned(self.section(P::Allowed));
        let allowed = usize::try_from(word(P::AllowedRow)).ok();
        let allowed = allowed.map(|mask| &masks[mask * num_words..][..num_words]);
        let [low, high] = [0, 1].map(|half| self.section(P::Seed)[2 * row + half] as u32);
        let drawn = sampler.draw(
            logits,
            &Draw {
                parameters: &parameters,
                history: Some(&history),
                masked: &unsigned(self.listed(P::MaskedStart, P::MaskedToken, row)),
                allowed,
                choice_seed: u64::from(high) << 32 | u64::from(low),
                position: word(P::Position) as u32,
            },
        );
        match drawn {
            Ok(token) => token as i32,
            Err(NoToken::Banned) => BANNED,
            Err(NoToken::Model) => -1,
        }
    }
}

fn unsigned(words: &[i32]) -> Vec<u32> {
    words.iter().map(|&word| word as u32).collect()
}
