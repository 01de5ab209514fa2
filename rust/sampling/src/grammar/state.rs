//! How far one answer has come in its grammar.

use std::fmt;

use super::Grammar;
use super::allowed::AllowedTokens;
use super::machine::{Machine, Mask};
use super::place::Place;

/// Why an answer goes no further in its grammar.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum GrammarEnd {
    /// Nothing may follow.
    Complete,
    /// What may follow cannot be found out any more, and why.
    Failed(String),
}

/// The place of an answer in its grammar.
///
/// What may follow is asked for in the same order with and without drafts, of a machine that belongs
/// to this answer: nothing that drafts or other answers do can reach its tokens or its end. What its
/// lexer takes is bounded (`place.rs`): states that only a mask went through are got rid of. So is the
/// table of what its text may be in the rules; an answer that would need more fails.
pub struct GrammarState {
    place: Place,
    /// What may follow, once it was asked for.
    allowed: Option<AllowedTokens>,
    /// Whether a token that ends the answer may be drawn.
    heeds_eos: bool,
    end: Option<GrammarEnd>,
}

impl GrammarState {
    /// The beginning of an answer. It `heeds_eos` if tokens of this kind end it.
    pub fn new(grammar: Grammar, heeds_eos: bool) -> Self {
        Self {
            place: Place::new(grammar),
            allowed: None,
            heeds_eos,
            end: None,
        }
    }

    /// Goes on by tokens of the answer.
    pub fn push(&mut self, tokens: &[u32]) {
        if tokens.is_empty() {
            return;
        }
        for &token in tokens {
            self.step(token);
        }
        if self.end.is_none() {
            match self.place.ask(Machine::is_accepting) {
                // Where the answer may end, it does at once if nothing else is left.
                Ok(true) => drop(self.prepare()),
                Ok(false) => {}
                Err(message) => self.fail(&message),
            }
        }
    }

    fn step(&mut self, token: u32) {
        if self.end.is_some() {
            return;
        }
        self.allowed = None;
        if !self.place.vocabulary().knows(token) {
            self.fail(&format!("token {token} is not in its vocabulary"));
            return;
        }
        match self.place.push(token) {
            Ok(()) if self.place.is_complete() => self.end = Some(GrammarEnd::Complete),
            Ok(()) => {}
            Err(message) => self.fail(&message),
        }
    }

    fn fail(&mut self, message: &str) {
        let reason = format!("the grammar could not be followed further: {message}; simplify it");
        self.end = Some(GrammarEnd::Failed(reason));
    }

    /// Whether nothing more may follow.
    pub fn is_complete(&self) -> bool {
        self.end == Some(GrammarEnd::Complete)
    }

    /// Whether nothing more can be drawn, for any reason.
    pub fn has_ended(&self) -> bool {
        self.end.is_some()
    }

    /// Finds out what may follow.
    ///
    /// # Errors
    /// None may, or it is unknown.
    pub fn prepare(&mut self) -> Result<(), GrammarEnd> {
        if self.end.is_none() && self.allowed.is_none() {
            match self.place.ask(Machine::mask) {
                Ok(Mask::Tokens(mask)) => {
                    let vocabulary = self.place.vocabulary();
                    self.allowed = AllowedTokens::new(mask, vocabulary, self.heeds_eos);
                    if self.allowed.is_none() {
                        self.end = Some(GrammarEnd::Complete);
                    }
                }
                Ok(Mask::Nothing) => self.end = Some(GrammarEnd::Complete),
                Err(message) => self.fail(&message),
            }
        }
        self.end.clone().map_or(Ok(()), Err)
    }

    /// What may follow, after [`Self::prepare`]: bit `v % 32` of word `v / 32` for token `v`.
    pub fn allowed(&self) -> Option<&[u32]> {
        self.allowed.as_ref().map(AllowedTokens::words)
    }

    /// Bytes of its table of rules, at most.
    pub fn table_bytes(&self) -> usize {
        self.place.table_bytes()
    }

    /// Bytes of its lexer, by the library's estimate.
    pub fn lexer_bytes(&self) -> usize {
        self.place.lexer_bytes()
    }
}

impl fmt::Debug for GrammarState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("GrammarState")
            .field("end", &self.end)
            .finish_non_exhaustive()
    }
}
