//! Damaged parts and manifests: what is whole is used, and nothing else is drafted.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rand::Rng;
use rand::rngs::StdRng;
use rand::seq::IteratorRandom;

use super::support::{ROOT, TOKENIZER, memory, pairs, path, save};
use crate::namespaces::snapshot::manifest::{HEADER_BYTES, Manifest};
use crate::namespaces::snapshot::run::{Run, Runs};
use crate::testing::corrupt::{damage, seal, try_inputs};
use crate::testing::memory_disk::MemoryDisk;
use crate::{DraftMemory, TokenId};

const CAPACITY_BYTES: usize = 128 << 10;
/// Tokens of the text before it repeats itself: `t` is followed by `t + 1`, modulo this.
const CYCLE: TokenId = 23;
/// Where the contexts start that are drafted for. Miri takes seconds for each.
const STARTS: &[TokenId] = &[0, 7, 17];

type Files = BTreeMap<PathBuf, Vec<u8>>;

fn cycle(start: TokenId, tokens: TokenId) -> Vec<TokenId> {
    (start..start + tokens).map(|i| i % CYCLE).collect()
}

/// A snapshot of two namespaces in three parts, with a manifest before the last.
fn snapshot() -> Files {
    let disk = Arc::new(MemoryDisk::default());
    let memory = memory(&disk, CAPACITY_BYTES);
    memory.namespace("a").insert(&cycle(0, 700));
    memory.namespace("b").insert(&cycle(5, 90));
    save(&memory);
    for start in 1..3 {
        memory.namespace("a").insert(&cycle(start, 600));
        save(&memory);
    }
    disk.all()
}

fn restored(files: &Files) -> (Arc<MemoryDisk>, DraftMemory, Option<crate::SnapshotInfo>) {
    let disk = MemoryDisk::default();
    for (path, bytes) in files {
        disk.put(path, bytes.clone());
    }
    let disk = Arc::new(disk);
    let memory = memory(&disk, CAPACITY_BYTES);
    let info = memory.restore(Path::new(ROOT), TOKENIZER).ok();
    (disk, memory, info)
}

/// Whether every draft continues the cycle.
fn is_true(memory: &DraftMemory) -> bool {
    let tries = memory.oldest_first();
    let drafts = tries.iter().flat_map(|shared| {
        let drafts = STARTS
            .iter()
            .flat_map(|&start| pairs(shared, &cycle(start, 10)));
        drafts.collect::<Vec<_>>()
    });
    drafts
        .into_iter()
        .all(|(before, token)| token == (before + 1) % CYCLE)
}

/// Adds to every namespace, saves all and restores it.
fn goes_on(disk: &Arc<MemoryDisk>, memory: &DraftMemory) {
    for shared in memory.oldest_first() {
        shared.insert(&cycle(3, 300));
    }
    assert!(memory.bytes() <= CAPACITY_BYTES);
    let saved = save(memory);
    let again = self::memory(disk, CAPACITY_BYTES);
    let info = again.restore(Path::new(ROOT), TOKENIZER).unwrap();
    assert_eq!(info.num_tokens, saved.num_tokens);
    assert_eq!((info.damaged_runs, info.damaged_tokens), (0, 0));
}

/// Damages one file, or two, anywhere. Says whether something of the snapshot was used.
fn any_damage(whole: &Files, random: &mut StdRng) -> bool {
    let mut files = whole.clone();
    for _ in 0..random.random_range(1..=2) {
        if let Some(file) = files.values_mut().choose(random) {
            damage(file, true, random);
        }
    }
    if random.random_ratio(1, 20) {
        let gone = files.keys().choose(random).cloned();
        gone.and_then(|path| files.remove(&path));
    }
    let (disk, memory, info) = restored(&files);
    assert!(is_true(&memory), "a damaged byte was drafted");
    if let Some(info) = &info {
        assert_eq!(info.num_tokens, memory.num_tokens());
    }
    goes_on(&disk, &memory);
    info.is_some_and(|info| info.num_tokens > 0)
}

/// Damages a part in one place. What lies elsewhere is kept.
fn damaged_part(whole: &Files, random: &mut StdRng) -> bool {
    let mut files = whole.clone();
    let parts = files
        .iter_mut()
        .filter(|(path, _)| path.to_string_lossy().contains("part-"));
    let Some((_, part)) = parts.choose(random) else {
        return false;
    };
    let at = random.random_range(0..part.len());
    part[at] ^= 1 << random.random_range(0..8);
    let (disk, memory, info) = restored(&files);
    let info = info.expect("the manifest is whole");
    assert!(is_true(&memory), "a damaged byte was drafted");
    assert!(info.damaged_runs <= 1, "{info:?}");
    assert_eq!(info.num_tokens + info.damaged_tokens, 1990, "{info:?}");
    goes_on(&disk, &memory);
    info.damaged_runs == 0
}

