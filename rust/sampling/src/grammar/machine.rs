//! One parser of the grammar library; its panics become errors, its errors one line.
//!
//! The library's parsers share what their lexers found out unless told otherwise, and its limits
//! on lexer states and lexer work count what is shared: one of them would end another's answer.

use std::panic::AssertUnwindSafe;

use llguidance::api::StopReason;
use llguidance::earley::{BiasComputer, ParserRecognizer};
use llguidance::toktrie::{SimpleVob, TokEnv, TokTrie};
use llguidance::{TokenParser, panic_utils};

/// Most work of a lexer for one mask, in the library's units of some 70 ns. What the steps after a
/// mask take comes from the same allowance.
pub(super) const MAX_MASK_WORK: u64 = 200_000;

/// Most states that one lexer may take, of 0.3 to 2 kB each.
pub(super) const MAX_LEXER_STATES: usize = 32_768;

/// Bytes that the table of rules takes for each place in a rule that a text may have come to, at most,
/// and for each lexeme of the text.
const BYTES_PER_ITEM: usize = 16;
const BYTES_PER_ROW: usize = 160;

/// Work after which a step renews the allowance.
const RENEWED_WORK: u64 = MAX_MASK_WORK / 4;

/// Longest message taken over from the library, in bytes.
const MAX_MESSAGE_BYTES: usize = 400;

/// A parser somewhere in an answer. After an error it is of no use.
pub(super) struct Machine {
    parser: TokenParser,
    /// Work of the lexer when its allowance was last renewed.
    renewed_at: u64,
    /// Bytes of its lexer when it was forked.
    forked_bytes: usize,
    /// Bytes of its table up to each step.
    table: Vec<usize>,
    /// Bytes that the text which must follow the last step added since.
    forced_bytes: usize,
}

/// What a mask says.
#[derive(Debug)]
pub(super) enum Mask {
    /// These tokens may follow, the ends of an answer among them where it may end.
    Tokens(SimpleVob),
    /// Nothing can follow.
    Nothing,
}

impl Machine {
    pub(super) fn new(mut parser: TokenParser) -> Self {
        if parser.is_fresh() {
            parser.start_without_prompt();
        }
        Self {
            parser,
            renewed_at: 0,
            forked_bytes: 0,
            table: vec![0],
            forced_bytes: 0,
        }
    }

    /// Another machine at the same place. Nothing that either does reaches the other.
    pub(super) fn fork(&self) -> Self {
        Self {
            parser: self.parser.deep_clone(),
            renewed_at: self.renewed_at,
            forked_bytes: self.lexer_bytes(),
            table: self.table.clone(),
            forced_bytes: self.forced_bytes,
        }
    }

    /// Finds out what may follow here, for this machine and all its forks. Says whether anything may.
    pub(super) fn prepare(&mut self) -> Result<bool, String> {
        self.renewed_at = self.work();
        let mut here = Self {
            parser: self.parser.clone(),
            renewed_at: self.renewed_at,
            forked_bytes: 0,
            table: self.table.clone(),
            forced_bytes: self.forced_bytes,
        };
        Ok(matches!(here.mask()?, Mask::Tokens(_)))
    }

    /// Bytes of its lexer, by the library's estimate.
    pub(super) fn lexer_bytes(&self) -> usize {
        self.parser.parser.lexer_stats().num_bytes
    }

    /// Bytes that its lexer has grown by since this machine was forked.
    pub(super) fn grown_bytes(&self) -> usize {
        self.lexer_bytes().saturating_sub(self.forked_bytes)
    }

    /// Bytes of the table of what its text may be in the rules, which grows with the text.
    pub(super) fn table_bytes(&self) -> usize {
        self.table.last().copied().unwrap_or(0) + self.forced_bytes
    }

    /// Bytes of what was ever written in the table. What masks write is overwritten.
    fn written_bytes(&self) -> usize {
        let stats = self.parser.parser_stats();
        stats.all_items * BYTES_PER_ITEM + stats.rows * BYTES_PER_ROW
    }

    /// Whether its lexer has taken as many states as it may.
    pub(super) fn is_full(&self) -> bool {
        // After a panic of the library, to ask is one more.
        let stats = guarded(|| Ok(self.parser.parser.lexer_stats()));
        stats.is_ok_and(|stats| stats.error && stats.num_states >= MAX_LEXER_STATES)
    }

    /// What its lexer has done, in units of [`MAX_MASK_WORK`].
    fn work(&self) -> u64 {
        self.parser.parser.lexer_stats().total_fuel_spent as u64
    }

    /// Whether steps can be taken back.
    pub(super) fn can_rollback(&self) -> bool {
        self.parser.parser.grammar().lexer_spec().can_rollback()
    }

