//! Shared memory survives a restart, or is refused with a reason.

#![allow(clippy::expect_used, reason = "a failed helper is a failed test")]

mod common;
#[path = "common/drafts.rs"]
mod drafts;

use std::fs;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use common::Folder;
use drafts::matches_only;
use spectrie_trie::{
    DraftMemory, Drafter, MemoryConfig, NamespaceInfo, SharedTrie, SnapshotInfo, TokenId,
};

const TOKENIZER: &str = "0123456789abcdef";

fn memory(capacity_bytes: usize) -> DraftMemory {
    DraftMemory::new(MemoryConfig {
        capacity_bytes,
        max_namespaces: 8,
    })
    .expect("a valid config")
}

fn draft(shared: &Arc<SharedTrie>, context: &[TokenId]) -> Vec<(TokenId, f32)> {
    let mut drafter = Drafter::new(matches_only(), Some(Arc::clone(shared)));
    drafter.push_prompt(context);
    let tree = drafter.draft(8, 0.0);
    tree.nodes
        .iter()
        .map(|node| (node.token, node.value))
        .collect()
}

fn document(number: u32, tokens: u32) -> Vec<TokenId> {
    (0..tokens).map(|i| number * 10_000 + i).collect()
}

#[test]
fn a_restart_drafts_as_before() {
    let folder = Folder::new();
    let before = memory(1 << 20);
    for number in 0..30 {
        before.namespace("a").insert(&document(number % 20, 300));
    }
    before.namespace("b").insert(&[1, 2, 3]);
    let mut running = before.namespace("b").begin();
    running.push(&[1, 2, 4, 5]);
    let saved = before
        .save(folder.path(), TOKENIZER)
        .expect("a writable folder");
    assert_eq!(
        (saved.num_namespaces, saved.num_tokens),
        (2, before.num_tokens())
    );
    let size = fs::metadata(folder.path().join("memory.snapshot"))
        .expect("a file")
        .len();
    assert_eq!(saved.bytes as u64, size);

    let after = memory(1 << 20);
    let restored = after
        .restore(folder.path(), TOKENIZER)
        .expect("a whole snapshot");
    assert_eq!(restored, saved);
    let known = |memory: &DraftMemory| {
        let infos = memory.namespaces().into_iter();
        // Tables reach the size that their text needs at once.
        let infos = infos.map(|info| NamespaceInfo {
            num_buckets: 0,
            ..info
        });
        infos.collect::<Vec<_>>()
    };
    assert_eq!(known(&after), known(&before));
    assert_eq!(after.bytes(), before.bytes());
    for name in ["a", "b"] {
        let (before, after) = (before.namespace(name), after.namespace(name));
        for number in 0..30 {
            let context = &document(number, 300)[50..60];
            assert_eq!(draft(&after, context), draft(&before, context));
        }
        assert_eq!(draft(&after, &[1, 2]), draft(&before, &[1, 2]));
    }
}

#[test]
fn teaching_goes_on_after_a_restart_and_restored_text_ages() {
    let folder = Folder::new();
    let before = memory(256 << 10);
    before.namespace("a").insert(&document(0, 300));
    before
        .save(folder.path(), TOKENIZER)
        .expect("a writable folder");
    let after = memory(256 << 10);
    after
        .restore(folder.path(), TOKENIZER)
        .expect("a whole snapshot");
    let shared = after.namespace("a");
    for number in 1..100 {
        shared.insert(&document(number, 300));
        let context = &document(number, 300)[50..60];
        assert_eq!(draft(&shared, context)[0].0, context[9] + 1);
        assert_eq!(after.bytes(), shared.bytes());
        assert!(after.bytes() <= 256 << 10);
    }
    assert_eq!(
        draft(&shared, &document(0, 60)[50..]),
        [],
        "the restored text was evicted"
    );
}

