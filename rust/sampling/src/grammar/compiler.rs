//! Compiles constraints, within limits.

use std::sync::mpsc::{self, RecvTimeoutError};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;
use std::{fmt, thread};

use llguidance::ParserFactory;
use llguidance::earley::SlicedBiasComputer;
use llguidance::toktrie::InferenceCapabilities;

use super::background::{ThreadTime, give_way};
use super::cache::Cache;
use super::machine::{MAX_LEXER_STATES, MAX_MASK_WORK, Machine, brief};
use super::turn::{ASK_EVERY, Turn, Turns};
use super::vocabulary::{Encode, Vocabulary};
use super::{Grammar, GrammarSpec};
use crate::error::SamplingError;

/// Bytes of the grammars kept for the next request that asks for the same.
const MAX_CACHED_BYTES: usize = 64 << 20;

/// Bytes of a compiled constraint beside its lexer, at most, for each byte of its text: 26 to 73 were
/// measured, from schemas of 1 kB to ones of 53 kB.
const RULE_BYTES_PER_TEXT_BYTE: usize = 73;

/// The same, whatever its text.
const BASE_BYTES: usize = 10 << 10;

/// How long one compilation may compute. The library's own limits end nearly all in less than a
/// second. What it waits for a core does not count: its thread gives way to forwards.
const MAX_COMPILE_TIME: Duration = Duration::from_secs(10);

/// Stack of a compilation: the library recurses into nested rules, and the 64 KiB of a constraint
/// hold thousands of them.
const STACK_BYTES: usize = 64 << 20;

/// Compiles constraints for one vocabulary and keeps the last ones. Threads may share it.
pub struct GrammarCompiler {
    shared: Arc<Shared>,
    turns: Arc<Turns>,
    cache: Mutex<Cache<Grammar>>,
}

struct Shared {
    factory: ParserFactory,
    vocabulary: Arc<Vocabulary>,
}

impl GrammarCompiler {
    /// Prepares the vocabulary: 0.3 s for 49,152 tokens.
    ///
    /// `token_bytes` holds what each token adds to a text, by id. Tokens without bytes are never
    /// drawn under a grammar; special tokens are, where it names them, if their bytes are 255 and
    /// then their name. An answer may end with one of `eos_token_ids` exactly where its grammar
    /// accepts it.
    ///
    /// # Errors
    /// [`SamplingError::Config`] without tokens, or for an end token that has no place among them.
    pub fn new(token_bytes: Vec<Vec<u8>>, eos_token_ids: &[u32]) -> Result<Self, SamplingError> {
        Self::build(token_bytes, eos_token_ids, None)
    }

    /// As [`Self::new`], for a model whose usual way to write a text is known: `encode` gives its
    /// tokens. Text that a grammar forces must be written so.
    ///
    /// Otherwise a model that would rather say something else writes it in fragments, and loses the
    /// thread.
    ///
    /// # Errors
    /// Those of [`Self::new`].
    pub fn with_tokenizer(
        token_bytes: Vec<Vec<u8>>,
        eos_token_ids: &[u32],
        encode: impl Fn(&str) -> Vec<u32> + Send + Sync + 'static,
    ) -> Result<Self, SamplingError> {
        Self::build(token_bytes, eos_token_ids, Some(Arc::new(encode)))
    }

    fn build(
        token_bytes: Vec<Vec<u8>>,
        eos_token_ids: &[u32],
        encode: Option<Arc<Encode>>,
    ) -> Result<Self, SamplingError> {
        let vocabulary = Vocabulary::new(token_bytes, eos_token_ids, encode)?;
        let mut factory = ParserFactory::new(
            &vocabulary.spelling(),
            InferenceCapabilities::default(),
            &SlicedBiasComputer::json_slices(),
        )
        .map_err(|error| SamplingError::Grammar {
            name: "vocabulary",
            reason: brief(&error.to_string()),
        })?;
        factory.quiet();
        let limits = factory.limits_mut();
        limits.verbose_errors = false;
        limits.max_lexer_states = MAX_LEXER_STATES;
        limits.step_lexer_fuel = MAX_MASK_WORK;
        Ok(Self {
            shared: Arc::new(Shared {
                factory,
                vocabulary: Arc::new(vocabulary),
            }),
            turns: Arc::default(),
            cache: Mutex::new(Cache::new(MAX_CACHED_BYTES)),
        })
    }

    /// The grammar of `spec`, from the cache if it is there. Takes milliseconds to, seldom, seconds,
    /// and as long as it takes until fewer than four others compile: do not call it from the step
    /// loop.
    ///
    /// # Errors
    /// [`SamplingError::Config`] for a constraint over a limit, [`SamplingError::Grammar`] for one that
    /// cannot be compiled or that no text meets.
    pub fn compile(&self, spec: &GrammarSpec) -> Result<Grammar, SamplingError> {
        self.compile_while(spec, &|| true)
    }

