//! What a drafter of the runner's answered along the output of a recorded request.

use super::checks::check_entry;
use crate::{TokenId, TrieError};

/// An answer after one path.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct HeadEntry {
    /// Its likeliest tokens with their probabilities, likeliest first.
    pub likeliest: Vec<(TokenId, f32)>,
    /// Further tokens whose probabilities were asked for.
    pub scored: Vec<(TokenId, f32)>,
}

impl HeadEntry {
    /// The probability of a token, if it was recorded.
    pub(super) fn probability(&self, token: TokenId) -> Option<f32> {
        let mut known = self.likeliest.iter().chain(&self.scored);
        known
            .find(|(named, _)| *named == token)
            .map(|&(_, probability)| probability)
    }
}

/// The answers at each output token: what was drafted in place of it, and then, down the recorded output,
/// in place of those that follow.
///
/// Paths that the output did not take have none: what a head would have drafted there, and what of it would have been
/// preferred to other nodes, is not known.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct HeadAnswers {
    entries: Vec<HeadEntry>,
    /// End of each output token's entries.
    ends: Vec<usize>,
}

impl HeadAnswers {
    /// Adds the answers at the next output token, of one level after the other; none where nothing was recorded.
    ///
    /// # Errors
    ///
    /// [`TrieError::NotAToken`] or [`TrieError::NotAProbability`].
    pub fn push(&mut self, levels: impl IntoIterator<Item = HeadEntry>) -> Result<(), TrieError> {
        for entry in levels {
            for &one in entry.likeliest.iter().chain(&entry.scored) {
                check_entry(one, "head", "a probability of head")?;
            }
            self.entries.push(entry);
        }
        self.ends.push(self.entries.len());
        Ok(())
    }

    /// Returns the number of output tokens.
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// Returns true if there is no output token.
    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// Returns the answer of a level, which counts from 1, where the output token at `index` is drafted first;
    /// `None` if it was not recorded.
    pub fn get(&self, index: usize, level: usize) -> Option<&HeadEntry> {
        let end = *self.ends.get(index)?;
        let start = index.checked_sub(1).map_or(0, |last| self.ends[last]);
        self.entries[start..end].get(level.checked_sub(1)?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::SEPARATOR;

    fn entry(token: TokenId) -> HeadEntry {
        HeadEntry {
            likeliest: vec![(token, 0.5)],
            scored: vec![(token + 1, 0.01)],
        }
    }

    #[test]
    fn answers_are_given_back_by_output_token_and_level() {
        let mut answers = HeadAnswers::default();
        answers.push([entry(7), entry(8)]).unwrap();
        answers.push([]).unwrap();
        answers.push([entry(9)]).unwrap();
        assert_eq!(answers.len(), 3);
        assert_eq!(answers.get(0, 2), Some(&entry(8)));
        assert_eq!(answers.get(2, 1), Some(&entry(9)));
        for missing in [(0, 0), (0, 3), (1, 1), (3, 1)] {
            assert_eq!(answers.get(missing.0, missing.1), None, "{missing:?}");
        }
        assert_eq!(entry(7).probability(8), Some(0.01));
        assert_eq!(entry(7).probability(9), None);
    }

    #[test]
    fn what_is_no_token_or_no_probability_is_refused() {
        let mut answers = HeadAnswers::default();
        let refused = |answers: &mut HeadAnswers, likeliest, scored| {
            answers.push([HeadEntry { likeliest, scored }]).is_err()
        };
        assert!(refused(&mut answers, vec![(SEPARATOR, 0.5)], Vec::new()));
        assert!(refused(&mut answers, Vec::new(), vec![(1, 1.5)]));
    }
}