#[test]
fn a_snapshot_of_the_version_before_is_read_once() {
    let folder = Folder::new();
    let path = folder.path().join("memory.snapshot");
    fs::write(&path, include_bytes!("common/version1.snapshot")).expect("a folder");
    let after = memory(64 << 10);
    let restored = after
        .restore(folder.path(), TOKENIZER)
        .expect("a whole snapshot");
    assert_eq!((restored.num_namespaces, restored.num_tokens), (2, 608));
    // What that version was taught, whose first text lay in several segments.
    let taught = memory(64 << 10);
    let long: Vec<_> = (1000..1600).collect();
    taught.namespace("a").insert(&long);
    taught.namespace("a").insert(&[5, 6, 7, 8, 9]);
    taught.namespace("b").insert(&[1, 2, 3]);
    for (name, text) in [("a", &long[..]), ("a", &[5, 6, 7, 8, 9]), ("b", &[1, 2, 3])] {
        let (after, taught) = (after.namespace(name), taught.namespace(name));
        for end in 1..text.len() {
            // No longer than the context that a segment began with.
            let context = &text[end.saturating_sub(16)..end];
            assert_eq!(draft(&after, context)[0], draft(&taught, context)[0]);
        }
    }
    assert_eq!(after.num_tokens(), taught.num_tokens());
    after
        .save(folder.path(), TOKENIZER)
        .expect("a writable folder");
    let bytes = fs::read(&path).expect("the file");
    assert_eq!(bytes[8], 2, "and written anew");
}

#[test]
fn no_snapshot_is_a_cold_start() {
    let folder = Folder::new();
    let nothing = memory(1 << 20)
        .restore(folder.path(), TOKENIZER)
        .expect("a cold start");
    assert_eq!(nothing, SnapshotInfo::default());
}

#[test]
fn every_damage_is_refused_and_leaves_memory_as_it_was() {
    let folder = Folder::new();
    let before = memory(64 << 10);
    before.namespace("a").insert(&document(0, 30));
    before
        .save(folder.path(), TOKENIZER)
        .expect("a writable folder");
    let path = folder.path().join("memory.snapshot");
    let whole = fs::read(&path).expect("the file");

    let memory = memory(64 << 10);
    memory.namespace("x").insert(&[1, 2, 3]);
    let (namespaces, bytes) = (memory.namespaces(), memory.bytes());
    let refused = |damaged: &[u8], tokenizer: &str| {
        fs::write(&path, damaged).expect("a writable folder");
        let error = memory
            .restore(folder.path(), tokenizer)
            .expect_err("damaged");
        assert_eq!(memory.namespaces(), namespaces);
        assert_eq!(memory.bytes(), bytes);
        error.to_string()
    };
    // Every byte of the header, the index and the end, and some of the block between.
    let ends = whole.len() - 120;
    for at in (0..whole.len()).filter(|at| !(100..ends).contains(at) || at % 16 == 0) {
        let mut damaged = whole.clone();
        damaged[at] ^= 0x40;
        assert!(
            refused(&damaged, TOKENIZER).contains("expected"),
            "byte {at}"
        );
        assert!(
            refused(&whole[..at], TOKENIZER).contains("expected"),
            "cut at {at}"
        );
    }
    let message = refused(&whole, "another");
    assert!(
        message.contains("found tokenizer \"0123456789abcdef\", expected tokenizer \"another\""),
        "{message}"
    );
    let mut version = whole.clone();
    version[8] = 9;
    assert!(refused(&version, TOKENIZER).contains("format version 9, expected version 2"));
    assert!(refused(b"", TOKENIZER).contains("serving starts without it"));
    fs::write(&path, &whole).expect("a writable folder");
    memory
        .restore(folder.path(), TOKENIZER)
        .expect("the undamaged file is fine");
}

#[test]
fn what_the_budget_cannot_hold_is_the_least_useful() {
    let folder = Folder::new();
    let before = memory(1 << 20);
    let shared = before.namespace("a");
    for number in 0..200 {
        shared.insert(&document(number, 200));
    }
    let used = document(150, 200);
    let mut drafter = Drafter::new(matches_only(), Some(Arc::clone(&shared)));
    drafter.push_prompt(&used[..30]);
    let tree = drafter.draft(16, 0.0);
    drafter.observe(&tree, &tree.walk(&used[30..46]));
    before
        .save(folder.path(), TOKENIZER)
        .expect("a writable folder");

    let after = memory(256 << 10);
    let restored = after
        .restore(folder.path(), TOKENIZER)
        .expect("a whole snapshot");
    assert!(restored.num_tokens < before.num_tokens());
    assert_eq!(restored.num_tokens, after.num_tokens());
    assert!(after.bytes() <= 256 << 10);
    assert_eq!(draft(&after.namespace("a"), &used[..30])[0].0, used[30]);
}

