//! Streams against the decoding of everything at once.

#![allow(clippy::unwrap_used)] // helpers of tests fail by panicking

mod common;

use proptest::prelude::{Just, any, prop, prop_assert, prop_assert_eq, prop_oneof, proptest};
use spectrie_text::{TextStream, Tokenizer};

fn streamed(tokenizer: &Tokenizer, ids: &[u32], cuts: &[usize], skip: bool) -> String {
    let mut stream = TextStream::new(tokenizer, &[], skip).unwrap();
    let mut text = String::new();
    let mut rest = ids;
    for &cut in cuts {
        let (now, later) = rest.split_at(cut.min(rest.len()));
        text += &stream.push(now).text;
        rest = later;
    }
    text += &stream.push(rest).text;
    text + &stream.finish()
}

fn tokenizers() -> [Tokenizer; 4] {
    [
        common::byte_level(),
        common::byte_fallback(),
        common::metaspace(),
        common::spaced(),
    ]
}

/// The shortest beginning of `ids` whose text contains a stop string, found by decoding each.
fn naive_stop(tokenizer: &Tokenizer, ids: &[u32], stop: &str) -> Option<(String, usize)> {
    (1..=ids.len()).find_map(|count| {
        let text = tokenizer.decode(&ids[..count], true).unwrap();
        // A character that is not complete yet decodes as U+FFFD and is not text.
        text.find(stop).map(|at| (text[..at].to_owned(), count))
    })
}

proptest! {
    #[test]
    fn deltas_joined_equal_decoding_all(
        kind in 0usize..4,
        picks in prop::collection::vec(any::<prop::sample::Index>(), 0..24),
        cuts in prop::collection::vec(0usize..4, 0..12),
        skip in any::<bool>(),
    ) {
        let tokenizer = &tokenizers()[kind];
        // Two ids more than there are: unknown ones add nothing.
        let ids: Vec<u32> = picks
            .iter()
            .map(|pick| pick.index(tokenizer.vocabulary_size() + 2) as u32)
            .collect();
        let whole = tokenizer.decode(&ids, skip).unwrap();
        prop_assert_eq!(streamed(tokenizer, &ids, &cuts, skip), whole);
    }

    #[test]
    fn multibyte_sequences_never_split(
        picks in prop::collection::vec(prop_oneof![
            Just("中文"), Just("é"), Just("🙂"), Just("👩‍👩‍👧"), Just("हिन्दी"),
            Just(" the"), Just("\r\n"), Just("x")], 0..8),
        fallback in any::<bool>(),
    ) {
        let (tokenizer, text) = (common::byte_level(), picks.concat());
        let tokenizer = if fallback { common::byte_fallback() } else { tokenizer };
        let ids: Vec<u32> = if fallback {
            text.bytes().map(|byte| 3 + u32::from(byte)).collect()
        } else {
            tokenizer.encode(&text, false).unwrap()
        };
        let mut stream = TextStream::new(&tokenizer, &[], true).unwrap();
        let mut deltas: Vec<String> = ids.iter().map(|&id| stream.push(&[id]).text).collect();
        deltas.push(stream.finish());
        prop_assert!(deltas.iter().all(|delta| !delta.contains('\u{fffd}')), "{deltas:?}");
        let whole = tokenizer.decode(&ids, true).unwrap();
        prop_assert_eq!(deltas.concat(), whole);
    }

    #[test]
    fn stop_strings_equal_a_naive_search(
        ids in prop::collection::vec(prop_oneof![
            Just(u32::from(b'E')), Just(u32::from(b'N')), Just(u32::from(b'D')), 256u32..266], 0..16),
        cuts in prop::collection::vec(1usize..4, 0..8),
        stop in prop_oneof![Just("END"), Just("ND"), Just("DE"), Just("é"), Just("🙂a"), Just("e中文E"), Just("\n")],
    ) {
        let tokenizer = common::byte_level();
        let mut stream = TextStream::new(&tokenizer, &[stop.to_owned()], true).unwrap();
        let mut text = String::new();
        let mut keep = None;
        let mut rest = ids.as_slice();
        for cut in cuts.into_iter().chain([usize::MAX]) {
            let (now, later) = rest.split_at(cut.min(rest.len()));
            let delta = stream.push(now);
            text += &delta.text;
            keep = delta.keep_tokens;
            prop_assert_eq!(delta.stop.is_some(), keep.is_some());
            rest = later;
            if keep.is_some() {
                break;
            }
        }
        text += &stream.finish();
        if let Some((before, count)) = naive_stop(&tokenizer, &ids, stop) {
            prop_assert_eq!(text, before);
            prop_assert_eq!(keep, Some(count));
        } else {
            prop_assert_eq!(text, tokenizer.decode(&ids, true).unwrap());
            prop_assert_eq!(keep, None);
        }
    }
}

