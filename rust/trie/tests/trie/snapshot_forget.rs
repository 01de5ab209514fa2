//! Forgotten text is gone from the disk when `forget` returns.

use std::fs;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use crate::common::{Folder, bytes_in};
use spectrie_trie::{DraftMemory, MemoryConfig, TokenId};

const TOKENIZER: &str = "0123456789abcdef";

fn memory() -> DraftMemory {
    DraftMemory::new(MemoryConfig {
        capacity_bytes: 16 << 20,
        max_namespaces: 8,
    })
    .expect("a valid config")
}

fn document(number: u32, tokens: u32) -> Vec<TokenId> {
    (0..tokens).map(|i| number * 1_000_000 + i).collect()
}

/// Whether a file holds the name of a tenant, or a token of its text.
fn holds(folder: &Folder, number: u32) -> bool {
    let bytes = bytes_in(folder.path());
    let name = format!("tenant-{number}");
    let has = |wanted: &[u8]| bytes.windows(wanted.len()).any(|window| window == wanted);
    has(name.as_bytes())
        || [5, 70]
            .iter()
            .any(|i| has(&(number * 1_000_000 + i).to_le_bytes()))
}

fn teach(memory: &DraftMemory, number: u32, tokens: u32) {
    let shared = memory.namespace(&format!("tenant-{number}"));
    shared.insert(&document(number, tokens));
}

fn forget(memory: &DraftMemory, number: u32) -> bool {
    memory.forget(&format!("tenant-{number}")).expect("a disk")
}

#[test]
fn forgotten_text_is_gone_from_the_disk_too_and_the_rest_stays() {
    let folder = Folder::new();
    let before = memory();
    for number in 1..5 {
        teach(&before, number, 3000);
    }
    before.save(folder.path(), TOKENIZER).expect("a folder");
    // A part that is dead in part, and a manifest before the last that names it.
    teach(&before, 1, 100);
    before.save(folder.path(), TOKENIZER).expect("a folder");
    teach(&before, 4, 70);
    assert!((1..5).all(|number| holds(&folder, number)));
    assert!(forget(&before, 1));
    assert!(!holds(&folder, 1));
    assert!((2..5).all(|number| holds(&folder, number)));
    let after = memory();
    let restored = after
        .restore(folder.path(), TOKENIZER)
        .expect("a whole snapshot");
    assert_eq!((restored.num_namespaces, restored.num_tokens), (3, 9000));
    // What was not saved before is saved as ever.
    let saved = before.save(folder.path(), TOKENIZER).expect("a folder");
    assert_eq!(saved.num_tokens, 9070);
    assert!(!holds(&folder, 1));
    assert!(!forget(&before, 1), "it is not known any more");
    assert_eq!(
        before
            .save(folder.path(), TOKENIZER)
            .expect("a folder")
            .written_bytes,
        0,
        "nothing is new"
    );
}

#[test]
fn text_that_was_pushed_out_before_is_erased_as_well() {
    let folder = Folder::new();
    let memory = memory();
    teach(&memory, 1, 300);
    teach(&memory, 2, 3000);
    memory.save(folder.path(), TOKENIZER).expect("a folder");
    for other in 10..20 {
        drop(memory.namespace(&format!("other {other}")));
        drop(memory.namespace("tenant-2"));
    }
    memory.save(folder.path(), TOKENIZER).expect("a folder");
    memory.save(folder.path(), TOKENIZER).expect("a folder");
    assert!(holds(&folder, 1), "nothing refers to it, but it is there");
    assert!(!forget(&memory, 1));
    assert!(!holds(&folder, 1) && holds(&folder, 2));
}

#[test]
fn it_is_gone_from_snapshots_of_other_tokenizers_and_from_what_is_kept_aside() {
    let folder = Folder::new();
    let first = memory();
    teach(&first, 1, 300);
    teach(&first, 2, 300);
    first.save(folder.path(), "another").expect("a folder");
    let single = folder.path().join("memory.snapshot");
    fs::write(
        &single,
        b"tenant-1 in a file of nobody knows which tokenizer",
    )
    .expect("a folder");
    let second = memory();
    teach(&second, 1, 400);
    teach(&second, 2, 400);
    second.save(folder.path(), TOKENIZER).expect("a folder");
    drop(second);
    let part = folder.path().join("memory-0123456789abcdef/part-00000000");
    let mut bytes = fs::read(&part).expect("the part");
    let last = bytes.len() - 1;
    bytes[last] ^= 1;
    fs::write(&part, bytes).expect("a writable file");
    let third = memory();
    third
        .restore(folder.path(), TOKENIZER)
        .expect("a damaged snapshot");
    assert!(
        folder
            .path()
            .join("memory-0123456789abcdef/part-00000000.damaged")
            .exists()
    );
    assert!(holds(&folder, 1) && holds(&folder, 2));
    forget(&third, 1);
    assert!(!holds(&folder, 1) && holds(&folder, 2));
    let other = memory();
    let restored = other.restore(folder.path(), "another");
    assert_eq!(restored.expect("a whole snapshot").num_tokens, 300);
}

