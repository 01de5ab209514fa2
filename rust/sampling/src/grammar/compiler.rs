//! Compiles constraints, within limits.

use std::sync::mpsc::{self, RecvTimeoutError};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use std::{fmt, thread};

use llguidance::ParserFactory;
use llguidance::earley::SlicedBiasComputer;
use llguidance::toktrie::InferenceCapabilities;

use super::cache::Cache;
use super::machine::{MAX_LEXER_STATES, MAX_MASK_WORK, Machine, brief};
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

/// Compilations at once, those given up on included; others wait for their turn.
const MAX_COMPILING: usize = 4;

/// How long one compilation may take. The library's own limits end nearly all in less than a second.
const MAX_COMPILE_TIME: Duration = Duration::from_secs(10);

/// Stack of a compilation: the library recurses into nested rules, and the 64 KiB of a constraint
/// hold thousands of them.
const STACK_BYTES: usize = 64 << 20;

/// Compiles constraints for one vocabulary and keeps the last ones. Threads may share it.
pub struct GrammarCompiler {
    shared: Arc<Shared>,
    cache: Mutex<Cache<Grammar>>,
}

struct Shared {
    factory: ParserFactory,
    vocabulary: Arc<Vocabulary>,
    num_compiling: Mutex<usize>,
    turn_ended: Condvar,
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
                num_compiling: Mutex::new(0),
                turn_ended: Condvar::new(),
            }),
            cache: Mutex::new(Cache::new(MAX_CACHED_BYTES)),
        })
    }

    /// The grammar of `spec`, from the cache if it is there. Takes milliseconds to, seldom, seconds:
    /// do not call it from the step loop.
    ///
    /// # Errors
    /// [`SamplingError::Config`] for a constraint over a limit, [`SamplingError::Grammar`] for one that
    /// cannot be compiled or that no text meets, [`SamplingError::Full`] when others have been
    /// compiled for too long.
    pub fn compile(&self, spec: &GrammarSpec) -> Result<Grammar, SamplingError> {
        spec.check()?;
        if let Some(grammar) = self.cached(spec) {
            return Ok(grammar);
        }
        let turn = Turn::await_one(&self.shared)?;
        // Of many who ask for the same at once, the first ones compile it.
        if let Some(grammar) = self.cached(spec) {
            return Ok(grammar);
        }
        let grammar = compile_apart(spec, turn)?;
        let rule_bytes = BASE_BYTES + spec.num_bytes() * RULE_BYTES_PER_TEXT_BYTE;
        let num_bytes = grammar.lexer_bytes() + rule_bytes;
        self.cache()
            .insert(spec.clone(), grammar.clone(), num_bytes);
        Ok(grammar)
    }

    fn cached(&self, spec: &GrammarSpec) -> Option<Grammar> {
        self.cache().get(spec)
    }

    fn cache(&self) -> MutexGuard<'_, Cache<Grammar>> {
        self.cache.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Compiles on a thread of its own, whose stack is large and which can be given up on.
fn compile_apart(spec: &GrammarSpec, turn: Turn) -> Result<Grammar, SamplingError> {
    let refused = |reason: String| SamplingError::Grammar {
        name: spec.name(),
        reason,
    };
    let (sender, receiver) = mpsc::channel();
    let wanted = spec.clone();
    thread::Builder::new()
        .name("grammar".into())
        .stack_size(STACK_BYTES)
        .spawn(move || {
            let grammar = turn.0.compile(&wanted);
            drop(turn);
            // After its time limit, no request waits for it any more.
            let _ = sender.send(grammar);
        })
        .map_err(|error| refused(format!("no thread to compile on: {error}")))?;
    match receiver.recv_timeout(MAX_COMPILE_TIME) {
        Ok(grammar) => grammar.map_err(refused),
        Err(RecvTimeoutError::Timeout) => Err(refused(format!(
            "compiling took more than {} s; simplify it",
            MAX_COMPILE_TIME.as_secs()
        ))),
        Err(RecvTimeoutError::Disconnected) => Err(refused("the compiler failed".into())),
    }
}

/// One of the compilations that may run at once; ends when dropped, by a panic too.
struct Turn(Arc<Shared>);

impl Turn {
    /// Waits until fewer than [`MAX_COMPILING`] others compile, at most as long as one may take.
    fn await_one(shared: &Arc<Shared>) -> Result<Self, SamplingError> {
        let num_compiling = shared
            .num_compiling
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        let (mut num_compiling, waited) = shared
            .turn_ended
            .wait_timeout_while(num_compiling, MAX_COMPILE_TIME, |num| *num >= MAX_COMPILING)
            .unwrap_or_else(PoisonError::into_inner);
        if waited.timed_out() {
            return Err(SamplingError::Full {
                what: "grammars in compilation",
                limit: MAX_COMPILING,
            });
        }
        *num_compiling += 1;
        Ok(Self(Arc::clone(shared)))
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        let lock = self.0.num_compiling.lock();
        *lock.unwrap_or_else(PoisonError::into_inner) -= 1;
        self.0.turn_ended.notify_one();
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
