//! Readers and writers work on one namespace at once.

#![allow(clippy::expect_used, reason = "a failed helper is a failed test")]

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::thread;

use spectrie_trie::{DraftConfig, DraftMemory, Drafter, MemoryConfig, TokenId};

/// Tokens in a cycle: in every document, `t` is followed by `t + 1` modulo this and offset by the
/// document's family, so any other continuation is torn or invented.
const CYCLE: u32 = 97;
const DOCUMENT_TOKENS: u32 = 150;
const DOCUMENTS_PER_WRITER: u32 = 3000;

fn document(family: u32, start: u32) -> Vec<TokenId> {
    (0..DOCUMENT_TOKENS)
        .map(|i| family * CYCLE + (start + i) % CYCLE)
        .collect()
}

fn follows(before: TokenId, after: TokenId) -> bool {
    before / CYCLE == after / CYCLE && (before + 1) % CYCLE == after % CYCLE
}

#[test]
fn readers_see_only_whole_text_while_writers_insert_and_segments_are_evicted() {
    let capacity_bytes = 256 << 10;
    let config = MemoryConfig {
        capacity_bytes,
        max_namespaces: 2,
    };
    let memory = DraftMemory::new(config).expect("a valid config");
    let writing = AtomicU32::new(2);
    let failed = AtomicBool::new(false);
    let drafted = AtomicU32::new(0);
    thread::scope(|scope| {
        for writer in 0..2 {
            let shared = memory.namespace("shared");
            let writing = &writing;
            scope.spawn(move || {
                for number in 0..DOCUMENTS_PER_WRITER {
                    shared.insert(&document(writer * 3 + number % 3, number));
                }
                writing.fetch_sub(1, Ordering::Release);
            });
        }
        for reader in 0..4_u32 {
            let shared = memory.namespace("shared");
            let (writing, failed, drafted) = (&writing, &failed, &drafted);
            scope.spawn(move || {
                let mut step = reader;
                loop {
                    // One more round after the writers have stopped, so that every reader drafts.
                    let last = writing.load(Ordering::Acquire) == 0;
                    let mut drafter =
                        Drafter::new(DraftConfig::default(), Some(Arc::clone(&shared)));
                    let context = &document(step % 6, step)[..12];
                    drafter.push_prompt(context);
                    let tree = drafter.draft(24, 0.0);
                    for (index, node) in tree.nodes.iter().enumerate() {
                        let before = node
                            .parent
                            .map_or(context[11], |p| tree.nodes[p as usize].token);
                        if !follows(before, node.token) {
                            failed.store(true, Ordering::Relaxed);
                        }
                        drafter.observe(&tree, &[index as u32], 0);
                    }
                    drafted.fetch_add(tree.len() as u32, Ordering::Relaxed);
                    step += 1;
                    if last {
                        break;
                    }
                }
            });
        }
    });
    assert!(!failed.into_inner(), "a reader saw text that nobody taught");
    assert!(drafted.into_inner() >= 4 * 18, "every reader drafted");
    assert!(memory.bytes() <= capacity_bytes);
    assert_eq!(memory.bytes(), memory.namespace("shared").bytes());
}

#[test]
fn every_document_of_several_writers_is_found_afterwards() {
    let memory = DraftMemory::new(MemoryConfig::default()).expect("a valid config");
    thread::scope(|scope| {
        for writer in 0..2_u32 {
            let shared = memory.namespace("shared");
            scope.spawn(move || {
                for number in 0..200 {
                    let first = (writer * 200 + number) * 100;
                    shared.insert(&(first..first + 40).collect::<Vec<_>>());
                }
            });
        }
    });
    let shared = memory.namespace("shared");
    let found: HashSet<u32> = (0..400)
        .filter(|number| {
            let first = number * 100;
            let mut drafter = Drafter::new(DraftConfig::default(), Some(Arc::clone(&shared)));
            drafter.push_prompt(&[first + 10, first + 11]);
            drafter
                .draft(1, 0.0)
                .nodes
                .first()
                .is_some_and(|node| node.token == first + 12)
        })
        .collect();
    assert_eq!(found.len(), 400);
}
