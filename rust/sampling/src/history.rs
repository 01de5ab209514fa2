//! What the tokens so far say about the next one: counts for penalties, and bad words.

use std::collections::HashMap;

/// Tokens seen so far, for penalties: occurrences in the output, 0 for tokens of the prompt alone.
#[derive(Debug, Clone, Default)]
pub struct History {
    counts: HashMap<u32, u32>,
}

impl History {
    /// A history with nothing but a prompt.
    pub fn new(prompt: &[u32]) -> Self {
        Self {
            counts: prompt.iter().map(|&token| (token, 0)).collect(),
        }
    }

    /// Counts an output token.
    pub fn push(&mut self, token: u32) {
        *self.counts.entry(token).or_insert(0) += 1;
    }

    /// Each token of prompt and output once, with its occurrences in the output.
    pub fn counts(&self) -> impl Iterator<Item = (u32, u32)> {
        self.counts.iter().map(|(&token, &count)| (token, count))
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
        let mut history = History::new(&[3, 3, 8]);
        history.push(8);
        history.push(8);
        let mut counts: Vec<(u32, u32)> = history.counts().collect();
        counts.sort_unstable();
        assert_eq!(counts, [(3, 0), (8, 2)]);
    }
}