/// Damages the manifest so that its checksum fits: nothing that it says may harm.
fn lying_manifest(whole: &Files, random: &mut StdRng) -> bool {
    let mut files = whole.clone();
    let manifest = files.get_mut(&path("manifest")).expect("the manifest");
    manifest.truncate(manifest.len() - 8);
    let resizes = random.random_ratio(1, 4);
    damage(manifest, resizes, random);
    manifest.extend([0; 8]);
    seal(manifest);
    let (_, memory, info) = restored(&files);
    assert!(memory.bytes() <= CAPACITY_BYTES);
    for shared in memory.oldest_first() {
        for &start in STARTS {
            pairs(&shared, &cycle(start, 10));
        }
        shared.insert(&cycle(3, 300));
    }
    save(&memory);
    info.is_some_and(|info| info.first_damage.is_none())
}

#[test]
fn a_part_cut_short_before_forgotten_text_was_erased_costs_what_is_missing() {
    let mut files = snapshot();
    let manifest = files.get_mut(&path("manifest")).expect("the manifest");
    // The flag behind the header: text is to be erased.
    manifest[HEADER_BYTES] = 1;
    seal(manifest);
    let (_, whole, info) = restored(&files);
    assert_eq!(info.expect("a snapshot").num_tokens, whole.num_tokens());
    let part = files.get_mut(&path("part-00000000")).expect("a part");
    part.truncate(HEADER_BYTES + 100);
    let (disk, memory, info) = restored(&files);
    let info = info.expect("the manifest is whole");
    assert!(info.damaged_runs > 0 && info.num_tokens > 0, "{info:?}");
    assert_eq!(info.num_tokens + info.damaged_tokens, whole.num_tokens());
    assert!(is_true(&memory), "a damaged byte was drafted");
    goes_on(&disk, &memory);
}

#[test]
fn the_greatest_part_number_is_followed_by_the_smallest_that_are_free() {
    let mut files = snapshot();
    files.insert(path("part-ffffffff"), b"nobody knows what".to_vec());
    let (disk, memory, info) = restored(&files);
    assert_eq!(info.expect("a snapshot").num_tokens, 1990);
    goes_on(&disk, &memory);
    let parts = disk.all().into_keys();
    let parts: Vec<_> = parts
        .filter(|path| path.to_string_lossy().contains("part-"))
        .collect();
    assert!(parts.contains(&path("part-00000003")), "{parts:?}");
    assert!(!parts.contains(&path("part-ffffffff")), "{parts:?}");
    // As part of the snapshot, after one that gave it that number.
    let mut manifest = Manifest::decode(&files[&path("manifest")], TOKENIZER).unwrap();
    let (old, new) = (0, u32::MAX);
    for namespace in &mut manifest.namespaces {
        for block in &mut namespace.blocks {
            let runs = block.place.all().iter().map(|run| {
                let part = if run.part == old { new } else { run.part };
                Run { part, ..*run }
            });
            block.place = Runs::new(runs.collect());
        }
    }
    let part = files.remove(&path("part-00000000")).expect("a part");
    files.insert(path("part-ffffffff"), part);
    files.insert(path("manifest"), manifest.encode(TOKENIZER));
    let (disk, memory, info) = restored(&files);
    assert_eq!(info.expect("a snapshot").num_tokens, 1990);
    goes_on(&disk, &memory);
    goes_on(&disk, &memory);
}

#[test]
fn a_manifest_that_miscounts_tokens_costs_nothing() {
    let whole = snapshot();
    let file = &whole[&path("manifest")];
    // What a crash leaves of text that was written while it was saved; more than fits, by a build
    // before.
    for miscount in [|_| 0, |end| end, |end| end + 1] {
        let mut manifest = Manifest::decode(file, TOKENIZER).unwrap();
        for namespace in &mut manifest.namespaces {
            for block in &mut namespace.blocks {
                block.shape.num_tokens = miscount(block.shape.end);
            }
        }
        let mut files = whole.clone();
        files.insert(path("manifest"), manifest.encode(TOKENIZER));
        let (disk, memory, info) = restored(&files);
        let info = info.expect("a snapshot");
        assert_eq!((info.num_tokens, info.damaged_tokens), (1990, 0));
        assert_eq!(info.first_damage, None);
        goes_on(&disk, &memory);
    }
}

fn fuzz(count: u32) {
    let whole = snapshot();
    assert_eq!(
        whole.len(),
        5,
        "three parts and two manifests: {:?}",
        whole.keys()
    );
    let (disk, memory, info) = restored(&whole);
    assert_eq!(info.expect("a snapshot").num_tokens, 1990);
    goes_on(&disk, &memory);
    for try_one in [any_damage, damaged_part, lying_manifest] {
        let outcome = try_inputs(count / 3, |random| try_one(&whole, random));
        assert!(
            outcome.accepted > count / 1000 && outcome.refused > count / 1000,
            "{outcome:?}"
        );
    }
}

#[test]
fn damaged_files_cost_what_is_damaged_and_are_never_drafted() {
    fuzz(5_000);
}

#[test]
#[ignore = "deep"]
fn a_million_damaged_files_cost_what_is_damaged_and_are_never_drafted() {
    fuzz(1_000_000);
}
