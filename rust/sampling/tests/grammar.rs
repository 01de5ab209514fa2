//! What lexers and tables take while answers go on under grammars made to make them large.

use spectrie_sampling::{
    AllowedTokens, Grammar, GrammarCompiler, GrammarCursor, GrammarEnd, GrammarSpec, GrammarState,
};

/// The first token ends an answer.
const TOKENS: [&str; 14] = [
    "",
    "a",
    "b",
    "c",
    "d",
    "e",
    "ab",
    "ba",
    "bcd",
    "eea",
    "abcdeabcde",
    "deadbeaded",
    "9",
    "c9",
];

#[cfg(test)]
fn compile(pattern: &str) -> Grammar {
    let bytes = TOKENS.map(|text| text.as_bytes().to_vec()).to_vec();
    let compiler = GrammarCompiler::new(bytes, &[0]).unwrap();
    let spec = GrammarSpec::Regex(pattern.into());
    compiler.compile(&spec).unwrap()
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

/// What may follow, but for the end of the answer.
fn follows(state: &mut GrammarState) -> Vec<u32> {
    if state.prepare().is_err() {
        return Vec::new();
    }
    let mask = state.allowed().unwrap_or_default();
    let is_allowed = |&token: &u32| mask[token as usize / 32] >> (token % 32) & 1 == 1;
    (1..TOKENS.len() as u32).filter(is_allowed).collect()
}

/// Goes along drafts and back.
fn draft(cursor: &mut GrammarCursor, lottery: &mut Lottery) -> Result<(), String> {
    let mut num_steps = 0;
    for _ in 0..12 {
        cursor.forced()?;
        let token = 1 + lottery.below(TOKENS.len() - 1) as u32;
        if cursor.allows(token)? {
            cursor.step(token)?;
            num_steps += 1;
        }
    }
    (0..num_steps).try_for_each(|_| cursor.step_back())
}

#[test]
fn lexers_of_all_running_answers_stay_within_a_bound_in_sum() {
    // Each text goes through other ones of their millions of states, each wide for its alphabet.
    let pairs = ('f'..='z').chain('A'..='Z').zip('!'..='z');
    let pairs: Vec<String> = pairs
        .map(|(one, other)| format!("{one}\\x{:02x}", other as u32))
        .collect();
    let wide = pairs.join("|");
    let patterns = [
        "[a-e]*a[a-e]{22}9",
        "[a-e]*[bd][a-e]{25}9",
        "[a-e]*([ae][a-e]{21,30}9)",
    ];
    let grammars = patterns.map(|pattern| compile(&format!("{pattern}|{wide}")));
    let mut answers: Vec<_> = (0..12)
        .map(|index| {
            let grammar = &grammars[index % grammars.len()];
            let state = GrammarState::new(grammar.clone(), true);
            (state, grammar.cursor(), Lottery(index as u64))
        })
        .collect();
    let mut most_bytes = 0;
    let mut num_failed = 0;
    for _ in 0..1_000 {
        for (state, cursor, lottery) in &mut answers {
            let failed = draft(cursor, lottery).is_err();
            let can_follow = follows(state);
            let letters: Vec<u32> = can_follow.into_iter().filter(|&token| token < 12).collect();
            if failed || letters.is_empty() {
                num_failed += 1;
                continue;
            }
            let token = letters[lottery.below(letters.len())];
            state.push(&[token]);
            cursor.push(token).unwrap();
        }
        let lexers = answers
            .iter()
            .map(|(state, cursor, _)| state.lexer_bytes() + cursor.lexer_bytes());
        most_bytes = most_bytes.max(lexers.sum());
    }
    // 8 MiB, and twice what these texts of some 2,500 bytes take by themselves.
    let of_one = 10 << 20;
    assert!(most_bytes <= answers.len() * 2 * of_one, "{most_bytes}");
    assert_eq!(num_failed, 0);
}

#[test]
fn an_answer_goes_on_after_more_states_than_one_lexer_may_take() {
    let mut state = GrammarState::new(compile("[a-e]*a[a-e]{18}9"), true);
    let mut text: Vec<u8> = Vec::new();
    let mut lottery = Lottery(1);
    for _ in 0..20_000 {
        let fits = |&token: &u32| {
            let token = TOKENS[token as usize].as_bytes();
            let letters = token.strip_suffix(b"9").unwrap_or(token);
            let whole = [&text[text.len().saturating_sub(20)..], letters].concat();
            let may_end = || whole.len() >= 19 && whole[whole.len() - 19] == b'a';
            letters.len() == token.len() || may_end()
        };
        let expected: Vec<u32> = (1..TOKENS.len() as u32).filter(fits).collect();
        assert_eq!(follows(&mut state), expected, "after {} bytes", text.len());
        let token = 1 + lottery.below(5) as u32;
        text.extend(TOKENS[token as usize].bytes());
        state.push(&[token]);
    }
}

#[test]
fn a_cursor_ahead_of_an_answer_allows_what_the_answer_would_be_allowed_there() {
    let mut num_compared = 0;
    let patterns = ["(ab|ba){2,6}(c9)?", "[a-e]{3,40}9*", "(bcd|b[a-e]*)9"];
    for (pattern, heeds_eos) in patterns
        .iter()
        .flat_map(|pattern| [(pattern, true), (pattern, false)])
    {
        let grammar = compile(pattern);
        let mut lottery = Lottery(7);
        for _ in 0..40 {
            let (mut cursor, mut answer) = (grammar.cursor(), Vec::new());
            while answer.len() < 12 {
                let mut state = GrammarState::new(grammar.clone(), heeds_eos);
                state.push(&answer);
                let expected = state.prepare().is_ok().then(|| state.allowed()).flatten();
                let allowed = cursor.allowed(heeds_eos).unwrap();
                assert_eq!(
                    allowed.as_ref().map(AllowedTokens::words),
                    expected,
                    "{answer:?}"
                );
                num_compared += 1;
                let follows = follows(&mut state);
                if follows.is_empty() {
                    break;
                }
                if lottery.below(4) == 0 && !answer.is_empty() {
                    cursor.step_back().unwrap();
                    answer.pop();
                    continue;
                }
                let token = follows[lottery.below(follows.len())];
                cursor.step(token).unwrap();
                answer.push(token);
            }
        }
    }
    assert!(num_compared > 1_000, "{num_compared}");
}

#[test]
fn an_answer_ends_where_its_text_may_be_too_much_in_the_rules() {
    let bytes = TOKENS.map(|text| text.as_bytes().to_vec()).to_vec();
    let compiler = GrammarCompiler::new(bytes, &[0]).unwrap();
    // Each "a" begins every one of them.
    let code = |index: usize| -> String {
        let digit = |place: u32| ["b", "c", "d", "e"][index / 4_usize.pow(place) % 4];
        (0..5).map(digit).collect()
    };
    let rules: Vec<String> = (0..800)
        .map(|index| format!("\"a\" \"{}\"", code(index)))
        .collect();
    let text = format!("start: item+\nitem: {}", rules.join(" | "));
    let grammar = compiler.compile(&GrammarSpec::Lark(text)).unwrap();
    let mut state = GrammarState::new(grammar, true);
    let mut most_bytes = 0;
    let item = [1, 2, 2, 2, 2, 2];
    let num_items = (0..8_000)
        .take_while(|_| {
            state.push(&item);
            most_bytes = most_bytes.max(state.table_bytes());
            !state.has_ended()
        })
        .count();
    assert!(most_bytes <= 2 * (64 << 20) + (1 << 20), "{most_bytes}");
    let Err(GrammarEnd::Failed(reason)) = state.prepare() else {
        panic!("{num_items} items and {most_bytes} bytes");
    };
    assert!(reason.contains("too many things"), "{reason}");
    assert!(num_items > 500, "{num_items}");
}
