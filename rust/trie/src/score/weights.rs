//! The weights of the scores: the shipped ones and those that a namespace learns.

use std::sync::{Arc, LazyLock, Mutex, PoisonError};

use crate::TrieError;
use crate::score::head_gains::HeadGains;
use crate::score::head_inputs::{HEAD_SETS, HeadInputs, HeadSets};
use crate::score::head_prior::{HeadCounts, HeadPrior};
use crate::score::inputs::{Features, NUM_FEATURES, NUM_SETS};
use spectrie_types::sizes::MAX_DRAFTERS;

/// Weights fitted by replaying text that no bench reports: `python -m bench.draft.tuning.fit`.
const PRIOR: &[u8] = include_bytes!("prior.bin");

/// Share of what one request learned that its namespace takes over when the request ends.
const ADOPTED: f32 = 0.25;

/// Those of one drafter's answers, copied by who changes them: most requests and namespaces have no drafter.
pub(crate) type HeadTable = Arc<[HeadInputs; HEAD_SETS]>;

static SHIPPED_HEAD: LazyLock<HeadTable> = LazyLock::new(|| Arc::new(HeadPrior::shipped().sets));
static NO_HEAD: LazyLock<HeadTable> = LazyLock::new(HeadTable::default);

/// Trainable numbers that turn evidence into probability.
#[derive(Clone, Debug, PartialEq)]
pub struct Weights {
    sets: Box<[Features; NUM_SETS]>,
    /// Those of the layer above, where a drafter of the runner's answered, of each; of a file of their own.
    head: [HeadTable; MAX_DRAFTERS],
}

impl Default for Weights {
    /// Returns the shipped weights.
    fn default() -> Self {
        let mut weights = Self::zero();
        weights.fill(PRIOR);
        weights.head = [(); MAX_DRAFTERS].map(|()| Arc::clone(&SHIPPED_HEAD));
        weights
    }
}

impl Weights {
    /// Length of [`Weights::to_bytes`].
    pub const BYTES: usize = NUM_SETS * NUM_FEATURES * size_of::<f32>();

    /// Reads weights written by [`Weights::to_bytes`].
    ///
    /// # Errors
    ///
    /// [`TrieError::Weights`] if the length is not [`Weights::BYTES`] or a number is not finite.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, TrieError> {
        let mut weights = Self::default();
        weights.fill(bytes);
        let finite = weights
            .sets
            .iter()
            .flatten()
            .all(|weight| weight.is_finite());
        if bytes.len() != Self::BYTES || !finite {
            return Err(TrieError::Weights {
                given: bytes.len(),
                expected: Self::BYTES,
            });
        }
        Ok(weights)
    }

    /// Returns every weight as a little-endian 32-bit float.
    pub fn to_bytes(&self) -> Vec<u8> {
        let weights = self.sets.iter().flatten();
        weights.flat_map(|weight| weight.to_le_bytes()).collect()
    }

    fn fill(&mut self, bytes: &[u8]) {
        let (words, _) = bytes.as_chunks();
        for (weight, word) in self.sets.iter_mut().flatten().zip(words) {
            *weight = f32::from_le_bytes(*word);
        }
    }

    pub(crate) fn set(&self, index: usize) -> &Features {
        &self.sets[index]
    }

    pub(crate) fn set_mut(&mut self, index: usize) -> &mut Features {
        &mut self.sets[index]
    }

    /// Replaces the weights of the first drafter's answers.
    pub fn set_head(&mut self, prior: &HeadPrior) {
        self.head[0] = Arc::new(prior.sets);
    }

    /// Takes over the weights of drafters' answers from others.
    pub fn take_head(&mut self, other: &Self) {
        self.head.clone_from(&other.head);
    }

    /// The weights of the first drafter's answers, and what was counted that these added.
    pub fn head_prior(&self, counts: &HeadCounts) -> HeadPrior {
        HeadPrior {
            sets: *self.head[0],
            shares: counts.shares(),
        }
    }

    /// The weights of a drafter's answers that count in these sets, added up.
    pub(crate) fn head(&self, drafter: usize, sets: HeadSets) -> HeadInputs {
        let of = &self.head[drafter];
        let all = sets.all();
        std::array::from_fn(|index| all.iter().map(|&set| of[set][index]).sum())
    }

    /// Adds `step` times `inputs` to each of these sets.
    pub(crate) fn move_head(
        &mut self,
        drafter: usize,
        sets: &[usize],
        inputs: &HeadInputs,
        step: f32,
    ) {
        let of = Arc::make_mut(&mut self.head[drafter]);
        for &set in sets {
            for (weight, input) in of[set].iter_mut().zip(inputs) {
                *weight += step * input;
            }
        }
    }

    /// Those of a drafter's answers alone.
    pub(crate) fn head_table(&self, drafter: usize) -> &HeadTable {
        &self.head[drafter]
    }

    /// Adds a share of `change` to the weights of a drafter's answers alone.
    pub(crate) fn add_head(&mut self, drafter: usize, change: &HeadTable, share: f32) {
        if Arc::ptr_eq(change, &NO_HEAD) {
            return;
        }
        let weights = Arc::make_mut(&mut self.head[drafter]);
        for (weight, change) in weights.iter_mut().flatten().zip(change.iter().flatten()) {
            *weight += share * change;
        }
    }

    /// Returns weights that are all zero, from which the shipped ones were fitted.
    pub fn zero() -> Self {
        Self {
            sets: Box::new([[0.0; NUM_FEATURES]; NUM_SETS]),
            head: [(); MAX_DRAFTERS].map(|()| Arc::clone(&NO_HEAD)),
        }
    }

    /// Adds a share of `change`.
    pub(crate) fn add(&mut self, change: &Self, share: f32) {
        self.add_sets(change, share);
        for (drafter, change) in change.head.iter().enumerate() {
            self.add_head(drafter, change, share);
        }
    }

    /// Adds what `now` is above `before`.
    pub(crate) fn add_difference(&mut self, now: &Self, before: &Self) {
        self.add_sets(now, 1.0);
        self.add_sets(before, -1.0);
        for (drafter, (now, before)) in now.head.iter().zip(&before.head).enumerate() {
            if !Arc::ptr_eq(now, before) {
                self.add_head(drafter, now, 1.0);
                self.add_head(drafter, before, -1.0);
            }
        }
    }

    fn add_sets(&mut self, change: &Self, share: f32) {
        let pairs = self.sets.iter_mut().zip(change.sets.iter());
        for (set, change) in pairs {
            for (weight, change) in set.iter_mut().zip(change) {
                *weight += share * change;
            }
        }
    }
}