#[test]
fn a_stop_string_in_a_run_of_byte_tokens_keeps_its_last_byte() {
    let tokenizer = common::byte_fallback();
    let mut ids: Vec<u32> = "x🙂y".bytes().map(|byte| 3 + u32::from(byte)).collect();
    let after = tokenizer.token_id("ND").unwrap();
    ids.push(after);
    let mut stream = TextStream::new(&tokenizer, &["🙂".to_owned()], true).unwrap();
    let delta = stream.push(&ids);
    assert_eq!(delta.text, "x");
    assert_eq!(delta.stop.as_deref(), Some("🙂"));
    assert_eq!(delta.keep_tokens, Some(5));
    assert_eq!(stream.finish(), "");
}

#[test]
fn tokens_are_certain_where_no_stop_string_can_end_before_them_any_more() {
    let tokenizer = common::byte_fallback();
    let mut ids: Vec<u32> = "x🙂yz".bytes().map(|byte| 3 + u32::from(byte)).collect();
    ids.push(tokenizer.token_id("ND").unwrap());
    for (stop, last) in [("🙂", 5), ("z", 7), ("none", 8)] {
        let mut stream = TextStream::new(&tokenizer, &[stop.to_owned()], true).unwrap();
        assert_eq!(stream.num_certain(), 0);
        let certain: Vec<usize> = ids
            .iter()
            .map(|&id| {
                stream.push(&[id]);
                stream.num_certain()
            })
            .collect();
        assert_eq!(certain, [1, 1, 1, 1, 1, 1, 1, last], "{stop}");
    }
    let tokenizer = common::byte_level();
    let mut stream = TextStream::new(&tokenizer, &["aab".to_owned()], true).unwrap();
    stream.push(&[u32::from(b'a'), u32::from(b'a')]);
    // Those that may begin a stop string belong to the answer as it does.
    assert_eq!(stream.num_certain(), 2);
}

#[test]
fn after_a_stop_string_nothing_more_comes() {
    let tokenizer = common::byte_level();
    let end = tokenizer.token_id("END").unwrap();
    let mut stream = TextStream::new(&tokenizer, &["ND".to_owned()], true).unwrap();
    let first = stream.push(&[u32::from(b'a'), end, u32::from(b'b')]);
    assert_eq!((first.text.as_str(), first.keep_tokens), ("aE", Some(2)));
    let second = stream.push(&[u32::from(b'c')]);
    assert_eq!((second.text.as_str(), second.keep_tokens), ("", Some(2)));
    assert_eq!(second.stop.as_deref(), Some("ND"));
    assert_eq!(stream.finish(), "");
}

#[test]
fn special_tokens_appear_only_when_asked_for() {
    let tokenizer = common::byte_level();
    let ids = tokenizer.encode("a<|end|>b<|user|>", false).unwrap();
    assert_eq!(streamed(&tokenizer, &ids, &[], true), "ab<|user|>");
    assert_eq!(
        streamed(&tokenizer, &ids, &[1, 1], false),
        "a<|end|>b<|user|>"
    );
}
