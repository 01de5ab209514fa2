//! Search for stop strings in text that arrives in pieces of any size.

use crate::error::TextError;

/// Looks for several stop strings at once and holds back text that may become one.
///
/// The match is the one that a search character by character meets first: the earliest end, and
/// among those that end together the longest. It does not depend on how the text was cut.
#[derive(Debug, Clone)]
pub(crate) struct StopScanner {
    stops: Vec<Stop>,
    /// The longest end of the text so far that begins a stop string.
    held: String,
}

/// One stop string with its automaton (Knuth, Morris and Pratt).
#[derive(Debug, Clone)]
struct Stop {
    text: String,
    /// For each length: the longest proper prefix that is also a suffix.
    borders: Vec<usize>,
    /// Length of the longest prefix that ends the text so far.
    matched: usize,
}

impl StopScanner {
    /// Builds the automata.
    pub(crate) fn new(stops: &[String]) -> Result<Self, TextError> {
        let stops = stops
            .iter()
            .enumerate()
            .map(|(index, text)| match text.as_str() {
                "" => Err(TextError::EmptyStop { index }),
                text => Ok(Stop::new(text)),
            })
            .collect::<Result<_, _>>()?;
        Ok(Self {
            stops,
            held: String::new(),
        })
    }

    /// Appends to `out` all text that is decided; gives the index of the stop string if one ended
    /// in `text`, and then `out` ends before it.
    pub(crate) fn push(&mut self, text: &str, out: &mut String) -> Option<usize> {
        if self.stops.is_empty() {
            out.push_str(text);
            return None;
        }
        for (offset, &byte) in text.as_bytes().iter().enumerate() {
            let mut found: Option<(usize, usize)> = None;
            for (index, stop) in self.stops.iter_mut().enumerate() {
                if stop.advance(byte) && found.is_none_or(|(_, best)| stop.text.len() > best) {
                    found = Some((index, stop.text.len()));
                }
            }
            if let Some((index, length)) = found {
                self.held.push_str(&text[..=offset]);
                out.push_str(&self.held[..self.held.len() - length]);
                self.held.clear();
                return Some(index);
            }
        }
        self.held.push_str(text);
        let keep = self
            .stops
            .iter()
            .map(|stop| stop.matched)
            .max()
            .unwrap_or(0);
        let decided = self.held.len() - keep;
        out.extend(self.held.drain(..decided));
        None
    }

    /// The stop string at `index`.
    pub(crate) fn stop(&self, index: usize) -> &str {
        &self.stops[index].text
    }

    /// Appends the text that was held back: nothing follows it any more.
    pub(crate) fn finish(&mut self, out: &mut String) {
        out.push_str(&std::mem::take(&mut self.held));
    }
}

impl Stop {
    fn new(text: &str) -> Self {
        let bytes = text.as_bytes();
        let mut borders = vec![0; bytes.len() + 1];
        let mut border = 0;
        for end in 1..bytes.len() {
            while border > 0 && bytes[border] != bytes[end] {
                border = borders[border];
            }
            border += usize::from(bytes[border] == bytes[end]);
            borders[end + 1] = border;
        }
        Self {
            text: text.to_owned(),
            borders,
            matched: 0,
        }
    }

    /// Takes one more byte; true when the text now ends with the whole stop string.
    fn advance(&mut self, byte: u8) -> bool {
        let bytes = self.text.as_bytes();
        while self.matched > 0 && bytes.get(self.matched) != Some(&byte) {
            self.matched = self.borders[self.matched];
        }
        self.matched += usize::from(bytes[self.matched] == byte);
        self.matched == bytes.len()
    }
}

#[cfg(test)]
mod tests {
    use super::StopScanner;
    use proptest::prelude::*;

    /// The earliest end, then the longest: tried at every character.
    fn naive(text: &str, stops: &[String]) -> (String, Option<usize>) {
        let ends = text.char_indices().map(|(start, c)| start + c.len_utf8());
        for end in ends {
            let longest = (0..stops.len())
                .filter(|&index| text[..end].ends_with(&stops[index]))
                .max_by_key(|&index| (stops[index].len(), std::cmp::Reverse(index)));
            if let Some(index) = longest {
                return (text[..end - stops[index].len()].to_owned(), Some(index));
            }
        }
        (text.to_owned(), None)
    }

    proptest! {
        #[test]
        fn cut_anywhere_equals_a_naive_search(
            pieces in prop::collection::vec("[abé]{0,4}", 0..12),
            stops in prop::collection::vec("[abé]{1,5}", 0..4),
        ) {
            let mut scanner = StopScanner::new(&stops).unwrap();
            let mut out = String::new();
            let mut found = None;
            for piece in &pieces {
                found = scanner.push(piece, &mut out);
                if found.is_some() {
                    break;
                }
            }
            scanner.finish(&mut out);
            prop_assert_eq!((out, found), naive(&pieces.concat(), &stops));
        }
    }

    #[test]
    fn only_a_possible_beginning_is_held_back() {
        let mut scanner = StopScanner::new(&["END".to_owned()]).unwrap();
        let mut out = String::new();
        assert_eq!(scanner.push("one EN", &mut out), None);
        assert_eq!(out, "one ");
        assert_eq!(scanner.push("E", &mut out), None);
        assert_eq!(out, "one EN");
        assert_eq!(scanner.push("ND two", &mut out), Some(0));
        assert_eq!(out, "one EN");
    }

    #[test]
    fn an_empty_stop_string_is_refused_by_its_index() {
        let error = StopScanner::new(&["a".to_owned(), String::new()]).unwrap_err();
        assert!(error.to_string().contains("stop[1]"), "{error}");
    }
}
