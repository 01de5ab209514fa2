//! Arbitrary keys files: each is read, or refused without a word of what stands in it.

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::{Index, select};

use super::keys_text::parse;

/// Lines of both forms, right and wrong.
const LINES: &[&str] = &[
    "[[keys]]",
    "[keys]",
    "tenant = \"ann\"",
    "tenant = 'b/c'",
    "sha256 = \"2bb80d537b1da3e38bd30361aa855686bde0eacd7162fef6a25fe97bf527a25b\"",
    "sha256 = \"XQZSECRET\"",
    "expires = 2027-01-31T12:00:00+01:00",
    "expires = 9999-12-31",
    "models = [\"small\", 3]",
    "max_priority = -2147483648",
    "requests_per_minute = 99999999999999999999",
    "tokens_per_minute = 0",
    "requests_at_once = nan",
    "XQZSECRET = { a = [[[1]]] }",
    "XQZSECRET ann",
    "XQZSECRET",
    "# XQZSECRET",
    "",
    "\"\"\"",
];

/// Lines in any order, with some of their bytes replaced, doubled or left out.
fn file() -> impl Strategy<Value = String> {
    let change = (any::<Index>(), 0..3_u8, any::<char>());
    (vec(select(LINES), 0..12), vec(change, 0..4)).prop_map(|(lines, changes)| {
        let mut text: Vec<char> = lines.join("\n").chars().collect();
        for (at, kind, with) in changes {
            if text.is_empty() {
                break;
            }
            let at = at.index(text.len());
            match kind {
                0 => text[at] = with,
                1 => text.insert(at, with),
                _ => drop(text.remove(at)),
            }
        }
        text.into_iter().collect()
    })
}

fn is_read_or_refused(text: &str) {
    match parse(text) {
        Ok(entries) => {
            assert!(!entries.is_empty());
            for entry in entries {
                assert!(!entry.tenant.is_empty() && !entry.tenant.contains('/'));
            }
        }
        // A part of a changed word may be in the reason by chance, never as much as this.
        Err(reason) => assert!(!reason.contains("XQZSEC"), "{reason}"),
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, cases: 2_000, ..ProptestConfig::default() })]

    #[test]
    fn any_keys_file_is_read_or_refused_in_silence(text in file()) {
        is_read_or_refused(&text);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, cases: 1_000_000, ..ProptestConfig::default() })]

    #[test]
    #[ignore = "deep: a million inputs"]
    fn any_of_a_million_keys_files_is_read_or_refused_in_silence(text in file()) {
        is_read_or_refused(&text);
    }
}
