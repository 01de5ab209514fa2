//! The drafters that the runner calls, by their numbers.

use spectrie_types::sizes::MAX_DRAFTERS;

use super::heads::Heads;
use super::info::DrafterInfo;
use crate::error::EngineError;
use crate::output::Load;

/// Owns what is known of each, in the order in which they were added.
#[derive(Debug, Default)]
pub(in crate::speculation) struct Drafters {
    all: Vec<Heads>,
    /// The one that had the last chance to be tried.
    last_tried: usize,
}

impl Drafters {
    /// Adds one; gives its number.
    ///
    /// # Errors
    /// [`EngineError::Config`] with a value that is out of range.
    pub(in crate::speculation) fn add(&mut self, info: DrafterInfo) -> Result<usize, EngineError> {
        let number = self.all.len();
        if number == MAX_DRAFTERS {
            return Err(EngineError::Config {
                name: "drafters",
                given: (number + 1).to_string(),
                allowed: format!("up to {MAX_DRAFTERS}"),
            });
        }
        self.all.push(Heads::new(info, number)?);
        Ok(number)
    }

    /// Whether there is one that may be asked.
    pub(in crate::speculation) fn has_any(&self) -> bool {
        self.all.iter().any(|heads| !heads.is_given_up())
    }

    /// How many were added.
    pub(in crate::speculation) fn num(&self) -> usize {
        self.all.len()
    }

    /// Whether one was asked for its answers' sake in the step before.
    pub(in crate::speculation) fn was_bought(&self, number: usize) -> bool {
        self.all.get(number).is_some_and(Heads::was_bought)
    }

    /// Asks one no more.
    pub(in crate::speculation) fn give_up(&mut self, number: usize) {
        if let Some(heads) = self.all.get_mut(number) {
            heads.give_up();
        }
    }

    /// Those that may be asked.
    pub(in crate::speculation) fn numbers(&self) -> Vec<usize> {
        self.numbers_of(|_| true)
    }

    /// Those that may be asked and read the model's features, or make keys of their own.
    pub(in crate::speculation) fn reading(&self, features: bool) -> Vec<usize> {
        self.numbers_of(|heads| heads.needs_features() == features)
    }

    fn numbers_of(&self, is_one: impl Fn(&Heads) -> bool) -> Vec<usize> {
        let all = self.all.iter().enumerate();
        let some = all.filter(|(_, heads)| !heads.is_given_up() && is_one(heads));
        some.map(|(number, _)| number).collect()
    }

    /// Those that may be asked, each first in its turn.
    pub(in crate::speculation) fn in_turn(&self) -> Vec<usize> {
        let numbers = self.numbers().into_iter();
        let (before, mut after): (Vec<_>, Vec<_>) =
            numbers.partition(|&number| number <= self.last_tried);
        after.extend(before);
        after
    }

    /// Notes that one has the chance to be tried in this step.
    pub(in crate::speculation) fn note_tried(&mut self, number: usize) {
        self.last_tried = number;
    }

    /// The one that had the last chance to be tried.
    pub(in crate::speculation) fn tried_mut(&mut self) -> Option<&mut Heads> {
        self.all.get_mut(self.last_tried)
    }

    pub(in crate::speculation) fn get(&self, number: usize) -> Option<&Heads> {
        self.all.get(number)
    }

    pub(in crate::speculation) fn get_mut(&mut self, number: usize) -> Option<&mut Heads> {
        self.all.get_mut(number)
    }

    /// The one that was added last.
    pub(in crate::speculation) fn last_mut(&mut self) -> Option<&mut Heads> {
        self.all.last_mut()
    }

    /// The first one that may be asked for requests of a namespace.
    pub(in crate::speculation) fn first_for(&self, namespace: &str) -> Option<usize> {
        self.all.iter().position(|heads| heads.is_for(namespace))
    }

    /// Takes a step; see [`Heads::end_step`].
    pub(in crate::speculation) fn end_step(
        &mut self,
        is_offered: bool,
        num_requests: usize,
        num_tokens: u64,
        milliseconds: f64,
    ) {
        for heads in self.all.iter_mut().filter(|heads| !heads.is_given_up()) {
            heads.end_step(is_offered, num_requests, num_tokens, milliseconds);
        }
    }

    /// Writes their figures into `load`.
    pub(in crate::speculation) fn report(&self, load: &mut Load) {
        for (heads, place) in self.all.iter().zip(&mut load.drafters) {
            let one = heads.report();
            load.head_levels += one.levels;
            load.head_rows += one.rows;
            *place = Some(one);
        }
        load.head_gain = load.drafters[0].and_then(|first| first.gain);
    }
}
