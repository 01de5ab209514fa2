//! Answers held to a grammar: what may follow at every token, and what must.
//!
//! The grammar of a request only restricts the tokens to draw, a function of the answer so far.
//! Every token is still drawn from the model's logits, so drafts change nothing about an answer.
//!
//! An answer, and the drafts of an answer, each follow the grammar in a machine of their own: how
//! far one gets within the library's limits depends on no other.

mod allowed;
mod background;
mod cache;
mod compiler;
mod cursor;
mod machine;
mod place;
mod spec;
mod state;
mod turn;
mod vocabulary;

pub use allowed::AllowedTokens;
pub use compiler::GrammarCompiler;
pub use cursor::{ForcedTokens, GrammarCursor};
pub use spec::GrammarSpec;
pub use state::{GrammarEnd, GrammarState};

use std::fmt;
use std::sync::Arc;

use self::machine::Machine;
use self::vocabulary::Vocabulary;

/// A compiled constraint of an answer, made by [`GrammarCompiler::compile`]. Cloning it is cheap;
/// requests may share one.
#[derive(Clone)]
pub struct Grammar {
    compiled: Arc<Compiled>,
}

struct Compiled {
    /// At the beginning of an answer; answers follow forks of it.
    machine: Machine,
    vocabulary: Arc<Vocabulary>,
}

impl Grammar {
    fn new(machine: Machine, vocabulary: Arc<Vocabulary>) -> Self {
        Self {
            compiled: Arc::new(Compiled {
                machine,
                vocabulary,
            }),
        }
    }

    /// Bytes of its lexer, by the library's estimate; those of its answers are their own.
    fn lexer_bytes(&self) -> usize {
        self.compiled.machine.lexer_bytes()
    }

    fn vocabulary(&self) -> &Vocabulary {
        &self.compiled.vocabulary
    }
}

impl fmt::Debug for Grammar {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Grammar").finish_non_exhaustive()
    }
}
