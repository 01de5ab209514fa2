//! Shared memory is bounded, and its namespaces are separate.

use std::sync::Arc;

use crate::drafts::matches_only;
use proptest::prelude::*;
use spectrie_trie::{
    DraftMemory, Drafter, MAX_MATCH, MemoryConfig, SEPARATOR, SharedTrie, TokenId,
};

fn memory(capacity_bytes: usize, max_namespaces: usize) -> DraftMemory {
    DraftMemory::new(MemoryConfig {
        capacity_bytes,
        max_namespaces,
    })
    .expect("a valid config")
}

fn continuation(shared: &Arc<SharedTrie>, context: &[TokenId]) -> Vec<TokenId> {
    let mut drafter = Drafter::new(matches_only(), Some(Arc::clone(shared)));
    drafter.push_prompt(context);
    drafter
        .draft(4, 0.0)
        .nodes
        .iter()
        .map(|node| node.token)
        .collect()
}

/// A document that no other number shares a token with.
fn document(number: u32, tokens: u32) -> Vec<TokenId> {
    (0..tokens).map(|i| number * 10_000 + i).collect()
}

#[test]
fn documents_do_not_run_into_each_other() {
    let memory = memory(1 << 20, 4);
    let shared = memory.namespace("a");
    shared.insert(&[1, 2, 3]);
    shared.insert(&[7, 8, 9]);
    shared.insert(&[4, 5, SEPARATOR, 6, 5]);
    assert_eq!(continuation(&shared, &[1, 2]), [3]);
    assert_eq!(continuation(&shared, &[2, 3]), []);
    assert_eq!(continuation(&shared, &[5]), []);
    // Only the part of the context inside a document can match.
    assert_eq!(continuation(&shared, &[3, 7]), [8, 9]);
}

#[test]
fn short_documents_teach_nothing() {
    let memory = memory(1 << 20, 4);
    let shared = memory.namespace("a");
    for document in [&[][..], &[1], &[SEPARATOR], &[SEPARATOR, 1, SEPARATOR]] {
        shared.insert(document);
    }
    assert_eq!(memory.bytes(), 0);
    assert_eq!(continuation(&shared, &[1]), []);
}

#[test]
fn bytes_are_the_sum_over_namespaces_and_stay_within_the_capacity() {
    let capacity = 1 << 20;
    let memory = memory(capacity, 8);
    let shared: Vec<_> = (0..4).map(|i| memory.namespace(&format!("n{i}"))).collect();
    for number in 0..400 {
        shared[number as usize % 4].insert(&document(number, 300));
        let sum: usize = shared.iter().map(|shared| shared.bytes()).sum();
        assert_eq!(memory.bytes(), sum);
        assert!(sum <= capacity, "{sum}");
    }
    assert!(
        memory.bytes() > capacity / 2,
        "the capacity is used: {}",
        memory.bytes()
    );
}

#[test]
fn old_text_makes_room_for_new_text() {
    let memory = memory(256 << 10, 4);
    let shared = memory.namespace("a");
    for number in 0..200 {
        shared.insert(&document(number, 200));
        let context = &document(number, 200)[10..20];
        assert_eq!(
            continuation(&shared, context)[0],
            context[9] + 1,
            "the newest is found"
        );
    }
    assert_eq!(
        continuation(&shared, &document(0, 20)[10..]),
        [],
        "the oldest is forgotten"
    );
    assert!(memory.bytes() <= 256 << 10);
}

#[test]
fn accepted_text_outlives_text_that_nobody_uses() {
    let memory = memory(256 << 10, 4);
    let shared = memory.namespace("a");
    let used = document(0, 200);
    shared.insert(&used);
    for number in 1..60 {
        shared.insert(&document(number, 200));
        let mut drafter = Drafter::new(matches_only(), Some(Arc::clone(&shared)));
        drafter.push_prompt(&used[..30]);
        let tree = drafter.draft(16, 0.0);
        let accepted = tree.walk(&used[30..46]);
        drafter.observe(&tree, &accepted);
    }
    assert_eq!(continuation(&shared, &used[..30])[0], used[30]);
    assert_eq!(
        continuation(&shared, &document(8, 30)),
        [],
        "unused text of that age is gone"
    );
}

#[test]
fn a_document_larger_than_the_budget_keeps_its_end() {
    let memory = memory(64 << 10, 4);
    let shared = memory.namespace("a");
    let long: Vec<TokenId> = (0..20_000).collect();
    shared.insert(&long);
    assert!(memory.bytes() <= 64 << 10);
    assert_eq!(
        continuation(&shared, &long[19_990..19_998]),
        [19_998, 19_999]
    );
    assert_eq!(continuation(&shared, &long[..8]), []);
}

#[test]
fn matches_span_the_blocks_of_one_document() {
    // The smallest blocks, so that a document lies in several of them.
    let memory = memory(1 << 20, 16);
    let _others: Vec<_> = (0..15)
        .map(|i| memory.namespace(&format!("other{i}")))
        .collect();
    let shared = memory.namespace("a");
    let long: Vec<TokenId> = (0..900).collect();
    shared.insert(&long);
    let mut drafter = Drafter::new(matches_only(), Some(shared));
    for end in MAX_MATCH..long.len() {
        drafter.push_prompt(&[SEPARATOR]);
        drafter.push_prompt(&long[end - MAX_MATCH..end]);
        let tree = drafter.draft(1, 0.0);
        assert_eq!(tree.nodes[0].token, long[end]);
        // A whole match is as likely here as anywhere else in the document.
        assert!(
            tree.nodes[0].value > 0.3,
            "{} at {end}",
            tree.nodes[0].value
        );
    }
}

