//! A grammar with a machine of one's own, whose lexer is not allowed to become large.
//!
//! The lexer of the library keeps every state it has been through. Most of them were looked at for a
//! mask and never entered: those are got rid of with the machine, which is replaced by one that has
//! taken the tokens alone. When that happens depends on nothing but what was asked of this place.
//!
//! It happens where the question was asked, in the step loop: a copy of 2.5 MB takes 0.5 ms, and the
//! tokens since the last replacement are taken once more, 50,000 to 2 million a second (AMD EPYC).

use super::Grammar;
use super::machine::Machine;
use super::vocabulary::Vocabulary;

/// Bytes that the lexer of a machine may grow by before the machine is replaced. One mask added
/// 3 MB at most, whatever the grammar: its work is limited.
const MAX_GROWN_BYTES: usize = 8 << 20;

/// Bytes that tokens alone may add to a lexer; most add nothing, those that a grammar counts 0.4 to
/// 0.9 kB for each byte of theirs.
const MAX_PATH_BYTES: usize = 16 << 20;

/// Bytes that the table of what a text may be in the rules may take, estimated high. For each byte of a
/// JSON text 34 to 180 were measured, and 850 where 300 properties of its objects are optional.
const MAX_TABLE_BYTES: usize = 64 << 20;

const TOO_MANY_PLACES: &str = "what was written may be too many things in its rules";

const TOO_MANY_STATES: &str = "what was written takes too many states";

/// A place in a grammar, its beginning at first. After an error it is of no use.
///
/// Its lexers take at most twice what the compiled grammar's takes and the tokens add, and 8 MiB;
/// while a question is answered, what it adds. Its tables of rules take at most 64 MiB each, of which
/// there are two once a machine was replaced.
pub(super) struct Place {
    grammar: Grammar,
    /// None until it is needed: thousands of answers may wait for their turn.
    machine: Option<Machine>,
    /// From the beginning to here.
    tokens: Vec<u32>,
    /// Tokens that are never taken back.
    num_sure: usize,
    /// Has taken sure tokens and was asked for nothing.
    base: Option<Base>,
    max_grown_bytes: usize,
}

/// What the machines of a place are forked from once the first one has grown too large, so that each
/// token is taken only twice, however often that happens.
struct Base {
    machine: Machine,
    num_taken: usize,
}

impl Place {
    pub(super) fn new(grammar: Grammar) -> Self {
        Self {
            grammar,
            machine: None,
            tokens: Vec::new(),
            num_sure: 0,
            base: None,
            max_grown_bytes: MAX_GROWN_BYTES,
        }
    }

    pub(super) fn vocabulary(&self) -> &Vocabulary {
        self.grammar.vocabulary()
    }

    /// Bytes of its lexers, by the library's estimate.
    pub(super) fn lexer_bytes(&self) -> usize {
        let base = self.base.as_ref().map(|base| &base.machine);
        let machines = self.machine.iter().chain(base);
        machines.map(Machine::lexer_bytes).sum()
    }

    /// Bytes of its tables, at most.
    pub(super) fn table_bytes(&self) -> usize {
        let base = self.base.as_ref().map(|base| &base.machine);
        let machines = self.machine.iter().chain(base);
        machines.map(Machine::table_bytes).sum()
    }

    /// Whether the answer can only end here.
    pub(super) fn is_complete(&self) -> bool {
        self.machine.as_ref().is_some_and(Machine::is_complete)
    }

    /// Goes on by a token that may follow and is not taken back.
    pub(super) fn push(&mut self, token: u32) -> Result<(), String> {
        self.step(token)?;
        self.num_sure = self.tokens.len();
        self.tidy()
    }

    /// Goes on by a token that may follow, until [`Self::step_back`].
    pub(super) fn step(&mut self, token: u32) -> Result<(), String> {
        let token = self.vocabulary().first_of(token);
        let table_bytes = self.attempt(|machine| {
            machine.step(token)?;
            Ok(machine.table_bytes())
        })?;
        if table_bytes > MAX_TABLE_BYTES {
            return Err(TOO_MANY_PLACES.into());
        }
        self.tokens.push(token);
        self.tidy()
    }