    /// As [`Self::compile`], as long as `goes_on`, which is asked some twenty times a second.
    ///
    /// # Errors
    /// Those of [`Self::compile`], and [`SamplingError::GivenUp`] where `goes_on` said no.
    pub fn compile_while(
        &self,
        spec: &GrammarSpec,
        goes_on: &dyn Fn() -> bool,
    ) -> Result<Grammar, SamplingError> {
        spec.check()?;
        if let Some(grammar) = self.cached(spec) {
            return Ok(grammar);
        }
        let turn = Turn::await_one(&self.turns, goes_on).ok_or(SamplingError::GivenUp)?;
        // Of many who ask for the same at once, the first ones compile it.
        if let Some(grammar) = self.cached(spec) {
            return Ok(grammar);
        }
        let grammar = compile_apart(&self.shared, spec, turn, goes_on)?;
        let rule_bytes = BASE_BYTES + spec.num_bytes() * RULE_BYTES_PER_TEXT_BYTE;
        let num_bytes = grammar.lexer_bytes() + rule_bytes;
        self.cache()
            .insert(spec.clone(), grammar.clone(), num_bytes);
        Ok(grammar)
    }

    /// The grammar of `spec` if it was compiled lately; waits for nobody.
    pub fn cached(&self, spec: &GrammarSpec) -> Option<Grammar> {
        self.cache().get(spec)
    }

    fn cache(&self) -> MutexGuard<'_, Cache<Grammar>> {
        self.cache.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Compiles on a thread of its own, whose stack is large, which gives way to forwards and which can be
/// given up on.
fn compile_apart(
    shared: &Arc<Shared>,
    spec: &GrammarSpec,
    turn: Turn,
    goes_on: &dyn Fn() -> bool,
) -> Result<Grammar, SamplingError> {
    let refused = |reason: String| SamplingError::Grammar {
        name: spec.name(),
        reason,
    };
    let (sender, receiver) = mpsc::channel();
    let time = Arc::new(OnceLock::new());
    let (theirs, wanted, clock) = (Arc::clone(shared), spec.clone(), Arc::clone(&time));
    thread::Builder::new()
        .name("grammar".into())
        .stack_size(STACK_BYTES)
        .spawn(move || {
            give_way();
            clock.get_or_init(ThreadTime::of_this_thread);
            let grammar = theirs.compile(&wanted);
            drop(turn);
            // Once it is given up on, no request waits for it any more.
            let _ = sender.send(grammar);
        })
        .map_err(|error| refused(format!("no thread to compile on: {error}")))?;
    loop {
        match receiver.recv_timeout(ASK_EVERY) {
            Ok(grammar) => return grammar.map_err(refused),
            Err(RecvTimeoutError::Disconnected) => {
                return Err(refused("the compiler failed".into()));
            }
            Err(RecvTimeoutError::Timeout) => {}
        }
        if !goes_on() {
            return Err(SamplingError::GivenUp);
        }
        if time.get().map(ThreadTime::elapsed) > Some(MAX_COMPILE_TIME) {
            return Err(refused(format!(
                "compiling took more than {} s; simplify it",
                MAX_COMPILE_TIME.as_secs()
            )));
        }
    }
}

impl Shared {
    fn compile(&self, spec: &GrammarSpec) -> Result<Grammar, String> {
        let parser = self
            .factory
            .create_parser(spec.read()?)
            .map_err(|error| brief(&error.to_string()))?;
        let mut machine = Machine::new(parser);
        if !machine.can_rollback() {
            return Err("max_tokens= and stop= inside a grammar are not supported; use the request's max_tokens, or suffix=".into());
        }
        if !machine.prepare()? {
            return Err("no text of this vocabulary meets it".into());
        }
        Ok(Grammar::new(machine, Arc::clone(&self.vocabulary)))
    }
}

impl fmt::Debug for GrammarCompiler {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("GrammarCompiler").finish_non_exhaustive()
    }
}

#[cfg(test)]
#[cfg(all(target_os = "linux", not(miri)))]
mod tests {
    use super::super::background::tests::niceness;
    use super::super::turn::MAX_COMPILING;
    use super::*;

    fn tokens() -> Vec<Vec<u8>> {
        ["", "a", "b", "ab"].map(Into::into).to_vec()
    }

    #[test]
    fn only_the_thread_that_compiles_gives_way() {
        let before = niceness();
        let seen = Arc::new(Mutex::new(Vec::new()));
        let notes = Arc::clone(&seen);
        let encode = move |_: &str| {
            notes.lock().unwrap().push(niceness());
            vec![3]
        };
        let compiler = GrammarCompiler::with_tokenizer(tokens(), &[0], encode).unwrap();
        seen.lock().unwrap().clear();
        compiler
            .compile(&GrammarSpec::Choice(vec!["abab".into()]))
            .unwrap();
        let seen = seen.lock().unwrap();
        assert!(!seen.is_empty());
        assert!(
            seen.iter().all(|&one| one == (before + 10).min(19)),
            "{seen:?}"
        );
        assert_eq!(niceness(), before);
    }

    #[test]
    fn what_is_cached_waits_for_nobody_and_what_is_not_until_it_is_given_up() {
        let compiler = GrammarCompiler::new(tokens(), &[0]).unwrap();
        let known = GrammarSpec::Regex("a+".into());
        assert!(compiler.cached(&known).is_none());
        compiler.compile(&known).unwrap();
        let running: Vec<Turn> = (0..MAX_COMPILING)
            .map(|_| Turn::await_one(&compiler.turns, &|| true).unwrap())
            .collect();
        assert!(compiler.cached(&known).is_some());
        assert!(compiler.compile(&known).is_ok());
        let other = GrammarSpec::Regex("b+".into());
        let given_up = compiler.compile_while(&other, &|| false);
        assert_eq!(given_up.unwrap_err(), SamplingError::GivenUp);
        drop(running);
        assert!(compiler.compile(&other).is_ok());
    }
}
