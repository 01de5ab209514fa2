//! Stop texts, found where an engine's tokens arrive.

use spectrie_engine::StopFinder;
use spectrie_text::{TextError, TextStream, Tokenizer};

/// Finds stop texts in the text of the tokens.
#[derive(Clone, Debug)]
struct Stops(TextStream);

impl StopFinder for Stops {
    fn push(&mut self, tokens: &[u32]) -> Option<usize> {
        self.0.push(tokens).keep_tokens
    }

    fn num_certain(&self) -> usize {
        self.0.num_certain()
    }

    fn boxed_clone(&self) -> Box<dyn StopFinder> {
        Box::new(self.clone())
    }
}

/// Finds the texts `stop` in an answer; `None` without any.
///
/// # Errors
/// A stop text that is empty.
pub(crate) fn stop_finder(
    tokenizer: &Tokenizer,
    stop: &[String],
    skip_special_tokens: bool,
) -> Result<Option<Box<dyn StopFinder>>, TextError> {
    if stop.is_empty() {
        return Ok(None);
    }
    let stream = TextStream::new(tokenizer, stop, skip_special_tokens)?;
    Ok(Some(Box::new(Stops(stream))))
}
