//! Other requests draft the text of running ones at once, until it is forgotten.

use std::sync::Arc;

use crate::drafts::matches_only;
use spectrie_trie::{
    DraftConfig, DraftMemory, Drafter, MemoryConfig, SEPARATOR, SharedTrie, TokenId,
};

fn memory() -> DraftMemory {
    DraftMemory::new(MemoryConfig::default()).expect("a valid config")
}

fn continuation(shared: &Arc<SharedTrie>, context: &[TokenId]) -> Vec<TokenId> {
    let mut drafter = Drafter::new(matches_only(), Some(Arc::clone(shared)));
    drafter.push_prompt(context);
    let tree = drafter.draft(4, 0.0);
    tree.nodes.iter().map(|node| node.token).collect()
}

#[test]
fn a_pushed_token_is_drafted_before_the_document_ends() {
    let memory = memory();
    let shared = memory.namespace("a");
    let mut insertion = shared.begin();
    insertion.push(&[1]);
    assert_eq!(
        memory.bytes(),
        0,
        "one token alone has nothing to be found by"
    );
    insertion.push(&[2]);
    assert_eq!(continuation(&shared, &[1]), [2]);
    insertion.push(&[3, 4]);
    assert_eq!(continuation(&shared, &[1]), [2, 3, 4]);
    drop(insertion);
    shared.insert(&[8, 9]);
    assert_eq!(continuation(&shared, &[4]), [], "documents do not touch");
    assert_eq!(memory.num_tokens(), 6);
}

#[test]
fn lessons_side_by_side_are_whole() {
    let memory = memory();
    let shared = memory.namespace("a");
    let mut insertions: Vec<_> = (0..5).map(|_| shared.begin()).collect();
    // Pieces of different sizes, so that extents fill up and follow each other in any order.
    for round in 0..40_u32 {
        for (number, insertion) in insertions.iter_mut().enumerate() {
            let size = 1 + (round + number as u32) % 17;
            let first = number as u32 * 10_000 + round * 17;
            let piece: Vec<_> = (first..first + size).collect();
            insertion.push(&piece);
        }
    }
    for number in 0..5_u32 {
        let mut expected = Vec::new();
        for round in 0..40 {
            let first = number * 10_000 + round * 17;
            expected.extend(first..=first + (round + number) % 17);
        }
        for end in 1..expected.len() {
            let found = continuation(&shared, &expected[end.saturating_sub(30)..end]);
            assert_eq!(
                found.first(),
                Some(&expected[end]),
                "insertion {number} at {end}"
            );
        }
    }
}

#[test]
fn a_separator_ends_one_document_of_a_lesson_and_begins_another() {
    let shared = memory().namespace("a");
    let mut insertion = shared.begin();
    insertion.push(&[1, 2, SEPARATOR, 3]);
    insertion.push(&[4, SEPARATOR]);
    insertion.push(&[5, 6]);
    assert_eq!(continuation(&shared, &[1]), [2]);
    assert_eq!(continuation(&shared, &[2]), []);
    assert_eq!(continuation(&shared, &[3]), [4]);
    assert_eq!(continuation(&shared, &[4]), []);
    assert_eq!(continuation(&shared, &[5]), [6]);
}

#[test]
fn a_lesson_goes_on_after_its_block_was_evicted() {
    let config = MemoryConfig {
        capacity_bytes: 64 << 10,
        max_namespaces: 4,
    };
    let memory = DraftMemory::new(config).expect("a valid config");
    let shared = memory.namespace("a");
    let mut insertion = shared.begin();
    insertion.push(&(0..100).collect::<Vec<_>>());
    for number in 1..60 {
        shared.insert(&(number * 1000..number * 1000 + 300).collect::<Vec<_>>());
        assert!(memory.bytes() <= 64 << 10);
    }
    assert_eq!(continuation(&shared, &[50]), [], "it was evicted");
    assert!(memory.evicted_tokens() > 10_000);
    insertion.push(&[100, 101, 102]);
    // The last tokens taught serve as context again.
    assert_eq!(continuation(&shared, &[97, 98, 99]), [100, 101, 102]);
}

#[test]
fn a_forgotten_namespace_is_gone_for_running_requests_too() {
    let memory = memory();
    let shared = memory.namespace("a");
    memory.namespace("b").insert(&[1, 2, 7]);
    shared.insert(&[1, 2, 3, 4]);
    let mut insertion = shared.begin();
    insertion.push(&[1, 2, 5]);
    let mut running = Drafter::new(matches_only(), Some(Arc::clone(&shared)));
    running.push_prompt(&[1, 2]);
    assert!(!running.draft(4, 0.0).is_empty());

    assert!(memory.forget("a").expect("a disk"));
    assert!(
        !memory.forget("a").expect("a disk"),
        "there is none any more"
    );
    assert!(running.draft(4, 0.0).is_empty());
    insertion.push(&[6]);
    drop(insertion);
    shared.insert(&[1, 2, 3, 4]);
    drop(running);
    assert_eq!(shared.bytes(), 0, "nothing more of its requests is taught");
    assert_eq!(continuation(&memory.namespace("a"), &[1, 2]), []);
    memory.namespace("a").insert(&[1, 2, 9]);
    assert_eq!(continuation(&memory.namespace("a"), &[1, 2]), [9]);
    assert_eq!(continuation(&memory.namespace("b"), &[1, 2]), [7]);
}

#[test]
fn namespaces_say_what_they_hold_and_what_was_accepted() {
    let memory = memory();
    let shared = memory.namespace("b");
    shared.insert(&[1, 2, 3, 4]);
    memory.namespace("a");
    let mut drafter = Drafter::new(matches_only(), Some(Arc::clone(&shared)));
    drafter.push_prompt(&[1, 2]);
    let tree = drafter.draft(2, 0.0);
    drafter.observe(&tree, &[0, 1]);
    let infos = memory.namespaces();
    let names: Vec<_> = infos.iter().map(|info| info.name.as_str()).collect();
    assert_eq!(names, ["a", "b"]);
    assert_eq!(
        (infos[0].num_tokens, infos[0].bytes, infos[0].num_blocks),
        (0, 0, 0)
    );
    assert_eq!((infos[1].num_tokens, infos[1].accepted_tokens), (4, 2));
    assert_eq!((infos[1].num_blocks, infos[1].bytes), (1, memory.bytes()));
}

#[test]
fn a_request_does_not_take_what_it_teaches_for_the_text_of_others() {
    let memory = memory();
    let shared = memory.namespace("a");
    let prompt: Vec<u32> = (0..3000).map(|i| i * 7 % 61).collect();
    let alone = {
        let mut drafter = Drafter::new(DraftConfig::default(), Some(Arc::clone(&shared)));
        drafter.push_prompt(&prompt);
        drafter.draft(16, 0.0)
    };
    let mut insertion = shared.begin();
    let mut drafter = Drafter::new(DraftConfig::default(), Some(Arc::clone(&shared)));
    drafter.push_prompt(&prompt);
    for piece in prompt.chunks(100) {
        insertion.push(piece);
        drafter.exclude(insertion.ranges());
    }
    assert_eq!(drafter.draft(16, 0.0), alone);
    let mut other = Drafter::new(DraftConfig::default(), Some(Arc::clone(&shared)));
    other.push_prompt(&prompt[..20]);
    assert_eq!(
        other.draft(1, 0.0).nodes[0].token,
        prompt[20],
        "others find it"
    );
}
