//! What is built: found as in format 1, however little memory the builder has.

use proptest::prelude::*;

use super::format_one;
use super::support::{built, cells, found, open, repetitive, scratch_path};
use crate::sources::corpora::layout::BLOCK_BYTES;
use crate::store::chains::LIMITS;
use crate::{BuildProgress, CorpusBuilder, TokenId, TrieError};

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn built_in_ranges_or_at_once_a_corpus_finds_what_that_of_format_one_finds(
        documents in prop::collection::vec(prop::collection::vec(0_u32..4, 2..40), 1..20),
        context in prop::collection::vec(0_u32..4, 1..12),
        heads in 1_usize..300,
    ) {
        let old = found(&open(&format_one::build(&documents)), &context, 1 << 20);
        prop_assert_eq!(found(&open(&built(&documents, heads)), &context, 1 << 20), old.clone());
        prop_assert_eq!(found(&open(&built(&documents, 1 << 20)), &context, 1 << 20), old);
    }
}

#[test]
fn real_text_is_found_as_in_format_one() {
    let sources = [
        include_str!("../../../../DESIGN.md"),
        include_str!("../../../store/block.rs"),
        include_str!("../../../draft/drafter.rs"),
        include_str!("../../hints.rs"),
    ];
    let documents: Vec<Vec<TokenId>> = sources
        .iter()
        .map(|source| source.split_inclusive([' ', '\n']).map(id).collect())
        .collect();
    let old = open(&format_one::build(&documents));
    let new = open(&built(&documents, 5000));
    assert_eq!(new.num_tokens(), old.num_tokens());
    let text = cells(&documents);
    let mut occurrences = 0;
    for end in 1..text.len() {
        let context = crate::store::chains::context_of(&text[..end]);
        let [old, new] = [&old, &new].map(|corpus| found(corpus, context, LIMITS[1]));
        assert_eq!(new, old, "after {end} tokens");
        occurrences += new.len();
    }
    assert!(occurrences > text.len(), "{occurrences} of {}", text.len());
}

/// An id for a word: its hash, below 2^20.
fn id(word: &str) -> TokenId {
    (xxhash_rust::xxh3::xxh3_64(word.as_bytes()) >> 44) as TokenId
}

#[test]
fn building_holds_few_bytes_whatever_the_size() {
    let peak = |tokens: usize| {
        let mut builder = CorpusBuilder::new("a", "")
            .unwrap()
            .bounded(1 << 10, 1 << 14);
        for document in repetitive(tokens, 9) {
            builder.push(&document).unwrap();
        }
        let (mut peak, mut last) = (0, None);
        let path = scratch_path();
        let progress = |progress: BuildProgress| {
            peak = peak.max(progress.held_bytes);
            assert!(last.is_none_or(|last: BuildProgress| last.done < progress.done));
            last = Some(progress);
            Ok(())
        };
        builder.finish_with(&path, progress).unwrap();
        std::fs::remove_file(&path).unwrap();
        let last = last.unwrap();
        assert_eq!(last.done, last.total);
        (peak, last.total)
    };
    let (small, _) = peak(10_000);
    let (large, visited) = peak(160_000);
    assert!(visited > 10 * 160_000, "many passes: {visited}");
    // Each pass more adds the buffer of one stream, each block a checksum; no token adds any.
    let passes = visited as usize / 160_000 + 1;
    assert!(
        large - small <= passes * BLOCK_BYTES + 8 * 100,
        "{small} to {large}"
    );
    assert!(large < 160_000 * 27 / 2, "less than half the file: {large}");
}

#[test]
fn an_error_of_the_progress_ends_the_building_and_leaves_nothing() {
    let mut builder = CorpusBuilder::new("a", "").unwrap();
    builder.push(&[1, 2, 3]).unwrap();
    let path = scratch_path();
    let stopped = builder.finish_with(&path, |_| Err(std::io::Error::other("enough")));
    let error = stopped.unwrap_err();
    assert!(matches!(error, TrieError::Io { .. }) && error.to_string().ends_with("enough"));
    assert!(!path.exists());
}

#[test]
fn a_scratch_folder_that_cannot_be_made_is_named_and_stays_an_error() {
    let builder = CorpusBuilder::new("a", "").unwrap();
    let mut builder = builder.scratch_in("/dev/null/no".into()).bounded(10, 10);
    let error = builder.push(&[1; 100]).unwrap_err();
    assert!(error.to_string().contains("/dev/null/no"), "{error}");
    assert_eq!(builder.push(&[1, 2]), Err(error.clone()));
    assert_eq!(builder.finish(&scratch_path()), Err(error));
}
