//! A power cut at every point of saves and of forgetting, with any unsynced change lost: the snapshot
//! opens as the old or the new state.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;

use rand::rngs::StdRng;
use rand::seq::IndexedRandom;
use rand::{Rng, SeedableRng};

use super::support::{ROOT, TOKENIZER, memory, save};
use crate::store::disk::Disk;
use crate::testing::memory_disk::MemoryDisk;
use crate::{DraftMemory, TokenId};

const CAPACITY_BYTES: usize = 1 << 20;
/// Random subsets of the unsynced changes that are lost at each point.
const SUBSETS: usize = 4;
const ROUNDS: u32 = 8;

/// The cells of the blocks of each namespace.
type Content = Vec<(String, Vec<Vec<TokenId>>)>;

fn content(memory: &DraftMemory) -> Content {
    let mut content: Content = memory
        .oldest_first()
        .iter()
        .map(|shared| {
            let view = shared.view();
            let cells = view.blocks().iter().map(|block| {
                let cells = (0..block.capacity() as u32).map(|cell| block.token(cell));
                cells.collect()
            });
            (shared.name().to_owned(), cells.collect())
        })
        .filter(|(_, blocks): &(String, Vec<_>)| !blocks.is_empty())
        .collect();
    content.sort();
    content
}

/// What a snapshot holds before and after each step that changed it, and the changes of the disk
/// when the step had ended.
struct History {
    disk: Arc<MemoryDisk>,
    states: Vec<(usize, Content)>,
    /// After so many changes, no file may hold the name or a token of this namespace.
    forgotten: Vec<(usize, u32)>,
}

fn text(seed: u32, tokens: u32) -> Vec<TokenId> {
    (0..tokens).map(|i| first_token(seed) + i).collect()
}

/// The first token of a namespace, whose others follow it.
fn first_token(seed: u32) -> TokenId {
    0x5100_0000 + (seed << 16)
}

fn name(seed: u32) -> String {
    format!("tenant-{seed}")
}

/// Saves that write new text, rewrite parts and drop text; forgetting; and a restart.
fn history() -> History {
    let disk = Arc::new(MemoryDisk::default());
    let mut history = History {
        disk: Arc::clone(&disk),
        states: vec![(0, Vec::new())],
        forgotten: Vec::new(),
    };
    let mut now = memory(&disk, CAPACITY_BYTES);
    for round in 0..ROUNDS {
        for (seed, tokens) in [(1, 300), (2, 40 + 700 * (round % 2)), (3, 100)] {
            now.namespace(&name(seed)).insert(&text(seed, tokens));
        }
        save(&now);
        history.states.push((disk.num_changes(), content(&now)));
        if round % 3 == 2 {
            let gone = if round == 2 { 1 } else { 2 };
            now.forget(&name(gone)).unwrap();
            history.states.push((disk.num_changes(), content(&now)));
            history
                .forgotten
                .push((disk.num_changes(), gone.to_owned()));
        }
        if round == 4 {
            let again = memory(&disk, CAPACITY_BYTES);
            again.restore(Path::new(ROOT), TOKENIZER).unwrap();
            assert_eq!(content(&again), content(&now));
            now = again;
        }
    }
    history
}

