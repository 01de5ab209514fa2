//! A grammar with a machine of one's own.

use super::Grammar;
use super::machine::Machine;
use super::vocabulary::Vocabulary;

/// A place in a grammar, its beginning at first.
pub(super) struct Place {
    grammar: Grammar,
    /// None until it is needed: thousands of answers may wait for their turn.
    machine: Option<Machine>,
}

impl Place {
    pub(super) fn new(grammar: Grammar) -> Self {
        Self {
            grammar,
            machine: None,
        }
    }

    pub(super) fn vocabulary(&self) -> &Vocabulary {
        self.grammar.vocabulary()
    }

    pub(super) fn machine(&mut self) -> &mut Machine {
        let beginning = &self.grammar.compiled.machine;
        self.machine.get_or_insert_with(|| beginning.fork())
    }

    /// Goes on by a token that may follow.
    pub(super) fn step(&mut self, token: u32) -> Result<(), String> {
        let token = self.vocabulary().first_of(token);
        self.machine().step(token)
    }
}