#[test]
fn the_index_keeps_up_with_the_text() {
    let memory = memory(64 << 20, 4);
    let shared = memory.namespace("a");
    for number in 0..1_000 {
        if number % 2 == 0 {
            shared.insert(&document(number, 250));
        } else {
            let mut running = shared.begin();
            let text = document(number, 250);
            text.chunks(3).for_each(|piece| running.push(piece));
        }
        let info = memory.namespaces().remove(0);
        // Seven buckets for four tokens, but for those that the newest block asks for.
        let wanted = info.num_tokens * 7 / 4;
        assert!(info.num_buckets >= wanted * 9 / 10, "{info:?}");
        assert!(info.num_buckets <= wanted * 6 / 5 + 4 * 1_024, "{info:?}");
    }
}

#[test]
fn a_capacity_of_zero_keeps_nothing() {
    let memory = memory(0, 4);
    let shared = memory.namespace("a");
    shared.insert(&document(1, 500));
    assert_eq!(memory.bytes(), 0);
    assert_eq!(continuation(&shared, &document(1, 10)), []);
}

#[test]
fn the_namespace_idle_longest_makes_room() {
    let memory = memory(1 << 20, 2);
    memory.namespace("a").insert(&[1, 2, 3]);
    memory.namespace("b").insert(&[1, 2, 4]);
    memory.namespace("a");
    let held = memory.namespace("c");
    held.insert(&[1, 2, 5]);
    assert_eq!(memory.num_namespaces(), 2);
    assert_eq!(continuation(&memory.namespace("a"), &[1, 2]), [3]);
    // "b" was forgotten; asking for it forgets "a", because "c" is held.
    assert_eq!(continuation(&memory.namespace("b"), &[1, 2]), []);
    assert_eq!(continuation(&memory.namespace("c"), &[1, 2]), [5]);
    assert!(Arc::ptr_eq(&held, &memory.namespace("c")));
}

#[test]
fn forgetting_reaches_what_was_pushed_out_while_requests_hold_it() {
    let memory = memory(1 << 20, 1);
    let held: Vec<_> = (0..3)
        .map(|number| {
            let shared = memory.namespace("a");
            shared.insert(&document(number, 500));
            // Its place is taken; a request that holds it goes on.
            memory.namespace("b");
            shared.insert(&document(number, 500));
            shared
        })
        .collect();
    let last = memory.namespace("a");
    last.insert(&document(4, 500));
    let mut running = Drafter::new(matches_only(), Some(Arc::clone(&held[0])));
    running.push_prompt(&document(0, 10));
    assert!(memory.forget("a").expect("no snapshots"));
    assert!(running.draft(16, 0.0).nodes.is_empty());
    for (number, shared) in (0..).zip(&held) {
        shared.insert(&document(number, 500));
        assert_eq!(continuation(shared, &document(number, 10)), []);
    }
    assert_eq!(continuation(&last, &document(4, 10)), []);
    drop(running);
    assert_eq!((memory.num_tokens(), memory.bytes()), (0, 0));
}

#[test]
fn a_forgotten_namespace_gives_its_bytes_back() {
    let memory = memory(1 << 20, 1);
    memory.namespace("a").insert(&document(1, 500));
    assert!(memory.bytes() > 0);
    memory.namespace("b");
    assert_eq!(memory.bytes(), 0);
}

#[test]
fn a_greedy_namespace_cannot_starve_a_new_one() {
    let memory = memory(512 << 10, 4);
    let greedy = memory.namespace("greedy");
    for number in 0..200 {
        greedy.insert(&document(number, 300));
    }
    let small = memory.namespace("small");
    small.insert(&document(900, 100));
    for number in 200..400 {
        greedy.insert(&document(number, 300));
    }
    assert_eq!(
        continuation(&small, &document(900, 20)[10..])[0],
        900 * 10_000 + 20
    );
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn namespaces_never_see_each_others_text(
        documents in prop::collection::vec((0_usize..3, prop::collection::vec(0_u32..5, 2..60)), 1..60),
        capacity_bytes in (64_usize << 10)..(256 << 10),
    ) {
        let memory = memory(capacity_bytes, 3);
        let shared: Vec<_> = (0..3).map(|i| memory.namespace(&format!("n{i}"))).collect();
        for (owner, text) in &documents {
            // The tokens of each namespace are its own, so a leak shows in the token.
            let text: Vec<_> = text.iter().map(|token| token + 100 * *owner as u32).collect();
            shared[*owner].insert(&text);
        }
        for (owner, namespace) in shared.iter().enumerate() {
            for other in 0..3_u32 {
                for token in 0..5 {
                    let drafted = continuation(namespace, &[token + 100 * other]);
                    prop_assert!(drafted.iter().all(|token| token / 100 == owner as u32));
                    prop_assert!(other as usize == owner || drafted.is_empty());
                }
            }
        }
        prop_assert!(memory.bytes() <= capacity_bytes);
    }
}