    /// Takes the last step back.
    pub(super) fn step_back(&mut self) -> Result<(), String> {
        if self.tokens.len() == self.num_sure {
            return Err("no step to take back".into());
        }
        self.attempt(Machine::step_back)?;
        self.tokens.pop();
        self.tidy()
    }

    /// Asks what follows here.
    pub(super) fn ask<T>(
        &mut self,
        question: impl Fn(&mut Machine) -> Result<T, String>,
    ) -> Result<T, String> {
        let answer = self.attempt(question)?;
        self.tidy()?;
        Ok(answer)
    }

    /// Does `work`; again with a new machine where the states of earlier work left too few.
    fn attempt<T>(
        &mut self,
        work: impl Fn(&mut Machine) -> Result<T, String>,
    ) -> Result<T, String> {
        let beginning = &self.grammar.compiled.machine;
        let machine = self.machine.get_or_insert_with(|| beginning.fork());
        let had_grown = machine.grown_bytes() > 0;
        let result = work(machine);
        if !had_grown || !machine.is_full() {
            return result;
        }
        let machine = self.replace()?;
        let result = work(machine)?;
        if machine.is_full() {
            return Err(TOO_MANY_STATES.into());
        }
        Ok(result)
    }

    /// Replaces a machine that has grown too large.
    fn tidy(&mut self) -> Result<(), String> {
        let is_too_large = |machine: &Machine| {
            // Nothing more is asked of one that is complete.
            machine.grown_bytes() > self.max_grown_bytes && !machine.is_complete()
        };
        if self.machine.as_ref().is_some_and(is_too_large) {
            self.replace()?;
        }
        Ok(())
    }

    /// A machine here that no question has made larger, instead of the one there was.
    fn replace(&mut self) -> Result<&mut Machine, String> {
        self.machine = None;
        let base = self.base.take().unwrap_or_else(|| Base {
            machine: self.grammar.compiled.machine.fork(),
            num_taken: 0,
        });
        let (mut machine, num_taken) = (base.machine, base.num_taken);
        for &token in &self.tokens[num_taken..self.num_sure] {
            machine.step(token)?;
        }
        if machine.grown_bytes() > MAX_PATH_BYTES {
            return Err(TOO_MANY_STATES.into());
        }
        let mut fork = machine.fork();
        self.base = Some(Base {
            machine,
            num_taken: self.num_sure,
        });
        for &token in &self.tokens[self.num_sure..] {
            fork.step(token)?;
        }
        Ok(self.machine.insert(fork))
    }
}

#[cfg(test)]
mod tests {
    use super::super::machine::Mask;
    use super::super::{GrammarCompiler, GrammarSpec};
    use super::*;

    /// All bytes of ASCII, the first as the end of an answer, and pieces of words.
    fn vocabulary() -> Vec<Vec<u8>> {
        let pieces = [
            "ab", "ba", "aab", "name", "\"na", "me\"", "\": ", "{\"", "\"}", ", \"", "12", "345",
        ];
        let mut vocabulary: Vec<Vec<u8>> = (0..128).map(|byte| vec![byte]).collect();
        vocabulary[0].clear();
        vocabulary.extend(pieces.map(|piece| piece.as_bytes().to_vec()));
        vocabulary
    }

