//! Incremental conversion of token ids to text, cut at the first stop string.

use crate::error::TextError;
use crate::pieces::{Joining, Piece};
use crate::stop::StopScanner;
use crate::tokenizer::Tokenizer;
use crate::utf8::Utf8Tail;

/// Text that is final after a push.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TextDelta {
    /// The text; may be empty while a character or a stop string is undecided.
    pub text: String,
    /// The stop string that ended the answer; the text stops before it.
    pub stop: Option<String>,
    /// With `stop`: the number of tokens pushed so far that belong to the answer, including the one
    /// that completes the stop string.
    pub keep_tokens: Option<usize>,
}

/// Converts the output tokens of a request to text.
///
/// The texts of all deltas, then [`finish`](Self::finish), joined, equal [`Tokenizer::decode`] of
/// all ids, or its beginning up to the first stop string. No delta ends within a character.
/// Cost of a push: proportional to the bytes of its tokens, times the number of stop strings.
///
/// # Example
/// ```
/// # fn demo(tokenizer: &spectrie_text::Tokenizer, ids: &[u32]) -> Result<(), spectrie_text::TextError> {
/// let mut stream = spectrie_text::TextStream::new(tokenizer, &["\n\n".to_owned()], true)?;
/// let delta = stream.push(ids);
/// if delta.stop.is_none() {
///     let rest = stream.finish();
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone)]
pub struct TextStream {
    tokenizer: Tokenizer,
    scanner: StopScanner,
    skip_special_tokens: bool,
    utf8: Utf8Tail,
    /// Byte tokens that are not decided yet, each with the number of tokens up to it.
    run: Vec<(u8, usize)>,
    num_tokens: usize,
    /// No token has added to the text yet.
    at_start: bool,
    /// Leading characters that may still be stripped.
    strip_left: usize,
    stopped: Option<(String, usize)>,
}

impl TextStream {
    /// Creates a stream that starts at the first output token.
    ///
    /// # Errors
    /// [`TextError::EmptyStop`] if a stop string is empty.
    pub fn new(
        tokenizer: &Tokenizer,
        stop: &[String],
        skip_special_tokens: bool,
    ) -> Result<Self, TextError> {
        let strip_left = match tokenizer.pieces().joining {
            Joining::Stripped { count, .. } => count,
            _ => 0,
        };
        Ok(Self {
            scanner: StopScanner::new(stop)?,
            tokenizer: tokenizer.clone(),
            skip_special_tokens,
            utf8: Utf8Tail::default(),
            run: Vec::new(),
            num_tokens: 0,
            at_start: true,
            strip_left,
            stopped: None,
        })
    }

    /// Takes the next output tokens and returns the text that became final. After a stop string it
    /// ignores them and returns the stop again.
    pub fn push(&mut self, ids: &[u32]) -> TextDelta {
        let mut text = String::new();
        for &id in ids {
            if self.stopped.is_some() {
                break;
            }
            self.num_tokens += 1;
            self.take(id, &mut text);
        }
        let (stop, keep_tokens) = self.stopped.clone().unzip();
        TextDelta {
            text,
            stop,
            keep_tokens,
        }
    }

    /// How many of the tokens pushed so far belong to the answer, whatever follows. Byte tokens show
    /// their text, and the stop string in it, only when another kind of token comes.
    pub fn num_certain(&self) -> usize {
        let undecided = self.run.first().map(|&(_, num_tokens)| num_tokens);
        let stopped = self.stopped.as_ref().map(|&(_, num_tokens)| num_tokens);
        stopped.or(undecided).unwrap_or(self.num_tokens)
    }

    /// Returns the text that was held back; nothing after a stop string.
    pub fn finish(&mut self) -> String {
        let mut text = String::new();
        if self.stopped.is_none() {
            self.end_run(&mut text);
        }
        if self.stopped.is_none() {
            let mut rest = String::new();
            self.utf8.finish(&mut rest);
            self.scan(&rest, self.num_tokens, &mut text);
        }
        if self.stopped.is_none() {
            self.scanner.finish(&mut text);
        }
        text
    }

    fn take(&mut self, id: u32, out: &mut String) {
        let tokenizer = self.tokenizer.clone();
        let Some(piece) = tokenizer.pieces().get(id) else {
            return;
        };
        if piece.special && self.skip_special_tokens {
            return;
        }
        if piece.fallback {
            self.run.push((piece.bytes[0], self.num_tokens));
            self.at_start = false;
            return;
        }
        self.end_run(out);
        if self.stopped.is_none() {
            let text = self.text_of(piece, &tokenizer.pieces().joining);
            self.scan(&text, self.num_tokens, out);
        }
        self.at_start = false;
    }

    /// What a piece adds to the text, as far as that is complete.
    fn text_of(&mut self, piece: Piece<'_>, joining: &Joining) -> String {
        let mut text = String::with_capacity(piece.bytes.len() + 1);
        match joining {
            Joining::Bytes => self.utf8.push(piece.bytes, &mut text),
            Joining::Stripped { content, .. } => {
                let whole = String::from_utf8_lossy(piece.bytes);
                text.push_str(self.strip(&whole, *content));
            }
            Joining::FirstWithout { replacement } => {
                let whole = String::from_utf8_lossy(piece.bytes);
                let space = if self.at_start { "" } else { " " };
                text = whole.replace(*replacement, space);
            }
            Joining::Spaced => {
                if !self.at_start {
                    text.push(' ');
                }
                text.push_str(&String::from_utf8_lossy(piece.bytes));
            }
        }
        text
    }

    /// Cuts leading `content` characters while the text's beginning may still lose some.
    fn strip<'a>(&mut self, text: &'a str, content: char) -> &'a str {
        let mut rest = text;
        while self.strip_left > 0 && !rest.is_empty() {
            match rest.strip_prefix(content) {
                Some(after) => {
                    rest = after;
                    self.strip_left -= 1;
                }
                None => self.strip_left = 0,
            }
        }
        rest
    }

    /// Decides a run of byte tokens: text if all of it is valid, else one U+FFFD for each.
    fn end_run(&mut self, out: &mut String) {
        let run = std::mem::take(&mut self.run);
        if run.is_empty() {
            return;
        }
        let bytes: Vec<u8> = run.iter().map(|&(byte, _)| byte).collect();
        let content = match self.tokenizer.pieces().joining {
            Joining::Stripped { content, .. } => content,
            _ => ' ',
        };
        let mut end = 0;
        let text = std::str::from_utf8(&bytes);
        let chars: Vec<char> = match text {
            Ok(text) => text.chars().collect(),
            Err(_) => vec![char::REPLACEMENT_CHARACTER; bytes.len()],
        };
        for c in chars {
            end += if text.is_ok() { c.len_utf8() } else { 1 };
            let mut buffer = [0; 4];
            let kept = self.strip(c.encode_utf8(&mut buffer), content);
            self.scan(kept, run[end - 1].1, out);
            if self.stopped.is_some() {
                return;
            }
        }
    }

    /// Passes text to the scanner; `num_tokens` is how many tokens it took to complete it.
    fn scan(&mut self, text: &str, num_tokens: usize, out: &mut String) {
        if let Some(index) = self.scanner.push(text, out) {
            self.stopped = Some((self.scanner.stop(index).to_owned(), num_tokens));
        }
    }
}