impl History {
    /// Opens the disk after `count` changes without those `lost`, and goes on from there.
    fn open(&self, count: usize, lost: &BTreeSet<usize>) {
        let disk = Arc::new(self.disk.after(count, lost));
        let opened = memory(&disk, CAPACITY_BYTES);
        let info = opened
            .restore(Path::new(ROOT), TOKENIZER)
            .unwrap_or_else(|error| panic!("after {count} without {lost:?}: {error}"));
        assert_eq!(info.first_damage, None, "after {count} without {lost:?}");
        let found = content(&opened);
        // The last state that was reached, or the one that was being reached.
        let reached = self
            .states
            .iter()
            .rposition(|(end, _)| *end <= count)
            .unwrap();
        let mut allowed = self.states[reached..].iter().take(2);
        assert!(
            allowed.any(|(_, state)| *state == found),
            "after {count} without {lost:?}"
        );
        for (_, gone) in self.forgotten.iter().filter(|(end, _)| *end == count) {
            for (path, bytes) in disk.all() {
                let place = format!("{} after {count} without {lost:?}", path.display());
                let name = name(*gone);
                let names = bytes
                    .windows(name.len())
                    .filter(|at| *at == name.as_bytes());
                assert_eq!(names.count(), 0, "{place}");
                let (words, _) = bytes.as_chunks::<4>();
                let mut words = words.iter().map(|word| u32::from_le_bytes(*word));
                let tokens = first_token(*gone)..first_token(*gone) + 1000;
                assert!(!words.any(|word| tokens.contains(&word)), "{place}");
            }
        }
        opened.namespace(&name(4)).insert(&text(4, 20));
        save(&opened);
        let again = memory(&disk, CAPACITY_BYTES);
        again.restore(Path::new(ROOT), TOKENIZER).unwrap();
        assert_eq!(content(&again), content(&opened));
    }
}

#[test]
fn every_prefix_of_the_writes_with_any_unsynced_ones_lost_opens_as_old_or_new() {
    let history = history();
    let mut random = StdRng::seed_from_u64(1);
    let mut opened = 0;
    for count in 0..=history.disk.num_changes() {
        let unsynced = history.disk.unsynced(count);
        let mut choices = BTreeSet::from([BTreeSet::new(), unsynced.iter().copied().collect()]);
        choices.extend(unsynced.iter().map(|&one| BTreeSet::from([one])));
        for _ in 0..SUBSETS {
            let size = random.random_range(0..=unsynced.len());
            choices.insert(
                unsynced
                    .choose_multiple(&mut random, size)
                    .copied()
                    .collect(),
            );
        }
        for lost in choices {
            history.open(count, &lost);
            opened += 1;
        }
    }
    println!("{opened} disks of {} changes", history.disk.num_changes());
    assert!(opened > 2 * history.disk.num_changes());
}

#[test]
fn a_crash_while_one_that_could_not_be_read_is_kept_aside_loses_nothing() {
    let disk = Arc::new(MemoryDisk::default());
    let before = memory(&disk, CAPACITY_BYTES);
    before.namespace(&name(1)).insert(&text(1, 300));
    save(&before);
    let first = disk.num_changes();
    let cold = memory(&disk, CAPACITY_BYTES);
    disk.set_readable(false);
    cold.restore(Path::new(ROOT), TOKENIZER).unwrap_err();
    disk.set_readable(true);
    for tokens in [20, 30] {
        cold.namespace(&name(2)).insert(&text(2, tokens));
        save(&cold);
    }
    for count in first..=disk.num_changes() {
        for lost in [Vec::new(), disk.unsynced(count)] {
            let opened = Arc::new(disk.after(count, &lost.iter().copied().collect()));
            let tokens = |disk: &Arc<MemoryDisk>| {
                let opened = memory(disk, CAPACITY_BYTES);
                let info = opened.restore(Path::new(ROOT), TOKENIZER).unwrap();
                info.num_tokens
            };
            let place = format!("after {count} without {lost:?}");
            let found = tokens(&opened);
            let folder = Path::new(ROOT).join(format!("memory-{TOKENIZER}"));
            let aside = folder.with_file_name(format!("memory-{TOKENIZER}.unread"));
            if !opened.folders(Path::new(ROOT)).unwrap().contains(&aside) {
                assert_eq!(found, 300, "{place}");
                continue;
            }
            assert!([0, 20, 50].contains(&found), "{found} {place}");
            opened.remove_folder(&folder).unwrap();
            opened.rename(&aside, &folder).unwrap();
            assert_eq!(tokens(&opened), 300, "{place}");
        }
    }
}
