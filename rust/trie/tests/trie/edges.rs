//! Edges of capacity, eviction and matching that have broken other n-gram memories.

use std::fs;
use std::sync::Arc;

use crate::common::Folder;
use crate::drafts::matches_only;
use spectrie_trie::{
    Corpus, CorpusBuilder, DraftConfig, DraftMemory, Drafter, MAX_DEPTH, MAX_MATCH, MemoryConfig,
    Readers, SharedTrie, TokenId,
};

fn memory(capacity_bytes: usize) -> DraftMemory {
    DraftMemory::new(MemoryConfig {
        capacity_bytes,
        max_namespaces: 4,
    })
    .expect("a valid config")
}

fn drafter(shared: &Arc<SharedTrie>, context: &[TokenId]) -> Drafter {
    let config = DraftConfig {
        max_depth: MAX_DEPTH,
        ..matches_only()
    };
    let mut drafter = Drafter::new(config, Some(Arc::clone(shared)));
    drafter.push_prompt(context);
    drafter
}

#[test]
fn the_smallest_capacity_drafts_documents_of_the_largest_depth() {
    let memory = memory(MemoryConfig::MIN_CAPACITY_BYTES);
    let shared = memory.namespace("a");
    for number in 0..100 {
        // As long as a path is deep, so that nearly nothing else fits beside many of them.
        let text: Vec<_> = (0..=MAX_DEPTH as u32).map(|i| number * 1000 + i).collect();
        shared.insert(&text);
        let tree = drafter(&shared, &text[..24]).draft(MAX_DEPTH, 0.0);
        assert!(!tree.is_empty());
        let tokens: Vec<_> = tree.nodes.iter().map(|node| node.token).collect();
        assert_eq!(tokens, text[24..24 + tree.len()]);
        assert!(memory.bytes() <= MemoryConfig::MIN_CAPACITY_BYTES);
    }
}

#[test]
fn a_draft_of_text_that_was_evicted_since_can_be_observed() {
    let memory = memory(MemoryConfig::MIN_CAPACITY_BYTES);
    let shared = memory.namespace("a");
    let text: Vec<_> = (0..200).collect();
    shared.insert(&text);
    let mut drafter = drafter(&shared, &text[..20]);
    let tree = drafter.draft(8, 0.0);
    assert_eq!(tree.nodes[0].token, 20);
    for number in 1..60 {
        shared.insert(&(0..200).map(|i| number * 1000 + i).collect::<Vec<_>>());
    }
    let path = tree.walk(&text[20..28]);
    drafter.observe(&tree, &path);
    drafter.push_output(&text[20..=28]);
    assert!(drafter.draft(8, 0.0).is_empty(), "that text is gone");
    assert_eq!(
        memory.namespaces()[0].accepted_tokens,
        0,
        "nobody is credited for it"
    );
}

#[test]
fn a_prompt_is_drafted_from_without_being_taught() {
    let memory = memory(1 << 20);
    let shared = memory.namespace("a");
    let prompt = [1, 2, 3, 4, 5, 6, 7, 8, 1, 2, 3, 4];
    let tree = drafter(&shared, &prompt).draft(4, 0.0);
    assert_eq!(tree.nodes[0].token, 5, "its own text is the first source");
    assert_eq!(memory.num_tokens(), 0, "and stays its own");
}

#[test]
fn a_context_longer_than_any_match_is_matched_by_its_end() {
    let memory = memory(1 << 20);
    let shared = memory.namespace("a");
    let text: Vec<_> = (0..300).collect();
    shared.insert(&text);
    for length in [1, 2, MAX_MATCH - 1, MAX_MATCH, MAX_MATCH + 1, 250] {
        let mut context: Vec<_> = (9000..9500).collect();
        context.extend_from_slice(&text[290 - length..290]);
        let tree = drafter(&shared, &context).draft(4, 0.0);
        assert_eq!(tree.nodes[0].token, 290, "after {length} known tokens");
    }
}

#[test]
fn text_taught_after_a_request_began_is_drafted_by_it() {
    let memory = memory(1 << 20);
    let shared = memory.namespace("a");
    let mut running = drafter(&shared, &[1, 2, 3, 4]);
    assert!(running.draft(4, 0.0).is_empty());
    // First a short match, then a longer one: neither is missed for the state before.
    shared.insert(&[9, 4, 6]);
    assert_eq!(running.draft(4, 0.0).nodes[0].token, 6);
    shared.insert(&[1, 2, 3, 4, 5]);
    assert_eq!(running.draft(4, 0.0).nodes[0].token, 5);
}

#[test]
fn a_corpus_that_cannot_be_opened_leaves_the_others() {
    let folder = Folder::new();
    let memory = memory(1 << 20);
    let path = folder.path().join("good.corpus");
    let mut builder = CorpusBuilder::new("good", "").expect("a name");
    builder.push(&[1, 2, 3]).expect("room");
    builder.finish(&path).expect("a writable folder");
    let corpus = Corpus::open(&path).expect("a whole file");
    memory
        .add_corpus(corpus, Readers::All)
        .expect("a free name");
    let bytes = fs::read(&path).expect("the file");
    let damaged = folder.path().join("damaged.corpus");
    fs::write(&damaged, &bytes[..bytes.len() - 1]).expect("a writable folder");
    assert!(Corpus::open(&damaged).is_err());
    let names: Vec<_> = memory.corpora().into_iter().map(|info| info.name).collect();
    assert_eq!(names, ["good"]);
    assert_eq!(memory.corpus_bytes(), bytes.len());
}

#[test]
fn the_oldest_unused_text_goes_first_and_the_newest_stays() {
    let memory = memory(MemoryConfig::MIN_CAPACITY_BYTES);
    let shared = memory.namespace("a");
    let text = |number: u32| (0..200).map(|i| number * 1000 + i).collect::<Vec<_>>();
    let found = |number: u32| {
        !drafter(&shared, &text(number)[..20])
            .draft(1, 0.0)
            .is_empty()
    };
    for number in 0..100 {
        shared.insert(&text(number));
        let known: Vec<_> = (0..=number).filter(|&number| found(number)).collect();
        assert_eq!(known.last(), Some(&number));
        let oldest = known[0];
        assert_eq!(known, (oldest..=number).collect::<Vec<_>>(), "no gap");
    }
    assert!(!found(0));
}

#[test]
fn more_namespaces_than_blocks_fit_take_turns() {
    let memory = DraftMemory::new(MemoryConfig {
        capacity_bytes: MemoryConfig::MIN_CAPACITY_BYTES,
        max_namespaces: 64,
    })
    .expect("a valid config");
    for round in 0..200 {
        let shared = memory.namespace(&format!("n{}", round % 40));
        let first = round * 1000;
        shared.insert(&(first..first + 100).collect::<Vec<_>>());
        let found = drafter(&shared, &[first + 50, first + 51]).draft(1, 0.0);
        assert_eq!(found.nodes[0].token, first + 52, "the newest text has room");
        assert!(memory.bytes() <= MemoryConfig::MIN_CAPACITY_BYTES);
    }
    assert_eq!(memory.num_namespaces(), 40);
}