/// Weights learned from the requests of one namespace: one set while a request goes astray, one
/// else. So what nothing predicts does not lower what is promised to what is predictable.
#[derive(Debug, Default)]
pub(crate) struct LearnedWeights {
    sets: Mutex<[Option<Weights>; 2]>,
    /// Of each drafter.
    gains: Mutex<[HeadGains; MAX_DRAFTERS]>,
}

impl LearnedWeights {
    /// What a request goes on with that goes astray, or does not.
    pub(crate) fn get(&self, is_astray: bool) -> Weights {
        let learned = self.sets.lock().unwrap_or_else(PoisonError::into_inner);
        learned[usize::from(is_astray)].clone().unwrap_or_default()
    }

    /// Takes over a share of what a request changed.
    pub(crate) fn adopt(&self, is_astray: bool, change: &Weights) {
        let mut learned = self.sets.lock().unwrap_or_else(PoisonError::into_inner);
        let weights = learned[usize::from(is_astray)].get_or_insert_default();
        weights.add(change, ADOPTED);
    }

    /// What drafters of the runner's add to requests like these.
    pub(crate) fn gains(&self) -> [HeadGains; MAX_DRAFTERS] {
        let gains = self.gains.lock().unwrap_or_else(PoisonError::into_inner);
        gains.each_ref().map(HeadGains::inherited)
    }

    /// Takes over what the last request found that a drafter adds.
    pub(crate) fn leave_gains(&self, drafter: usize, gains: &HeadGains) {
        self.gains.lock().unwrap_or_else(PoisonError::into_inner)[drafter] = *gains;
    }

    /// Goes back to the weights that ship.
    pub(crate) fn forget(&self) {
        *self.sets.lock().unwrap_or_else(PoisonError::into_inner) = <_>::default();
        *self.gains.lock().unwrap_or_else(PoisonError::into_inner) = <_>::default();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn weights_survive_as_bytes_and_others_are_refused() {
        let mut weights = Weights::default();
        weights.set_mut(1)[2] = 0.25;
        assert_eq!(
            Weights::from_bytes(&weights.to_bytes()),
            Ok(weights.clone())
        );
        assert!(Weights::from_bytes(&weights.to_bytes()[4..]).is_err());
        weights.set_mut(0)[0] = f32::NAN;
        assert!(Weights::from_bytes(&weights.to_bytes()).is_err());
    }

    #[test]
    fn weights_of_answers_are_copied_by_who_changes_them_and_no_one_else() {
        let shipped = Weights::default();
        let (mut other, mut change) = (Weights::default(), Weights::zero());
        let is_copied = |weights: &Weights| {
            let pairs = weights.head.iter().zip(&shipped.head);
            pairs
                .map(|(one, other)| !Arc::ptr_eq(one, other))
                .collect::<Vec<_>>()
        };
        other.set_mut(0)[0] += 1.0;
        change.add_difference(&other, &shipped);
        other.add(&change, 1.0);
        assert_eq!(is_copied(&other), [false; MAX_DRAFTERS]);
        assert!((other.set(0)[0] - shipped.set(0)[0] - 2.0).abs() < 1e-6);

        let mut inputs = HeadInputs::default();
        inputs[0] = 1.0;
        other.move_head(1, &[0], &inputs, 0.5);
        change.add_difference(&other, &shipped);
        let mut third = Weights::default();
        third.add(&change, 1.0);
        for weights in [&other, &third] {
            assert_eq!(is_copied(weights), [false, true, false, false]);
            assert!((weights.head[1][0][0] - shipped.head[1][0][0] - 0.5).abs() < 1e-6);
        }
    }

    #[test]
    fn shipped_weights_fill_every_set() {
        assert_eq!(PRIOR.len(), Weights::BYTES);
        assert!(Weights::from_bytes(PRIOR).is_ok());
    }

    #[test]
    fn a_namespace_takes_over_a_share_and_forgets_it() {
        let learned = LearnedWeights::default();
        let start = learned.get(false);
        let mut change = Weights::zero();
        change.set_mut(0)[0] = 1.0;
        learned.adopt(true, &change);
        assert_eq!(learned.get(false), start);
        let moved = learned.get(true).set(0)[0] - start.set(0)[0];
        assert!((moved - ADOPTED).abs() < 1e-6);
        learned.forget();
        assert_eq!(learned.get(true), start);
    }
}
