//! What is believed of a drafter of the runner's before anything was learned: the weights of its answers, and
//! what they add.

use std::sync::LazyLock;

use crate::TrieError;
use crate::score::head_inputs::{HEAD_SETS, HeadInputs, NUM_INPUTS};

/// Set by hand. `python -m bench.draft.tuning.fit --head` fits one to recorded answers, on text that no bench reports;
/// what it gave accepts 3 % more of those to choose by, but a drafter that was wrong for long does not wake with it:
/// where it is right again, its tokens are not drafted, so nothing is learned of them.
const SHIPPED: &[u8] = include_bytes!("head_prior.bin");

/// Levels that are told apart, and kinds of nodes by what others expect there.
pub(crate) const NUM_LEVELS: usize = 4;
pub(crate) const NUM_KINDS: usize = 3;

/// The share of what others leave that is added, by level and by what others expect.
pub(crate) type Shares = [[f32; NUM_KINDS]; NUM_LEVELS];

const NUM_NUMBERS: usize = HEAD_SETS * NUM_INPUTS + NUM_LEVELS * NUM_KINDS;

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
        for (number, word) in sets.chain(prior.shares.iter_mut().flatten()).zip(words) {
            *number = f32::from_le_bytes(*word);
        }
        prior
    }

    fn numbers(&self) -> impl Iterator<Item = f32> {
        let sets = self.sets.iter().flatten();
        sets.chain(self.shares.iter().flatten()).copied()
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
        assert!(message.contains("allowed: 208 bytes"), "{message}");
        let mut broken = shipped.clone();
        broken.shares[0][0] = f32::NAN;
        assert!(HeadPrior::from_bytes(&broken.to_bytes()).is_err());
    }

    #[test]
    fn every_share_is_one() {
        let shares = HeadPrior::shipped().shares;
        assert!(
            shares
                .iter()
                .flatten()
                .all(|share| (0.0..=1.0).contains(share))
        );
    }
}
