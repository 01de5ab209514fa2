//! Snapshots are written by piece: only what is new, and damage costs what it hit.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::PathBuf;
use std::sync::Arc;

use crate::common::{Folder, bytes_in};
use crate::drafts::matches_only;
use spectrie_trie::{DraftMemory, Drafter, MemoryConfig, SharedTrie, SnapshotInfo, TokenId};
use spectrie_types::DropReason;

const TOKENIZER: &str = "0123456789abcdef";
/// Bytes of a group of cells in a part.
const GROUP_BYTES: u64 = 256 * 4 + 256 / 8;

fn memory() -> DraftMemory {
    DraftMemory::new(MemoryConfig {
        capacity_bytes: 64 << 20,
        max_namespaces: 8,
    })
    .expect("a valid config")
}

fn save(memory: &DraftMemory, folder: &Folder) -> SnapshotInfo {
    let saved = memory.save(folder.path(), TOKENIZER);
    saved.expect("a writable folder")
}

fn restored(folder: &Folder) -> (DraftMemory, SnapshotInfo) {
    let memory = memory();
    let info = memory.restore(folder.path(), TOKENIZER);
    (memory, info.expect("a snapshot"))
}

/// The token that is drafted after `context`.
fn next(shared: &Arc<SharedTrie>, context: &[TokenId]) -> Option<TokenId> {
    let mut drafter = Drafter::new(matches_only(), Some(Arc::clone(shared)));
    drafter.push_prompt(context);
    drafter.draft(1, 0.0).nodes.first().map(|node| node.token)
}

fn document(number: u32, tokens: u32) -> Vec<TokenId> {
    (0..tokens).map(|i| number * 1_000_000 + i).collect()
}

/// The files of the snapshot whose names begin like that, sorted.
fn files(folder: &Folder, start: &str) -> Vec<PathBuf> {
    let inner = folder.path().join(format!("memory-{TOKENIZER}"));
    let entries = fs::read_dir(inner).expect("a folder");
    let mut paths: Vec<_> = entries
        .map(|entry| entry.expect("an entry").path())
        .collect();
    paths.retain(|path| {
        let name = path.file_name().and_then(|name| name.to_str());
        name.is_some_and(|name| name.starts_with(start))
    });
    paths.sort();
    paths
}

fn flip(path: &PathBuf, at: usize) {
    let mut bytes = fs::read(path).expect("a file");
    bytes[at] ^= 0x40;
    fs::write(path, bytes).expect("a writable file");
}

#[test]
fn nothing_new_writes_nothing() {
    let folder = Folder::new();
    let memory = memory();
    memory.namespace("a").insert(&document(0, 5000));
    memory.namespace("b").insert(&document(1, 50));
    let first = save(&memory, &folder);
    let before = bytes_in(folder.path());
    let second = save(&memory, &folder);
    assert_eq!((second.written_bytes, second.bytes), (0, first.bytes));
    assert_eq!(bytes_in(folder.path()), before);
    assert_eq!(memory.snapshot_written_bytes(), first.written_bytes);
    let (after, info) = restored(&folder);
    assert_eq!(info.written_bytes, 0);
    assert_eq!(
        save(&after, &folder).written_bytes,
        0,
        "nor after a restart"
    );
    assert_eq!(bytes_in(folder.path()), before);
}

#[test]
fn a_save_writes_what_is_new_and_no_more() {
    let folder = Folder::new();
    let memory = memory();
    let shared = memory.namespace("a");
    shared.insert(&document(0, 200_000));
    let mut running = shared.begin();
    running.push(&document(1, 20));
    let first = save(&memory, &folder);
    assert!(first.written_bytes > 800_000);
    // Late, into cells that were set aside before; and new text behind them.
    shared.insert(&document(2, 3000));
    running.push(&[7, 8, 9]);
    let second = save(&memory, &folder);
    let manifest = fs::metadata(&files(&folder, "manifest")[0]).expect("a file");
    let groups = 3000_u64.div_ceil(256) + 3;
    assert!(
        second.written_bytes <= groups * GROUP_BYTES + manifest.len() + 200,
        "{second:?}"
    );
    let (after, info) = restored(&folder);
    assert_eq!(info.num_tokens, 203_023);
    let shared = after.namespace("a");
    for number in 0..3 {
        let text = document(number, 20);
        assert_eq!(next(&shared, &text[..10]), Some(text[10]));
    }
    assert_eq!(next(&shared, &[7, 8]), Some(9));
}

