//! A process that is killed while it saves leaves the old snapshot or the new one.

#![allow(clippy::expect_used, reason = "a failed helper is a failed test")]

mod common;

use std::io::{self, BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread;
use std::time::Duration;

use common::Folder;
use spectrie_trie::{DraftMemory, MemoryConfig};

/// Set in the child: where it saves.
const FOLDER: &str = "SPECTRIE_TEST_SAVE_FOLDER";
/// The test that the child runs: a program of tests has no other way in.
const KILLED: &str = "kills_leave_the_old_or_the_new_snapshot";
const TOKENIZER: &str = "0123456789abcdef";
/// What the child says before it saves or forgets, and after it, each with the tokens that are on
/// disk then.
const BEGINS: &str = "begins";
const DONE: &str = "done";
/// Few, so that most of the child's time is spent on saves.
const TOKENS: u32 = 600;

fn memory() -> DraftMemory {
    DraftMemory::new(MemoryConfig::default()).expect("a valid config")
}

/// The child: goes on from what the one before left, and saves one version after another until it is
/// killed. Each adds the same text to one of four namespaces; now and then one is forgotten.
fn save_until_killed(folder: &Path) {
    let memory = memory();
    let restored = memory.restore(folder, TOKENIZER);
    assert_eq!(restored.expect("the old or the new one").first_damage, None);
    for version in 0..100_000 {
        let text: Vec<_> = (0..TOKENS).collect();
        memory.namespace(&format!("n{}", version % 4)).insert(&text);
        say(BEGINS, memory.num_tokens());
        memory.save(folder, TOKENIZER).expect("a writable folder");
        say(DONE, memory.num_tokens());
        if version % 16 == 15 {
            let name = format!("n{}", version / 16 % 4);
            let namespaces = memory.namespaces().into_iter();
            let others = namespaces.filter(|info| info.name != name);
            say(BEGINS, others.map(|info| info.num_tokens).sum());
            memory.forget(&name).expect("a disk");
            say(DONE, memory.num_tokens());
        }
    }
}

/// In one write, so that a kill cuts no line.
fn say(what: &str, tokens: u64) {
    let line = format!("{what} {tokens}\n");
    io::stderr().write_all(line.as_bytes()).expect("a pipe");
}

/// What was said, and of how many tokens.
fn heard(line: &str) -> Option<(&str, u64)> {
    let (what, tokens) = line.split_once(' ')?;
    let is_ours = [BEGINS, DONE].contains(&what);
    is_ours.then(|| tokens.parse().ok().map(|tokens| (what, tokens)))?
}

/// Kills a saving child `times` times, a little later each time, and opens what it left: what the last
/// save or forget made that ended, or the one that had begun.
fn kill_and_open(times: u64) {
    let folder = Folder::new();
    for round in 0..times {
        let mut child = Command::new(std::env::current_exe().expect("this test"))
            .args([KILLED, "--exact", "--nocapture"])
            .env(FOLDER, folder.path())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .expect("a child");
        let says = BufReader::new(child.stderr.take().expect("its words"));
        // The pipe stays open, so that the child goes on saying so.
        let mut lines = says.lines().map_while(Result::ok);
        let mut last_done = lines.by_ref().find_map(|line| match heard(&line) {
            Some((DONE, tokens)) => Some(tokens),
            _ => None,
        });
        assert!(last_done.is_some(), "the child saves");
        // Wherever it is then.
        thread::sleep(Duration::from_micros(round * 7_919 % 40_000));
        child.kill().expect("the child runs until it is killed");
        child.wait().expect("the child ends");
        let mut begun = None;
        for line in lines {
            match heard(&line) {
                Some((DONE, tokens)) => (last_done, begun) = (Some(tokens), None),
                Some((_, tokens)) => begun = Some(tokens),
                None => {}
            }
        }
        let after = memory();
        let restored = after
            .restore(folder.path(), TOKENIZER)
            .expect("the old or the new one");
        let found = Some(restored.num_tokens);
        assert!(
            found == last_done || found == begun,
            "round {round}: {found:?} tokens after {last_done:?}, while {begun:?} were written"
        );
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
    match std::env::var_os(FOLDER) {
        Some(folder) => save_until_killed(Path::new(&folder)),
        None => kill_and_open(12),
    }
}

#[test]
#[ignore = "deep"]
fn two_hundred_kills_leave_the_old_or_the_new_snapshot() {
    kill_and_open(200);
}
