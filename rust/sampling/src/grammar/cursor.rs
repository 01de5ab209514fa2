//! A second place in a grammar, which drafts move ahead of the answer and back.

use std::fmt;

use super::Grammar;
use super::allowed::AllowedTokens;
use super::machine::{Machine, Mask};
use super::place::Place;

/// A place in a grammar that belongs to drafts alone. After an error it is of no use.
pub struct GrammarCursor {
    place: Place,
}

/// Tokens that must follow.
#[derive(Debug, Default)]
pub struct ForcedTokens {
    /// These cannot be spelt otherwise.
    pub certain: Vec<u32>,
    /// A spelling of the text after them, the last token of which could also spell what follows.
    pub open_end: Vec<u32>,
}

impl Grammar {
    /// A place at the beginning of an answer, for drafts.
    pub fn cursor(&self) -> GrammarCursor {
        GrammarCursor {
            place: Place::new(self.clone()),
        }
    }
}

impl GrammarCursor {
    /// Goes on by a token of the answer.
    ///
    /// # Errors
    /// What the grammar library says.
    pub fn push(&mut self, token: u32) -> Result<(), String> {
        self.place.push(token)
    }

    /// Goes on by a token that may follow, until [`Self::step_back`].
    ///
    /// # Errors
    /// What the grammar library says.
    pub fn step(&mut self, token: u32) -> Result<(), String> {
        self.place.step(token)
    }

    /// Takes the last [`Self::step`] back.
    ///
    /// # Errors
    /// There is none, or what the grammar library says.
    pub fn step_back(&mut self) -> Result<(), String> {
        self.place.step_back()
    }

    /// Whether `token` may follow, never true of one that ends an answer.
    ///
    /// # Errors
    /// What the grammar library says.
    pub fn allows(&mut self, token: u32) -> Result<bool, String> {
        let vocabulary = self.place.vocabulary();
        if !vocabulary.knows(token) || vocabulary.is_eos(token) {
            return Ok(false);
        }
        let token = vocabulary.first_of(token);
        self.place.ask(|machine| machine.allows(token))
    }

    /// What an answer that came here may draw, as [`GrammarState`](super::GrammarState) says it of
    /// one that does; `None` where it would be over. It `heeds_eos` if tokens of this kind end it.
    ///
    /// # Errors
    /// What the grammar library says.
    pub fn allowed(&mut self, heeds_eos: bool) -> Result<Option<AllowedTokens>, String> {
        Ok(match self.place.ask(Machine::mask)? {
            Mask::Tokens(mask) => AllowedTokens::new(mask, self.place.vocabulary(), heeds_eos),
            Mask::Nothing => None,
        })
    }

    /// Whether `token` ends an answer.
    pub fn is_eos(&self, token: u32) -> bool {
        self.place.vocabulary().is_eos(token)
    }

    /// What must follow.
    ///
    /// # Errors
    /// What the grammar library says.
    pub fn forced(&mut self) -> Result<ForcedTokens, String> {
        let (certain, open_end) = self.place.ask(Machine::forced)?;
        let open_end = self.place.vocabulary().split(&open_end);
        Ok(ForcedTokens {
            certain,
            open_end: open_end.unwrap_or_default(),
        })
    }

    /// Bytes of its lexer, by the library's estimate.
    pub fn lexer_bytes(&self) -> usize {
        self.place.lexer_bytes()
    }
}

impl fmt::Debug for GrammarCursor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("GrammarCursor").finish_non_exhaustive()
    }
}