#[test]
fn a_restored_memory_goes_on_writing_what_is_new() {
    let folder = Folder::new();
    let first = memory();
    first.namespace("a").insert(&document(0, 100_000));
    save(&first, &folder);
    drop(first);
    for number in 1..6 {
        let (memory, info) = restored(&folder);
        assert_eq!(info.num_tokens, 100_000 + 100 * u64::from(number - 1));
        memory.namespace("a").insert(&document(number, 100));
        let saved = save(&memory, &folder);
        assert!(saved.written_bytes < 10_000, "{saved:?}");
    }
    let (memory, _) = restored(&folder);
    for number in 0..6 {
        let text = document(number, 50);
        assert_eq!(next(&memory.namespace("a"), &text[..40]), Some(text[40]));
    }
}

#[test]
fn a_damaged_byte_costs_its_run_alone_and_the_rest_is_saved_onward() {
    const TOKENS: u32 = 200_000;
    let folder = Folder::new();
    let before = memory();
    let text = document(0, TOKENS);
    before.namespace("a").insert(&text);
    before.namespace("b").insert(&document(1, 500));
    save(&before, &folder);
    let (part, size) = {
        let parts = files(&folder, "part-");
        assert_eq!(parts.len(), 1);
        let size = fs::metadata(&parts[0]).expect("a file").len();
        (parts[0].clone(), size as usize)
    };
    flip(&part, size / 2);
    let damaged = fs::read(&part).expect("a file");
    let (after, info) = restored(&folder);
    assert_eq!(info.damaged_runs, 1);
    assert!((1..=65_536).contains(&info.damaged_tokens), "{info:?}");
    assert_eq!(
        info.num_tokens,
        u64::from(TOKENS) + 500 - info.damaged_tokens
    );
    assert_eq!(info.num_tokens, after.num_tokens());
    let dropped = after.dropped_tokens();
    assert_eq!(dropped[DropReason::Damaged.index()], info.damaged_tokens);
    let damage = info.first_damage.expect("the damage");
    assert!(damage.contains("part-00000000"), "{damage}");
    let kept = files(&folder, "part-00000000.damaged");
    assert_eq!(fs::read(&kept[0]).expect("the damaged file"), damaged);
    let found = |memory: &DraftMemory| {
        let shared = memory.namespace("a");
        let at = |end: usize| next(&shared, &text[end - 10..end]);
        let ends: Vec<_> = (10..TOKENS as usize).step_by(997).collect();
        let found = ends.iter().filter(|&&end| {
            let drafted = at(end);
            assert!(drafted.is_none_or(|token| token == text[end]), "{end}");
            drafted.is_some()
        });
        (ends.len() - found.count()) as u64
    };
    let missed = found(&after);
    assert!(
        (1..=info.damaged_tokens / 997 + 2).contains(&missed),
        "{missed}"
    );
    assert_eq!(
        next(&after.namespace("b"), &document(1, 10)),
        Some(1_000_010)
    );
    let saved = save(&after, &folder);
    assert_eq!(saved.num_tokens, after.num_tokens());
    let (again, info) = restored(&folder);
    assert_eq!((info.damaged_runs, info.first_damage), (0, None));
    assert_eq!(found(&again), missed);
    save(&again, &folder);
    again.namespace("b").insert(&[1, 2, 3]);
    save(&again, &folder);
    assert!(!part.exists(), "nothing refers to it any more");
    assert_eq!(files(&folder, "part-00000000.damaged").len(), 1);
}

#[test]
fn every_damaged_byte_of_a_part_is_noticed_and_never_drafted() {
    let folder = Folder::new();
    let before = memory();
    before.namespace("a").insert(&document(3, 40));
    save(&before, &folder);
    let part = files(&folder, "part-")[0].clone();
    let whole = fs::read(&part).expect("a file");
    for at in 0..whole.len() {
        let cut = whole[..at].to_vec();
        let mut flipped = whole.clone();
        flipped[at] ^= 0x40;
        for damaged in [cut, flipped] {
            fs::write(&part, &damaged).expect("a writable file");
            let (after, info) = restored(&folder);
            assert!(info.first_damage.is_some(), "byte {at}");
            for token in 0..40 {
                let context = [3_000_000 + token];
                let drafted = next(&after.namespace("a"), &context);
                assert!(drafted.is_none_or(|token| token == context[0] + 1));
            }
        }
    }
    fs::remove_file(&part).expect("a file");
    let (after, info) = restored(&folder);
    assert_eq!((after.num_tokens(), info.damaged_tokens), (0, 40));
    let kept = files(&folder, "part-00000000.damaged");
    assert_eq!(kept.len(), 1, "the first one is kept");
}

