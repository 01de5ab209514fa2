//! Shared memory survives a restart, or is refused with a reason.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use crate::common::{Folder, bytes_in};
use crate::drafts::matches_only;
use spectrie_trie::{
    DraftMemory, Drafter, MemoryConfig, NamespaceInfo, SharedTrie, SnapshotInfo, TokenId,
};
use spectrie_types::DropReason;

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

/// Where the files of the snapshot are.
fn tokenizer_folder(folder: &Folder) -> PathBuf {
    folder.path().join(format!("memory-{TOKENIZER}"))
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
    assert_eq!(saved.bytes, bytes_in(folder.path()).len());
    assert_eq!(saved.written_bytes, saved.bytes as u64);

    let after = memory(1 << 20);
    let restored = after
        .restore(folder.path(), TOKENIZER)
        .expect("a whole snapshot");
    let written_bytes = 0;
    let expected = SnapshotInfo {
        written_bytes,
        ..saved
    };
    assert_eq!(restored, expected);
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

/// The files of snapshots of earlier versions, with the tokens of their long text.
const SINGLE_FILES: [(&[u8], u32); 2] = [
    (include_bytes!("../common/version1.snapshot"), 600),
    (include_bytes!("../common/version2.snapshot"), 1600),
];

#[test]
fn a_snapshot_of_a_version_before_is_read_once() {
    for (file, long) in SINGLE_FILES {
        let folder = Folder::new();
        let path = folder.path().join("memory.snapshot");
        fs::write(&path, file).expect("a folder");
        let after = memory(256 << 10);
        let restored = after
            .restore(folder.path(), TOKENIZER)
            .expect("a whole snapshot");
        let num_tokens = u64::from(long) + 8;
        assert_eq!(
            (restored.num_namespaces, restored.num_tokens, restored.bytes),
            (2, num_tokens, file.len())
        );
        // What that version was taught, whose first text lay in several blocks.
        let taught = memory(256 << 10);
        let long: Vec<_> = (1000..1000 + long).collect();
        taught.namespace("a").insert(&long);
        taught.namespace("a").insert(&[5, 6, 7, 8, 9]);
        taught.namespace("b").insert(&[1, 2, 3]);
        let same = |after: &DraftMemory| {
            for (name, text) in [("a", &long[..]), ("a", &[5, 6, 7, 8, 9]), ("b", &[1, 2, 3])] {
                let (after, taught) = (after.namespace(name), taught.namespace(name));
                for end in 1..text.len() {
                    // No longer than the context that a segment began with.
                    let context = &text[end.saturating_sub(16)..end];
                    assert_eq!(draft(&after, context)[0], draft(&taught, context)[0]);
                }
            }
            assert_eq!(after.num_tokens(), taught.num_tokens());
        };
        same(&after);
        assert!(path.exists(), "until it is saved anew");
        after
            .save(folder.path(), TOKENIZER)
            .expect("a writable folder");
        assert!(!path.exists());
        let again = memory(256 << 10);
        again
            .restore(folder.path(), TOKENIZER)
            .expect("a whole snapshot");
        same(&again);
    }
}

#[test]
fn every_damage_of_a_single_file_is_refused_and_it_is_kept_aside() {
    for (file, _) in SINGLE_FILES {
        let folder = Folder::new();
        let path = folder.path().join("memory.snapshot");
        let memory = memory(256 << 10);
        memory.namespace("x").insert(&[1, 2, 3]);
        let (namespaces, bytes) = (memory.namespaces(), memory.bytes());
        let refused = |damaged: &[u8]| {
            fs::write(&path, damaged).expect("a writable folder");
            let error = memory
                .restore(folder.path(), TOKENIZER)
                .expect_err("damaged");
            assert_eq!(memory.namespaces(), namespaces);
            assert_eq!(memory.bytes(), bytes);
            let kept = fs::read(folder.path().join("memory.snapshot.damaged"));
            assert_eq!(kept.expect("a file"), damaged);
            error.to_string()
        };
        // The header, the index and the end, and some of the blocks between.
        let ends = file.len() - 120;
        for at in (0..file.len()).filter(|at| !(100..ends).contains(at) || at % 256 == 0) {
            let mut damaged = file.to_vec();
            damaged[at] ^= 0x40;
            assert!(refused(&damaged).contains("expected"), "byte {at}");
            assert!(refused(&file[..at]).contains("expected"), "cut at {at}");
        }
        let mut version = file.to_vec();
        version[8] = 9;
        assert!(refused(&version).contains("format version 9, expected version 1 or 2"));
        assert!(refused(b"").contains("serving starts without it"));
    }
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
    let left_out = before.num_tokens() - after.num_tokens();
    let dropped = after.dropped_tokens();
    assert_eq!(dropped[DropReason::NoRoom.index()], left_out);
    assert_eq!(dropped.iter().sum::<u64>(), left_out);
    assert!(after.bytes() <= 256 << 10);
    assert_eq!(draft(&after.namespace("a"), &used[..30])[0].0, used[30]);
}

#[test]
fn a_save_that_fails_leaves_the_last_snapshot_and_the_next_one_makes_up_for_it() {
    let folder = Folder::new();
    let before = memory(1 << 20);
    before.namespace("a").insert(&[1, 2, 3]);
    let file = folder.path().join("file");
    fs::write(&file, b"").expect("a writable folder");
    let error = before
        .save(&file, TOKENIZER)
        .expect_err("no folder")
        .to_string();
    assert!(error.starts_with("cannot write "), "{error}");
    before
        .save(folder.path(), TOKENIZER)
        .expect("a writable folder");
    let error = before
        .save(folder.path(), &"x".repeat(65))
        .expect_err("too long")
        .to_string();
    assert!(
        error.contains("has 65 bytes; allowed: at most 64"),
        "{error}"
    );
    // Where the manifest is to be written there is a folder.
    before.namespace("a").insert(&document(1, 100));
    let obstacle = tokenizer_folder(&folder).join("manifest.partial");
    fs::create_dir(&obstacle).expect("a folder");
    before
        .save(folder.path(), TOKENIZER)
        .expect_err("an obstacle");
    let old = memory(1 << 20);
    let restored = old.restore(folder.path(), TOKENIZER);
    assert_eq!(restored.expect("the last snapshot").num_tokens, 3);
    fs::remove_dir(&obstacle).expect("a folder");
    before
        .save(folder.path(), TOKENIZER)
        .expect("a writable folder");
    let new = memory(1 << 20);
    new.restore(folder.path(), TOKENIZER).expect("the new one");
    assert_eq!(new.num_tokens(), 103);
    assert_eq!(draft(&new.namespace("a"), &[10_005])[0].0, 10_006);
}

#[cfg(unix)]
#[test]
fn a_snapshot_is_private() {
    use std::os::unix::fs::PermissionsExt;
    let folder = Folder::new();
    let memory = memory(1 << 20);
    memory.namespace("a").insert(&[1, 2, 3]);
    let state = folder.path().join("state");
    memory.save(&state, TOKENIZER).expect("a writable folder");
    let mode = |path: &Path| {
        let metadata = fs::metadata(path).expect("a file");
        metadata.permissions().mode() & 0o777
    };
    assert_eq!(mode(&state), 0o700);
    let inner = state.join(format!("memory-{TOKENIZER}"));
    assert_eq!(mode(&inner), 0o700);
    let files: Vec<_> = fs::read_dir(inner).expect("a folder").collect();
    assert_eq!(files.len(), 2, "a manifest and a part");
    for file in files {
        assert_eq!(mode(&file.expect("a file").path()), 0o600);
    }
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