#[test]
fn forgotten_text_is_gone_from_the_disk_too() {
    let folder = Folder::new();
    let before = memory(1 << 20);
    before.namespace("a").insert(&document(3, 50));
    before.namespace("b").insert(&document(4, 50));
    before
        .save(folder.path(), TOKENIZER)
        .expect("a writable folder");
    let holds = |number: u32| {
        let bytes = fs::read(folder.path().join("memory.snapshot")).expect("the file");
        let token = (number * 10_000 + 5).to_le_bytes();
        bytes.windows(4).any(|window| window == token)
    };
    assert!(holds(3));
    before.forget("a");
    assert!(!holds(3) && holds(4));
    let after = memory(1 << 20);
    let restored = after
        .restore(folder.path(), TOKENIZER)
        .expect("a whole snapshot");
    assert_eq!(restored.num_namespaces, 1);
    assert_eq!(draft(&after.namespace("a"), &document(3, 10)), []);
    // Also what a snapshot holds that could not be restored.
    let other = memory(1 << 20);
    other
        .restore(folder.path(), "another tokenizer")
        .expect_err("foreign");
    assert!(!other.forget("b"));
    assert!(!holds(4));
}

#[test]
fn a_save_that_fails_leaves_the_last_snapshot() {
    let folder = Folder::new();
    let memory = memory(1 << 20);
    memory.namespace("a").insert(&[1, 2, 3]);
    let file = folder.path().join("file");
    fs::write(&file, b"").expect("a writable folder");
    let error = memory
        .save(&file, TOKENIZER)
        .expect_err("no folder")
        .to_string();
    assert!(error.starts_with("cannot make "), "{error}");
    memory
        .save(folder.path(), TOKENIZER)
        .expect("a writable folder");
    let error = memory
        .save(folder.path(), &"x".repeat(65))
        .expect_err("too long")
        .to_string();
    assert!(
        error.contains("has 65 bytes; allowed: at most 64"),
        "{error}"
    );
    fs::write(folder.path().join("memory.snapshot.1.partial"), b"left").expect("a file");
    memory
        .save(folder.path(), TOKENIZER)
        .expect("a writable folder");
    let names = fs::read_dir(folder.path()).expect("the folder").count();
    assert_eq!(names, 2, "what a killed process left is removed");
    memory
        .restore(folder.path(), TOKENIZER)
        .expect("a whole snapshot");
}

#[cfg(unix)]
#[test]
fn a_snapshot_is_private() {
    use std::os::unix::fs::PermissionsExt;
    let folder = Folder::new();
    memory(1 << 20)
        .save(folder.path(), TOKENIZER)
        .expect("a writable folder");
    let metadata = fs::metadata(folder.path().join("memory.snapshot")).expect("a file");
    assert_eq!(metadata.permissions().mode() & 0o777, 0o600);
}

/// Tokens in a cycle, so that any other continuation is torn or invented.
fn cycle(start: u32, tokens: u32) -> Vec<TokenId> {
    (start..start + tokens).map(|i| i % 97).collect()
}

#[test]
fn a_snapshot_of_memory_in_use_holds_only_whole_text() {
    let folder = Folder::new();
    let memory = memory(256 << 10);
    let done = AtomicBool::new(false);
    thread::scope(|scope| {
        for writer in 0..3 {
            let (shared, done) = (memory.namespace("a"), &done);
            scope.spawn(move || {
                let mut number = writer;
                while !done.load(Ordering::Relaxed) {
                    let text = cycle(number, 200);
                    let mut insertion = shared.begin();
                    text.chunks(7).for_each(|piece| insertion.push(piece));
                    number += 1;
                }
            });
        }
        for _ in 0..30 {
            memory
                .save(folder.path(), TOKENIZER)
                .expect("a writable folder");
            let after = self::memory(256 << 10);
            after
                .restore(folder.path(), TOKENIZER)
                .expect("a whole snapshot");
            let shared = after.namespace("a");
            for start in 0..97 {
                let mut before = (start + 9) % 97;
                for (token, _) in draft(&shared, &cycle(start, 10)) {
                    assert_eq!(token, (before + 1) % 97);
                    before = token;
                }
            }
        }
        done.store(true, Ordering::Relaxed);
    });
}
