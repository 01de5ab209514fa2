//! What the tokens so far say about the next one: counts for penalties, and bad words.

use std::collections::HashMap;

/// Tokens seen so far, for penalties: occurrences in the output, 0 for tokens of the prompt alone.
///
/// Each token has a place, so that all of them are read in a row: at every draw, and for a device.
#[derive(Debug, Clone, Default)]
pub struct History {
    tokens: Vec<u32>,
    counts: Vec<u32>,
    places: HashMap<u32, usize>,
}

impl History {
    /// A history with nothing but a prompt.
    pub fn new(prompt: &[u32]) -> Self {
        let mut history = Self::default();
        for &token in prompt {
            history.place(token);
        }
        history
    }

    /// Counts an output token.
    pub fn push(&mut self, token: u32) {
        let place = self.place(token);
        self.counts[place] += 1;
    }

    /// Each token of prompt and output once, in the order in which they came.
    pub fn tokens(&self) -> &[u32] {
        &self.tokens
    }

    /// How often each of [`Self::tokens`] occurs in the output.
    pub fn counts(&self) -> &[u32] {
        &self.counts
    }

    fn place(&mut self, token: u32) -> usize {
        *self.places.entry(token).or_insert_with(|| {
            self.tokens.push(token);
            self.counts.push(0);
            self.tokens.len() - 1
        })
    }
}

/// Tokens that would complete one of `bad_words` after `output`.
pub fn completions<'a>(
    bad_words: &'a [Vec<u32>],
    output: &'a [u32],
) -> impl Iterator<Item = u32> + 'a {
    bad_words.iter().filter_map(|word| {
        let (&last, before) = word.split_last()?;
        output.ends_with(before).then_some(last)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bad_word_is_barred_where_the_output_ends_with_its_beginning() {
        let words = [vec![5], vec![1, 2, 3], vec![2, 4], vec![9, 9]];
        let barred = |output: &[u32]| completions(&words, output).collect::<Vec<u32>>();
        assert_eq!(barred(&[]), [5]);
        assert_eq!(barred(&[2]), [5, 4]);
        assert_eq!(barred(&[7, 1, 2]), [5, 3, 4]);
        assert_eq!(barred(&[9, 9]), [5, 9]);
    }

    #[test]
    fn tokens_of_the_prompt_alone_have_no_occurrences() {
        let mut history = History::new(&[8, 3, 8]);
        history.push(3);
        history.push(5);
        history.push(3);
        assert_eq!(history.tokens(), [8, 3, 5]);
        assert_eq!(history.counts(), [0, 2, 1]);
    }
}