#[test]
fn a_damaged_manifest_is_kept_aside_and_the_one_before_it_is_used() {
    let folder = Folder::new();
    let before = memory();
    before.namespace("a").insert(&document(0, 1000));
    save(&before, &folder);
    before.namespace("a").insert(&document(1, 1000));
    save(&before, &folder);
    let path = files(&folder, "manifest")[0].clone();
    let whole = fs::read(&path).expect("a file");
    for at in (0..whole.len()).step_by(5) {
        fs::write(&path, &whole).expect("a writable file");
        flip(&path, at);
        let damaged = fs::read(&path).expect("a file");
        let (after, info) = restored(&folder);
        assert_eq!((after.num_tokens(), info.damaged_tokens), (1000, 0));
        let damage = info.first_damage.expect("the damage");
        assert!(damage.contains("the one before it was used"), "{damage}");
        let aside = files(&folder, "manifest.damaged");
        assert_eq!(fs::read(&aside[0]).expect("the damaged file"), damaged);
        assert!(!path.exists());
    }
    // The snapshot goes on from there.
    let (after, _) = restored(&folder);
    after.namespace("a").insert(&document(2, 1000));
    save(&after, &folder);
    assert_eq!(restored(&folder).1.num_tokens, 2000);
    // Both damaged: a cold start that says so, and nothing is lost to look at.
    for name in ["manifest", "manifest.previous"] {
        flip(&path.with_file_name(name), 100);
    }
    let cold = memory();
    let error = cold
        .restore(folder.path(), TOKENIZER)
        .expect_err("both damaged")
        .to_string();
    assert!(error.contains("serving starts without it"), "{error}");
    assert_eq!((cold.num_tokens(), cold.bytes()), (0, 0));
    cold.namespace("a").insert(&document(3, 1000));
    save(&cold, &folder);
    assert_eq!(restored(&folder).1.num_tokens, 1000);
    let aside = folder.path().join(format!("memory-{TOKENIZER}.unread"));
    let names: Vec<_> = fs::read_dir(aside)
        .expect("the folder that was damaged")
        .map(|entry| entry.expect("an entry").file_name())
        .collect();
    for name in ["manifest.damaged", "manifest.previous.damaged"] {
        assert!(names.iter().any(|found| found == name), "{names:?}");
    }
    assert!(names.iter().any(|found| found == "part-00000000"));
}

/// Makes opening a part fail in a way that is no damage, as too few descriptors would.
fn hide(part: &PathBuf) {
    fs::rename(part, part.with_extension("hidden")).expect("a part");
    symlink(part, part).expect("a free name");
}

fn show(part: &PathBuf) {
    fs::remove_file(part).expect("a link");
    fs::rename(part.with_extension("hidden"), part).expect("a hidden part");
}

#[test]
fn a_snapshot_that_cannot_be_read_now_is_kept_aside_whole() {
    let folder = Folder::new();
    let before = memory();
    before.namespace("a").insert(&document(0, 10_000));
    save(&before, &folder);
    let part = files(&folder, "part-")[0].clone();
    hide(&part);
    let cold = memory();
    let error = cold.restore(folder.path(), TOKENIZER);
    let error = error.expect_err("a part that cannot be opened").to_string();
    let inner = folder.path().join(format!("memory-{TOKENIZER}"));
    let aside = folder.path().join(format!("memory-{TOKENIZER}.unread"));
    let keeps = format!("the next save keeps it as {}", aside.display());
    assert!(error.contains(&keeps), "{error}");
    show(&part);
    // A restart before the next save reads it as ever.
    assert_eq!(restored(&folder).1.num_tokens, 10_000);
    for number in 1..4 {
        cold.namespace("a").insert(&document(number, 100));
        save(&cold, &folder);
    }
    assert_eq!(restored(&folder).1.num_tokens, 300);
    fs::remove_dir_all(&inner).expect("the new one");
    fs::rename(&aside, &inner).expect("the one kept aside");
    let (after, info) = restored(&folder);
    assert_eq!((info.num_tokens, info.first_damage), (10_000, None));
    // One that was read in the end is saved to as ever.
    hide(&part);
    let late = memory();
    let error = late.restore(folder.path(), TOKENIZER);
    error.expect_err("a part that cannot be opened");
    show(&part);
    let info = late.restore(folder.path(), TOKENIZER);
    assert_eq!(info.expect("a snapshot").num_tokens, 10_000);
    assert_eq!(save(&late, &folder).num_tokens, after.num_tokens());
    assert!(!aside.exists());
}

