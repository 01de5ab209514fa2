//! Readers and writers work on one namespace at once.

#![allow(clippy::expect_used, reason = "a failed helper is a failed test")]

mod common;
#[path = "common/drafts.rs"]
mod drafts;

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::thread;

use common::Folder;
use drafts::matches_only;
use spectrie_trie::{DraftMemory, Drafter, MemoryConfig, TokenId};

/// Tokens in a cycle: in every document, `t` is followed by `t + 1` modulo this and offset by the
/// document's family, so any other continuation is torn or invented.
const CYCLE: u32 = 97;
/// More than a cycle; Miri takes a thousand times as long for each.
const DOCUMENT_TOKENS: u32 = if cfg!(miri) { 100 } else { 150 };
/// Cycles that share no token.
const NUM_FAMILIES: u32 = 6;

fn document(family: u32, start: u32) -> Vec<TokenId> {
    (0..DOCUMENT_TOKENS)
        .map(|i| family * CYCLE + (start + i) % CYCLE)
        .collect()
}

fn follows(before: TokenId, after: TokenId) -> bool {
    before / CYCLE == after / CYCLE && (before + 1) % CYCLE == after % CYCLE
}

/// Writers insert documents and teach running requests, readers draft, and an operator saves and
/// forgets, all at once, in memory that is too small for the text.
fn stress(num_readers: u32, num_writers: u32, documents_per_writer: u32) {
    let folder = Folder::new();
    let capacity_bytes = 256 << 10;
    let config = MemoryConfig {
        capacity_bytes,
        max_namespaces: 2,
    };
    let memory = DraftMemory::new(config).expect("a valid config");
    // Writers, and the operator, who may forget all that they taught.
    let changing = AtomicU32::new(num_writers + 1);
    let failed = AtomicBool::new(false);
    let (drafted, taught) = (AtomicU32::new(0), AtomicU32::new(0));
    thread::scope(|scope| {
        for writer in 0..num_writers {
            let (memory, changing, taught) = (&memory, &changing, &taught);
            scope.spawn(move || {
                for number in 0..documents_per_writer {
                    let shared = memory.namespace("shared");
                    let text = document((writer + number) % NUM_FAMILIES, number);
                    if number % 2 == 0 {
                        shared.insert(&text);
                    } else {
                        let mut insertion = shared.begin();
                        text.chunks(11).for_each(|piece| insertion.push(piece));
                    }
                    taught.fetch_add(1, Ordering::Release);
                }
                changing.fetch_sub(1, Ordering::Release);
            });
        }
        for reader in 0..num_readers {
            let (memory, changing, failed, drafted) = (&memory, &changing, &failed, &drafted);
            scope.spawn(move || {
                let mut step = reader;
                let mut rounds_after = 0;
                loop {
                    // Every family after the last document, so that every reader drafts.
                    rounds_after += u32::from(changing.load(Ordering::Acquire) == 0);
                    let shared = memory.namespace("shared");
                    let mut drafter = Drafter::new(matches_only(), Some(Arc::clone(&shared)));
                    let context = &document(step % NUM_FAMILIES, step)[..12];
                    drafter.push_prompt(context);
                    let tree = drafter.draft(24, 0.0);
                    for (index, node) in tree.nodes.iter().enumerate() {
                        let before = node
                            .parent
                            .map_or(context[11], |p| tree.nodes[p as usize].token);
                        if !follows(before, node.token) {
                            failed.store(true, Ordering::Relaxed);
                        }
                        drafter.observe(&tree, &[index as u32]);
                    }
                    drafted.fetch_add(tree.len() as u32, Ordering::Relaxed);
                    step += 1;
                    if rounds_after == NUM_FAMILIES {
                        break;
                    }
                }
            });
        }
        let (memory, changing, folder, taught) = (&memory, &changing, &folder, &taught);
        scope.spawn(move || {
            let mut round = 0;
            while changing.load(Ordering::Acquire) > 1 {
                memory
                    .save(folder.path(), "abc")
                    .expect("a writable folder");
                assert!(memory.bytes() <= capacity_bytes);
                round += 1;
                // Not later, or little text would be left to evict.
                let is_early =
                    taught.load(Ordering::Acquire) < num_writers * documents_per_writer / 2;
                if round % 4 == 0 && is_early {
                    memory.forget("shared").expect("a disk");
                }
            }
            // Writers may have stopped before the last order to forget was carried out.
            memory.namespace("shared").insert(&document(0, 0));
            changing.fetch_sub(1, Ordering::Release);
        });
    });
    assert!(!failed.into_inner(), "a reader saw text that nobody taught");
    assert!(drafted.into_inner() > 0);
    assert!(memory.bytes() <= capacity_bytes);
    assert_eq!(memory.bytes(), memory.namespace("shared").bytes());
    let restored = DraftMemory::new(config).expect("a valid config");
    restored
        .restore(folder.path(), "abc")
        .expect("a whole snapshot");
}

#[test]
fn readers_see_only_whole_text_while_writers_teach_and_blocks_are_evicted() {
    if cfg!(miri) {
        // One whole document and one in pieces from each writer.
        stress(2, 2, 2);
    } else {
        stress(8, 4, 5000);
    }
}

#[test]
#[ignore = "deep"]
fn readers_see_only_whole_text_for_long() {
    stress(8, 4, 200_000);
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
            let mut drafter = Drafter::new(matches_only(), Some(Arc::clone(&shared)));
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
