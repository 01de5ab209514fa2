//! The bigram table is drafted from the first step on.

use std::sync::Arc;

use crate::common::Folder;
use spectrie_trie::{
    Bigrams, DraftConfig, DraftMemory, Drafter, MemoryConfig, SharedTrie, TokenId,
};
use spectrie_types::Source;
use spectrie_types::sizes::TOP_K;

/// 0 is followed by 1, 1 by 2 and so on up to 8, with probability 0.9.
fn counting() -> Bigrams {
    let mut ids = [0; 9 * TOP_K];
    let mut given = [0.0; 9 * TOP_K];
    for token in 0..8 {
        ids[token * TOP_K] = token as TokenId + 1;
        given[token * TOP_K] = 0.9;
    }
    Bigrams::from_rows(&ids, &given).expect("whole rows")
}

fn memory() -> DraftMemory {
    DraftMemory::new(MemoryConfig::default()).expect("a valid config")
}

fn drafted(shared: &Arc<SharedTrie>) -> Vec<(TokenId, Source)> {
    let mut drafter = Drafter::new(DraftConfig::default(), Some(Arc::clone(shared)));
    drafter.push_prompt(&[30, 3]);
    let tree = drafter.draft(12, 0.0);
    let named = tree.nodes.iter().map(|node| (node.token, node.source));
    named
        .filter(|(_, source)| *source == Source::Recycled)
        .take(2)
        .collect()
}

#[test]
fn the_first_step_follows_bigrams_in_every_namespace_until_they_are_taken_away() {
    let memory = memory();
    let early = memory.namespace("early");
    assert_eq!(drafted(&early), []);
    memory.set_bigrams(Some(Arc::new(counting())));
    let expected = [4, 5].map(|token| (token, Source::Recycled));
    assert_eq!(drafted(&early), expected);
    assert_eq!(drafted(&memory.namespace("late")), expected);
    memory.set_bigrams(None);
    assert_eq!(drafted(&early), []);
}

#[test]
fn bigrams_count_neither_as_memory_nor_as_text() {
    let memory = memory();
    memory.set_bigrams(Some(Arc::new(counting())));
    drafted(&memory.namespace("default"));
    assert_eq!((memory.bytes(), memory.num_tokens()), (0, 0));
    assert_eq!(counting().bytes(), 9 * TOP_K * 8);
}

#[test]
fn what_the_request_recycled_outweighs_what_one_token_alone_says() {
    let memory = memory();
    memory.set_bigrams(Some(Arc::new(counting())));
    let shared = memory.namespace("default");
    let mut drafter = Drafter::new(DraftConfig::default(), Some(shared));
    drafter.recycle(Some(30), 3, &[(7, 0.97), (4, 0.01)]);
    drafter.push_prompt(&[30, 3]);
    let tree = drafter.draft(4, 0.0);
    assert_eq!(tree.nodes[0].token, 7);
    let other = tree.nodes.iter().find(|node| node.token == 4);
    assert!(other.is_none_or(|node| node.value < tree.nodes[0].value));
}

#[test]
fn a_file_gives_the_table_back_to_its_model_alone() {
    let folder = Folder::new();
    let path = folder.path().join("model.bigrams");
    counting().save(&path, "abc").expect("a writable folder");
    assert_eq!(Bigrams::open(&path, "abc"), Ok(counting()));
    let refused = Bigrams::open(&path, "abd").expect_err("another model");
    let message = refused.to_string();
    assert!(
        message.contains("model abc") && message.contains("model abd"),
        "{message}"
    );
    assert!(counting().save(&path, &"x".repeat(65)).is_err());
    std::fs::write(&path, "something else").expect("a writable folder");
    let message = Bigrams::open(&path, "abc")
        .expect_err("no table")
        .to_string();
    assert!(message.contains("remove it"), "{message}");
}
