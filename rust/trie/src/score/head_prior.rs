//! What is believed of a drafter of the runner's before anything was learned: the weights of its answers, and
//! what they add.

use std::sync::LazyLock;

use crate::TrieError;
use crate::score::head_cell::Cell;
use crate::score::head_inputs::{HEAD_SETS, HeadInputs, NUM_INPUTS};
use crate::sources::head_place::{Came, NUM_KINDS, NUM_LEVELS, NUM_PRICES, Place, Places};

/// What `python -m bench.draft.tuning.fit --head` fitted to recorded answers, on text that no bench reports.
const SHIPPED: &[u8] = include_bytes!("head_prior.bin");

/// The share of what others leave that is added, by level, by what others expect and by the price of a row.
pub(crate) type Shares = Places<f32>;

const NUM_NUMBERS: usize = HEAD_SETS * NUM_INPUTS + NUM_LEVELS * NUM_KINDS * NUM_PRICES;

/// What a drafter adds where little was counted, and how much that weighs in a fit.
const USUAL_SHARE: f32 = 0.35;
const USUAL_WEIGHT: f32 = 20.0;

/// The least that is believed of a place, so that a better drafter can be better there.
const LEAST_SHARE: f32 = 0.03;

/// Weights of a drafter's answers, and the share of what others leave that they add.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct HeadPrior {
    pub(crate) sets: [HeadInputs; HEAD_SETS],
    pub(crate) shares: Shares,
}

impl HeadPrior {
    /// Length of [`HeadPrior::to_bytes`].
    pub const BYTES: usize = NUM_NUMBERS * size_of::<f32>();

    /// What ships.
    pub fn shipped() -> &'static Self {
        static PRIOR: LazyLock<HeadPrior> = LazyLock::new(|| HeadPrior::read(SHIPPED));
        &PRIOR
    }

    /// Reads what [`HeadPrior::to_bytes`] wrote.
    ///
    /// # Errors
    ///
    /// [`TrieError::HeadPrior`] if the length is not [`HeadPrior::BYTES`] or a number is not finite.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, TrieError> {
        let prior = Self::read(bytes);
        let is_finite = prior.numbers().all(f32::is_finite);
        if bytes.len() != Self::BYTES || !is_finite {
            return Err(TrieError::HeadPrior {
                given: bytes.len(),
                expected: Self::BYTES,
            });
        }
        Ok(prior)
    }

    /// Returns every number as a little-endian 32-bit float: weights by set, then shares by level.
    pub fn to_bytes(&self) -> Vec<u8> {
        self.numbers().flat_map(f32::to_le_bytes).collect()
    }

    fn read(bytes: &[u8]) -> Self {
        let mut prior = Self::default();
        let (words, _) = bytes.as_chunks();
        let sets = prior.sets.iter_mut().flatten();
        let shares = prior.shares.iter_mut().flatten().flatten();
        for (number, word) in sets.chain(shares).zip(words) {
            *number = f32::from_le_bytes(*word);
        }
        prior
    }

    fn numbers(&self) -> impl Iterator<Item = f32> {
        let sets = self.sets.iter().flatten();
        let shares = self.shares.iter().flatten().flatten();
        sets.chain(shares).copied()
    }
}

/// All that was counted of what a drafter added, from which its prior is fitted.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct HeadCounts {
    cells: Places<Cell>,
}

impl HeadCounts {
    /// Notes what children drafted with an answer came to at a node that was reached.
    pub(crate) fn note(&mut self, place: Place, came: Came) {
        let cell = place.of_mut(&mut self.cells);
        cell.added += came.surplus(place.price()) - place.surplus();
        cell.left += place.left();
    }

    /// Adds what others counted.
    pub fn add(&mut self, other: &Self) {
        let cells = self.cells.iter_mut().flatten().flatten();
        for (cell, other) in cells.zip(other.cells.iter().flatten().flatten()) {
            cell.added += other.added;
            cell.left += other.left;
        }
    }

    /// The share of what others left that was added, by level, by what others expected and by the price of a row.
    pub(crate) fn shares(&self) -> Shares {
        let share = |cell: Cell| {
            cell.ratio(USUAL_SHARE, USUAL_WEIGHT)
                .clamp(LEAST_SHARE, 1.0)
        };
        self.cells
            .map(|kinds| kinds.map(|prices| prices.map(share)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_ships_is_whole_and_others_are_refused() {
        let shipped = HeadPrior::shipped();
        assert_eq!(shipped.to_bytes(), SHIPPED);
        assert_eq!(HeadPrior::from_bytes(SHIPPED).as_ref(), Ok(shipped));
        let message = HeadPrior::from_bytes(&SHIPPED[4..])
            .unwrap_err()
            .to_string();
        assert!(message.contains("allowed: 1264 bytes"), "{message}");
        let mut broken = shipped.clone();
        broken.shares[0][0][0] = f32::NAN;
        assert!(HeadPrior::from_bytes(&broken.to_bytes()).is_err());
    }

    #[test]
    fn every_share_is_one() {
        let shares = HeadPrior::shipped().shares;
        assert!(
            shares
                .iter()
                .flatten()
                .flatten()
                .all(|share| (0.0..=1.0).contains(share))
        );
    }

    #[test]
    fn counts_of_several_requests_give_the_share_that_was_added() {
        let place = |level, before| Place::new(level, before, 0.0, before);
        let (first, second) = (place(1, 0.0), place(2, 0.5));
        let mut counts = HeadCounts::default();
        let shares = counts.shares();
        let mut all = shares.iter().flatten().flatten();
        assert!(all.all(|&share| share == USUAL_SHARE));
        let mut one = HeadCounts::default();
        for index in 0..500 {
            let came = |is_hit| Came {
                is_hit,
                ..Came::default()
            };
            one.note(first, came(index % 5 == 0));
            one.note(second, came(true));
        }
        counts.add(&one);
        counts.add(&one);
        let shares = counts.shares();
        assert!((shares[0][0][0] - 0.2).abs() < 0.01, "{shares:?}");
        let (second, other) = (shares[1][1][0], shares[3][2][0]);
        assert!(second > 0.95 && other == USUAL_SHARE, "{shares:?}");
    }
}
