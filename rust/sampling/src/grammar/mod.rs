//! Answers held to a grammar: what may follow at every token, and what must.
//!
//! The grammar of a request only restricts the tokens to draw, a function of the answer so far.
//! Every token is still drawn from the model's logits, so drafts change nothing about an answer.

mod compiler;
mod cursor;
mod machine;
mod spec;
mod state;
mod vocabulary;

pub use compiler::GrammarCompiler;
pub use cursor::{ForcedTokens, GrammarCursor};
pub use spec::GrammarSpec;
pub use state::{GrammarEnd, GrammarState};

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use self::machine::Machine;
use self::vocabulary::Vocabulary;

/// A compiled constraint of an answer, made by [`GrammarCompiler::compile`]. Cloning it is cheap;
/// requests may share one.
#[derive(Clone)]
pub struct Grammar {
    compiled: Arc<Compiled>,
}

struct Compiled {
    /// At the beginning of an answer.
    machine: Machine,
    vocabulary: Arc<Vocabulary>,
    /// Set once an answer failed in it: what its answers share may be damaged.
    is_spoiled: AtomicBool,
}

impl Grammar {
    fn new(machine: Machine, vocabulary: Arc<Vocabulary>) -> Self {
        Self {
            compiled: Arc::new(Compiled {
                machine,
                vocabulary,
                is_spoiled: AtomicBool::new(false),
            }),
        }
    }

    fn is_spoiled(&self) -> bool {
        self.compiled.is_spoiled.load(Ordering::Relaxed)
    }

    fn spoil(&self) {
        self.compiled.is_spoiled.store(true, Ordering::Relaxed);
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