#[test]
fn a_second_snapshot_that_cannot_be_read_stops_saves_and_both_stay() {
    let folder = Folder::new();
    for tokens in [1000, 500] {
        let before = memory();
        before.namespace("a").insert(&document(0, tokens));
        save(&before, &folder);
        let part = files(&folder, "part-").pop().expect("a part");
        hide(&part);
        let cold = memory();
        let error = cold.restore(folder.path(), TOKENIZER);
        error.expect_err("a part that cannot be opened");
        show(&part);
        cold.namespace("a").insert(&document(1, 100));
        let saved = cold.save(folder.path(), TOKENIZER);
        if tokens == 1000 {
            assert_eq!(saved.expect("a writable folder").num_tokens, 100);
            continue;
        }
        for _ in 0..2 {
            let error = cold.save(folder.path(), TOKENIZER);
            let error = error.expect_err("one is kept already").to_string();
            assert!(error.contains(".unread is kept already"), "{error}");
        }
        assert_eq!(restored(&folder).1.num_tokens, 500);
        // With room for it, the next save succeeds.
        let aside = folder.path().join(format!("memory-{TOKENIZER}.unread"));
        let away = folder.path().join("away");
        fs::rename(&aside, &away).expect("the first one");
        assert_eq!(save(&cold, &folder).num_tokens, 100);
        let inner = folder.path().join(format!("memory-{TOKENIZER}"));
        for (kept, tokens) in [(aside, 500), (away, 1000)] {
            fs::remove_dir_all(&inner).expect("a folder");
            fs::rename(kept, &inner).expect("one kept aside");
            assert_eq!(restored(&folder).1.num_tokens, tokens);
        }
    }
}

#[test]
fn what_is_kept_aside_goes_with_its_tokenizer_and_pushes_none_out() {
    let folder = Folder::new();
    let names = || {
        let entries = fs::read_dir(folder.path()).expect("a folder");
        let names = entries.map(|entry| entry.expect("an entry").file_name().into_string());
        let mut names: Vec<_> = names.map(|name| name.expect("a name")).collect();
        names.sort();
        names
    };
    for tokenizer in ["1", "2", "3", "4"] {
        let memory = memory();
        memory.namespace("a").insert(&document(0, 10));
        memory.save(folder.path(), tokenizer).expect("a folder");
        let name = format!("memory-{tokenizer}.unread");
        fs::create_dir(folder.path().join(name)).expect("a folder");
    }
    assert_eq!(names().len(), 8, "four tokenizers");
    let memory = memory();
    memory.namespace("a").insert(&document(0, 10));
    memory.save(folder.path(), "5").expect("a folder");
    let names = names();
    assert_eq!(names.len(), 7, "{names:?}");
    assert!(!names.iter().any(|name| name.starts_with("memory-1")));
}

#[test]
fn snapshots_of_other_tokenizers_stay_and_are_used_when_these_return() {
    let folder = Folder::new();
    let tokenizers = [
        "first",
        "second",
        "a third one, with a longer name",
        "4",
        "5",
    ];
    for (number, tokenizer) in (0..).zip(tokenizers) {
        let memory = memory();
        let info = memory.restore(folder.path(), tokenizer);
        assert_eq!(info.expect("a cold start"), SnapshotInfo::default());
        memory
            .namespace("a")
            .insert(&document(number, 100 + number));
        let saved = memory.save(folder.path(), tokenizer);
        saved.expect("a writable folder");
    }
    for (number, tokenizer) in (0..).zip(tokenizers) {
        let memory = memory();
        let info = memory.restore(folder.path(), tokenizer);
        let kept = if number == 0 { 0 } else { 100 + number };
        assert_eq!(info.expect("a snapshot").num_tokens, kept, "{tokenizer}");
    }
    // A single file of an earlier version stays until its tokenizer returns.
    let single = folder.path().join("memory.snapshot");
    fs::write(&single, include_bytes!("../common/version2.snapshot")).expect("a writable folder");
    let memory = memory();
    let info = memory.restore(folder.path(), "6").expect("a cold start");
    assert_eq!(info, SnapshotInfo::default());
    memory.namespace("a").insert(&document(0, 10));
    memory.save(folder.path(), "6").expect("a writable folder");
    assert_eq!(restored(&folder).1.num_tokens, 1608);
}