    /// The tokens that may follow.
    pub(super) fn mask(&mut self) -> Result<Mask, String> {
        if self.is_complete() {
            return Ok(Mask::Nothing);
        }
        self.renewed_at = self.work();
        let parser = &mut self.parser;
        match guarded(|| parser.compute_mask()) {
            Ok(tokens) => Ok(Mask::Tokens(tokens)),
            Err(_) if parser.stop_reason() == StopReason::NoExtensionBias => Ok(Mask::Nothing),
            Err(message) => Err(message),
        }
    }

    /// Goes on by a token that may follow.
    pub(super) fn step(&mut self, token: u32) -> Result<(), String> {
        if self.work() - self.renewed_at > RENEWED_WORK {
            self.renew()?;
        }
        let written = self.written_bytes();
        let parser = &mut self.parser;
        guarded(|| {
            parser.consume_token(token)?;
            parser.check_stop()?;
            Ok(())
        })?;
        let grown = self.written_bytes() - written;
        self.table.push(self.table_bytes() + grown);
        self.forced_bytes = 0;
        Ok(())
    }

    /// Renews the allowance of work without finding out what may follow, which takes many states.
    fn renew(&mut self) -> Result<(), String> {
        self.renewed_at = self.work();
        let nothing = NoTokens(self.parser.token_env.clone());
        let parser = &mut self.parser.parser;
        guarded(|| {
            // What is asked for a beginning of a token is not kept as the mask of this place.
            parser.compute_bias(&nothing, &[0]);
            Ok(())
        })
    }

    /// Takes the last step back.
    pub(super) fn step_back(&mut self) -> Result<(), String> {
        let parser = &mut self.parser;
        guarded(|| parser.rollback(1))?;
        self.table.pop();
        self.forced_bytes = 0;
        Ok(())
    }

    /// Whether `token` may follow; changes nothing.
    pub(super) fn allows(&mut self, token: u32) -> Result<bool, String> {
        let parser = &mut self.parser;
        guarded(|| parser.validate_token(token))
    }

    /// Whether the answer may end here.
    pub(super) fn is_accepting(&mut self) -> Result<bool, String> {
        let parser = &mut self.parser;
        guarded(|| Ok(parser.is_accepting()))
    }

    /// Whether the answer can only end here.
    pub(super) fn is_complete(&self) -> bool {
        self.parser.stop_reason() != StopReason::NotStopped
    }

    /// Text that must follow: the tokens its beginning is spelt in, and the bytes left.
    pub(super) fn forced(&mut self) -> Result<(Vec<u32>, Vec<u8>), String> {
        if self.is_complete() {
            return Ok((Vec::new(), Vec::new()));
        }
        let written = self.written_bytes();
        let parser = &mut self.parser;
        let forced = guarded(|| {
            let tokens = parser.compute_ff_tokens();
            let bytes = parser.force_bytes();
            let spelt = parser.token_env.tok_trie().decode_raw(&tokens).len();
            Ok((tokens, bytes[spelt.min(bytes.len())..].to_vec()))
        })?;
        // It stays in the table until a step is taken back.
        self.forced_bytes += self.written_bytes() - written;
        Ok(forced)
    }
}

/// Computes the mask that allows nothing.
struct NoTokens(TokEnv);

impl BiasComputer for NoTokens {
    fn compute_bias(&self, _place: &mut ParserRecognizer<'_>, _start: &[u8]) -> SimpleVob {
        self.trie().alloc_token_set()
    }

    fn trie(&self) -> &TokTrie {
        self.0.tok_trie()
    }
}

/// Runs the library: a panic or error becomes its message.
fn guarded<T>(work: impl FnOnce() -> anyhow::Result<T>) -> Result<T, String> {
    panic_utils::catch_unwind(AssertUnwindSafe(work)).map_err(|error| brief(&error.to_string()))
}

/// A message of the library on one line, without traces, its middle left out where it is long.
pub(super) fn brief(message: &str) -> String {
    let text = ["\n<backtrace>", "\n<non-verbose/>"]
        .iter()
        .filter_map(|mark| message.find(mark))
        .min()
        .map_or(message, |end| &message[..end]);
    let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    if line.len() <= MAX_MESSAGE_BYTES {
        return line;
    }
    let half = MAX_MESSAGE_BYTES / 2;
    let head = (0..=half).rev().find(|&at| line.is_char_boundary(at));
    let tail = (line.len() - half..line.len()).find(|&at| line.is_char_boundary(at));
    format!(
        "{} … {}",
        &line[..head.unwrap_or(0)],
        &line[tail.unwrap_or(line.len())..]
    )
}