    fn grammars() -> Vec<Grammar> {
        let schema = r#"{"type": "object", "properties": {"name": {"type": "string", "maxLength": 40},
            "ages": {"type": "array", "items": {"type": "integer"}, "maxItems": 30}},
            "required": ["name", "ages"], "additionalProperties": false}"#;
        let texts = (0..60).map(|index| format!("{index}ab{}name", index * 7));
        let specs = [
            GrammarSpec::JsonSchema(schema.into()),
            GrammarSpec::JsonObject,
            GrammarSpec::Regex("[ab]*a[ab]{9}(name){3}".into()),
            GrammarSpec::Regex("(a{1,90}|(ab){1,90}|(aab){1,90})Z".into()),
            GrammarSpec::Lark("start: PAIR+\nPAIR: /[ab]{3,8}/ \": \" /[0-9]{1,9}/ \", \"".into()),
            GrammarSpec::Choice(texts.collect()),
        ];
        let encode = |text: &str| text.bytes().map(u32::from).collect();
        let compilers = [
            GrammarCompiler::new(vocabulary(), &[0]).unwrap(),
            GrammarCompiler::with_tokenizer(vocabulary(), &[0], encode).unwrap(),
        ];
        let compile = |spec| compilers.each_ref().map(|one| one.compile(spec).unwrap());
        specs.iter().flat_map(compile).collect()
    }

    /// Numbers that look random.
    struct Lottery(u64);

    impl Lottery {
        fn below(&mut self, limit: usize) -> usize {
            let product = self.0.wrapping_mul(6_364_136_223_846_793_005);
            self.0 = product.wrapping_add(1_442_695_040_888_963_407);
            (self.0 >> 33) as usize % limit
        }
    }

    fn allowed(place: &mut Place) -> Vec<u32> {
        match place.ask(Machine::mask).unwrap() {
            Mask::Tokens(mask) => mask.iter().filter(|&token| token != 0).collect(),
            Mask::Nothing => Vec::new(),
        }
    }

    #[test]
    fn what_follows_is_the_same_whether_machines_are_replaced_or_not() {
        let mut num_replaced = 0;
        for (index, grammar) in grammars().into_iter().enumerate() {
            let mut lottery = Lottery(index as u64);
            let mut places = [0, usize::MAX].map(|max_grown_bytes| Place {
                max_grown_bytes,
                ..Place::new(grammar.clone())
            });
            for _ in 0..80 {
                let [follows, expected] = places.each_mut().map(allowed);
                assert_eq!(follows, expected);
                if follows.is_empty() {
                    break;
                }
                let drafts = lottery.below(6);
                for _ in 0..drafts {
                    let [forced, expected] =
                        places.each_mut().map(|place| place.ask(Machine::forced));
                    assert_eq!(forced, expected);
                    let [follows, expected] = places.each_mut().map(allowed);
                    assert_eq!(follows, expected);
                    if follows.is_empty() {
                        break;
                    }
                    let token = follows[lottery.below(follows.len())];
                    for place in &mut places {
                        place.step(token).unwrap();
                    }
                }
                for place in &mut places {
                    while place.tokens.len() > place.num_sure {
                        place.step_back().unwrap();
                    }
                }
                let token = follows[lottery.below(follows.len())];
                for place in &mut places {
                    place.push(token).unwrap();
                }
                let [accepts, expected] = places
                    .each_mut()
                    .map(|place| place.ask(Machine::is_accepting));
                assert_eq!(accepts, expected);
            }
            assert!(places[1].base.is_none());
            num_replaced += usize::from(places[0].base.is_some());
        }
        assert_eq!(num_replaced, 12);
    }

    #[test]
    fn only_steps_that_are_not_sure_are_taken_back() {
        let mut place = Place::new(grammars().remove(4));
        place.push(u32::from(b'a')).unwrap();
        assert!(place.step_back().is_err());
        let table_bytes = place.table_bytes();
        place.step(u32::from(b'b')).unwrap();
        place.step_back().unwrap();
        assert_eq!(place.table_bytes(), table_bytes);
        assert!(place.step_back().is_err());
    }

    #[test]
    fn text_that_must_follow_is_counted_once_however_often_it_is_asked_for() {
        let mut place = Place::new(grammars().remove(0));
        place.push(u32::from(b'{')).unwrap();
        let before = place.table_bytes();
        place.ask(Machine::forced).unwrap();
        let counted = place.table_bytes();
        assert!(counted > before);
        for _ in 0..3 {
            place.step(u32::from(b'"')).unwrap();
            place.step_back().unwrap();
            place.ask(Machine::forced).unwrap();
            assert_eq!(place.table_bytes(), counted);
        }
    }
}
