//! A recorded request.

use super::checks::{check_entry, check_tokens};
use super::head_answers::HeadAnswers;
use crate::{TokenId, TrieError};

/// The model's top tokens after each token of prompt ++ output.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TopEntries {
    entries: Vec<(TokenId, f32)>,
    /// End of each position's entries.
    ends: Vec<usize>,
}

impl TopEntries {
    /// Adds the top tokens of the next position with their probabilities, likeliest first; none for
    /// a position that was not computed.
    ///
    /// # Errors
    ///
    /// [`TrieError::NotAToken`] or [`TrieError::NotAProbability`].
    pub fn push(
        &mut self,
        entry: impl IntoIterator<Item = (TokenId, f32)>,
    ) -> Result<(), TrieError> {
        for (token, probability) in entry {
            check_entry((token, probability), "topk", "a probability of topk")?;
            self.entries.push((token, probability));
        }
        self.ends.push(self.entries.len());
        Ok(())
    }

    /// Returns the number of positions.
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// Returns true if there is no position.
    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// Returns the top tokens after `position`; empty where nothing was computed.
    pub fn get(&self, position: usize) -> &[(TokenId, f32)] {
        let Some(&end) = self.ends.get(position) else {
            return &[];
        };
        let start = position.checked_sub(1).map_or(0, |last| self.ends[last]);
        &self.entries[start..end]
    }
}

/// A request whose output is known.
#[derive(Clone, Copy, Debug)]
pub struct ReplayRequest<'a> {
    /// Tokens of the prompt.
    pub prompt: &'a [TokenId],
    /// Tokens of the output.
    pub output: &'a [TokenId],
    /// Text that the caller expected the output to resemble; empty for none.
    pub prediction: &'a [TokenId],
    /// The namespace that it reads and contributes to.
    pub namespace: &'a str,
    /// One entry for each token of prompt ++ output, if they were recorded.
    pub top: Option<&'a TopEntries>,
    /// What a drafter of the runner's answered along the output, if that was recorded.
    pub head: Option<&'a HeadAnswers>,
}

impl<'a> ReplayRequest<'a> {
    /// Creates a request of the namespace `default` without prediction, top tokens and answers of a head.
    pub fn new(prompt: &'a [TokenId], output: &'a [TokenId]) -> Self {
        Self {
            prompt,
            output,
            prediction: &[],
            namespace: "default",
            top: None,
            head: None,
        }
    }

    pub(super) fn check(&self) -> Result<(), TrieError> {
        check_tokens("prompt_ids", self.prompt)?;
        check_tokens("output_ids", self.output)?;
        check_tokens("prediction_ids", self.prediction)?;
        let expected = self.prompt.len() + self.output.len();
        if let Some(given) = self.top.map(TopEntries::len).filter(|&len| len != expected) {
            return Err(TrieError::TopEntries { given, expected });
        }
        let expected = self.output.len();
        match self.head.map(HeadAnswers::len) {
            Some(given) if given != expected => Err(TrieError::HeadAnswers { given, expected }),
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::SEPARATOR;

    #[test]
    fn entries_are_given_back_by_position() {
        let mut top = TopEntries::default();
        top.push([(7, 0.5), (8, 0.25)]).unwrap();
        top.push([]).unwrap();
        top.push([(9, 1.0)]).unwrap();
        assert_eq!(top.len(), 3);
        assert_eq!(top.get(0), [(7, 0.5), (8, 0.25)]);
        assert_eq!(top.get(1), []);
        assert_eq!(top.get(2), [(9, 1.0)]);
        assert_eq!(top.get(3), []);
    }

    #[test]
    fn what_is_no_token_no_probability_or_the_wrong_number_is_refused() {
        let mut top = TopEntries::default();
        assert!(matches!(
            top.push([(SEPARATOR, 0.5)]),
            Err(TrieError::NotAToken { .. })
        ));
        assert!(matches!(
            top.push([(1, 1.5)]),
            Err(TrieError::NotAProbability { .. })
        ));
        let mut top = TopEntries::default();
        top.push([(1, 0.5)]).unwrap();
        let request = ReplayRequest {
            top: Some(&top),
            ..ReplayRequest::new(&[1], &[2])
        };
        let message = request.check().unwrap_err().to_string();
        assert_eq!(
            message,
            "topk has 1 entries; allowed: 2, one for each token of prompt and output"
        );
        let message = ReplayRequest::new(&[1, SEPARATOR], &[]).check();
        assert_eq!(
            message.unwrap_err().to_string(),
            "prompt_ids[1] is 4294967295, which separates documents; allowed: 0 to 4294967294"
        );
    }
}
