//! A process that is killed while it saves leaves the old snapshot or the new one.

#![allow(clippy::expect_used, reason = "a failed helper is a failed test")]

mod common;

use std::io::{BufRead, BufReader, Read};
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread;
use std::time::Duration;

use common::Folder;
use spectrie_trie::{DraftMemory, MemoryConfig};

/// Set in the child: where it saves.
const FOLDER: &str = "SPECTRIE_TEST_SAVE_FOLDER";
const TOKENIZER: &str = "0123456789abcdef";
/// What the child says after each save.
const SAVED: &str = "saved";
/// Few, so that most of the child's time is spent on saves.
const TOKENS: u32 = 600;

fn memory() -> DraftMemory {
    DraftMemory::new(MemoryConfig::default()).expect("a valid config")
}

/// The child: goes on from what the one before left, and saves one version after another until it is
/// killed. Each adds the same text to one of four namespaces; now and then one is forgotten.
#[test]
fn saves_until_it_is_killed() {
    let Ok(folder) = std::env::var(FOLDER) else {
        return;
    };
    let memory = memory();
    let folder = Path::new(&folder);
    let restored = memory.restore(folder, TOKENIZER);
    assert_eq!(restored.expect("the old or the new one").first_damage, None);
    for version in 0..100_000 {
        let text: Vec<_> = (0..TOKENS).collect();
        memory.namespace(&format!("n{}", version % 4)).insert(&text);
        memory.save(folder, TOKENIZER).expect("a writable folder");
        eprintln!("{SAVED}");
        if version % 16 == 15 {
            memory
                .forget(&format!("n{}", version / 16 % 4))
                .expect("a disk");
        }
    }
}

/// Kills a saving child `times` times, a little later each time, and opens what it left.
fn kill_and_open(times: u64) {
    let folder = Folder::new();
    for round in 0..times {
        let mut child = Command::new(std::env::current_exe().expect("this test"))
            .args(["saves_until_it_is_killed", "--exact", "--nocapture"])
            .env(FOLDER, folder.path())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .expect("a child");
        let mut says = BufReader::new(child.stderr.take().expect("its words"));
        // The pipe stays open, so that the child goes on saying so.
        let saved = says
            .by_ref()
            .lines()
            .map_while(Result::ok)
            .any(|line| line.ends_with(SAVED));
        assert!(saved, "the child saves");
        // Wherever it is then.
        thread::sleep(Duration::from_micros(round * 7_919 % 40_000));
        child.kill().expect("the child runs until it is killed");
        child.wait().expect("the child ends");
        let after = memory();
        let restored = after
            .restore(folder.path(), TOKENIZER)
            .expect("the old or the new one");
        assert!(restored.num_tokens > 0 && restored.num_tokens.is_multiple_of(u64::from(TOKENS)));
        assert_eq!(restored.first_damage, None);
        assert_eq!(restored.num_tokens, after.num_tokens());
    }
    let left: usize = files(folder.path());
    assert!(
        left <= 150,
        "{left} files: what killed processes left is removed"
    );
}

/// Files in `folder` and in the folders there.
fn files(folder: &Path) -> usize {
    let entries = std::fs::read_dir(folder).expect("a folder");
    let counts = entries.map(|entry| {
        let path = entry.expect("an entry").path();
        if path.is_dir() { files(&path) } else { 1 }
    });
    counts.sum()
}

#[test]
fn kills_leave_the_old_or_the_new_snapshot() {
    kill_and_open(12);
}

#[test]
#[ignore = "deep"]
fn two_hundred_kills_leave_the_old_or_the_new_snapshot() {
    kill_and_open(200);
}