#[test]
fn it_is_gone_from_a_snapshot_that_could_not_be_read_and_is_kept_aside() {
    let folder = Folder::new();
    let before = memory();
    for number in 1..3 {
        teach(&before, number, 300);
    }
    before.save(folder.path(), TOKENIZER).expect("a folder");
    let inner = folder.path().join("memory-0123456789abcdef");
    let aside = folder.path().join("memory-0123456789abcdef.unread");
    fs::rename(&inner, &aside).expect("a free name");
    let after = memory();
    teach(&after, 3, 300);
    after.save(folder.path(), TOKENIZER).expect("a folder");
    assert!(forget(&after, 1), "it was on disk");
    assert!(!holds(&folder, 1) && holds(&folder, 2) && holds(&folder, 3));
    fs::remove_dir_all(&inner).expect("the new one");
    fs::rename(&aside, &inner).expect("a free name");
    let restored = memory().restore(folder.path(), TOKENIZER);
    assert_eq!(restored.expect("a whole snapshot").num_tokens, 300);
    // What cannot be told is removed.
    fs::rename(&inner, &aside).expect("a free name");
    fs::remove_file(aside.join("manifest")).expect("a manifest");
    forget(&after, 1);
    assert!(!aside.exists());
}

#[test]
fn what_only_a_single_file_holds_is_saved_before_that_is_removed() {
    let folder = Folder::new();
    let single = folder.path().join("memory.snapshot");
    fs::write(&single, include_bytes!("../common/version2.snapshot")).expect("a folder");
    let before = memory();
    before
        .restore(folder.path(), TOKENIZER)
        .expect("a whole snapshot");
    assert!(before.forget("b").expect("a disk"));
    assert!(!single.exists());
    let after = memory();
    let restored = after.restore(folder.path(), TOKENIZER);
    assert_eq!(restored.expect("a whole snapshot").num_tokens, 1605);
}

#[test]
fn a_single_file_whose_other_text_cannot_be_saved_is_removed_and_that_is_an_error() {
    let folder = Folder::new();
    let single = folder.path().join("memory.snapshot");
    fs::write(&single, include_bytes!("../common/version2.snapshot")).expect("a folder");
    let before = memory();
    before
        .restore(folder.path(), TOKENIZER)
        .expect("a whole snapshot");
    // A file has the place of the folder.
    let inner = folder.path().join("memory-0123456789abcdef");
    fs::write(&inner, "").expect("a free name");
    let error = before.forget("b").expect_err("nothing can be saved");
    let path = inner.display().to_string();
    assert!(error.to_string().contains(&path), "{error}");
    assert!(!single.exists(), "it held what was to be forgotten");
    fs::remove_file(&inner).expect("a file");
    let saved = before.save(folder.path(), TOKENIZER).expect("a folder");
    assert_eq!(saved.num_tokens, 1605, "the others are in memory");
    assert!(
        !before.forget("b").expect("a disk"),
        "nothing is left of it"
    );
}

#[test]
fn what_cannot_be_rewritten_is_removed() {
    let folder = Folder::new();
    let before = memory();
    teach(&before, 1, 300);
    before.save(folder.path(), TOKENIZER).expect("a folder");
    let inner = folder.path().join("memory-0123456789abcdef");
    fs::create_dir(inner.join("manifest.partial")).expect("a folder");
    forget(&before, 1);
    assert!(!inner.exists());
    teach(&before, 2, 300);
    let saved = before.save(folder.path(), TOKENIZER).expect("a folder");
    assert_eq!((saved.num_namespaces, saved.num_tokens), (1, 300));
}

#[test]
fn what_can_be_neither_rewritten_nor_removed_is_an_error_until_it_is_gone() {
    let folder = Folder::new();
    let before = memory();
    for number in 1..3 {
        teach(&before, number, 300);
    }
    before.save(folder.path(), TOKENIZER).expect("a folder");
    // The folder has another name, and a file has its place.
    let away = folder.path().with_extension("away");
    fs::rename(folder.path(), &away).expect("a free name");
    fs::write(folder.path(), "").expect("a free name");
    let error = before.forget("tenant-1").expect_err("no folder");
    let path = folder.path().display().to_string();
    assert!(error.to_string().contains(&path), "{error}");
    assert_eq!(before.num_tokens(), 300, "memory has forgotten it");
    fs::remove_file(folder.path()).expect("a file");
    fs::rename(&away, folder.path()).expect("a free name");
    assert!(holds(&folder, 1));
    assert!(forget(&before, 1), "it was on disk");
    assert!(!holds(&folder, 1) && holds(&folder, 2));
    assert!(!forget(&before, 1));
}

#[test]
fn saves_give_way_to_forgetting_and_end_nevertheless() {
    let folder = Folder::new();
    let memory = memory();
    for number in 1..6 {
        teach(&memory, number, 20_000);
    }
    let done = AtomicBool::new(false);
    thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                while !done.load(Ordering::Acquire) {
                    memory.save(folder.path(), TOKENIZER).expect("a folder");
                }
            });
        }
        for round in 0..20 {
            let number = 1 + round % 3;
            forget(&memory, number);
            let inner = folder.path().join("memory-0123456789abcdef/manifest");
            let manifest = fs::read(inner).unwrap_or_default();
            let name = format!("tenant-{number}");
            let names = manifest.windows(name.len());
            assert_eq!(names.filter(|at| *at == name.as_bytes()).count(), 0);
            teach(&memory, number, 5000);
        }
        done.store(true, Ordering::Release);
    });
    let saved = memory.save(folder.path(), TOKENIZER).expect("a folder");
    assert_eq!(saved.num_tokens, memory.num_tokens());
    let after = self::memory();
    let restored = after.restore(folder.path(), TOKENIZER);
    assert_eq!(
        restored.expect("a whole snapshot").num_tokens,
        memory.num_tokens()
    );
}
