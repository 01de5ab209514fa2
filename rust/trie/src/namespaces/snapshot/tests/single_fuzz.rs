//! Damaged snapshots of earlier versions: each is refused, or restored to memory that works.

use std::path::Path;
use std::sync::Arc;

use rand::Rng;
use rand::rngs::StdRng;

use super::support::{MAX_NAMESPACES, ROOT, memory, save};
use crate::namespaces::snapshot::single::file::{
    FOOTER_BYTES, HEADER_BYTES, Index, SingleFile, saved_bytes,
};
use crate::store::atomic_file::CHECKSUM_BYTES;
use crate::testing::corrupt::{damage, seal, try_inputs};
use crate::testing::memory_disk::MemoryDisk;
use crate::{DraftConfig, DraftMemory, Drafter, TokenId};

const TOKENIZER: &str = "0123456789abcdef";
const CAPACITY_BYTES: usize = 256 << 10;
/// Where the contexts start that are drafted for. Miri takes seconds for each.
const STARTS: &[TokenId] = &[0, 7, 17];

fn disk_with(file: &[u8]) -> Arc<MemoryDisk> {
    let disk = MemoryDisk::default();
    disk.put(&Path::new(ROOT).join("memory.snapshot"), file.to_vec());
    Arc::new(disk)
}

fn index(file: &[u8]) -> Option<Index> {
    let disk = disk_with(file);
    SingleFile::new(&*disk, Path::new(ROOT))
        .index(TOKENIZER)
        .ok()
}

/// The header of `file`, its blocks and its index, each with its checksum.
fn blocks(file: &[u8]) -> Vec<Vec<u8>> {
    let index = index(file).unwrap();
    let mut blocks = vec![file[..HEADER_BYTES].to_vec()];
    let mut end = HEADER_BYTES;
    for block in index
        .namespaces
        .iter()
        .flat_map(|namespace| &namespace.blocks)
    {
        assert_eq!(block.place as usize, end);
        let start = end;
        end += saved_bytes(index.version, block.shape) + CHECKSUM_BYTES;
        blocks.push(file[start..end].to_vec());
    }
    blocks.push(file[end..file.len() - FOOTER_BYTES].to_vec());
    assert!(blocks.len() > 3, "a header, blocks, an index");
    assert_eq!(assemble(&blocks), file);
    blocks
}

/// The blocks and the footer with the position of the last one.
fn assemble(blocks: &[Vec<u8>]) -> Vec<u8> {
    let mut file = blocks.concat();
    let index = blocks.last().map_or(0, Vec::len);
    let position = (file.len() - index) as u64;
    let mut footer = [0; FOOTER_BYTES];
    footer[..size_of::<u64>()].copy_from_slice(&position.to_le_bytes());
    seal(&mut footer);
    file.extend(footer);
    file
}

/// Gives the blocks that the index of `file` names the checksums of what is there.
fn seal_blocks(file: &mut [u8], index: &Index) {
    for block in index
        .namespaces
        .iter()
        .flat_map(|namespace| &namespace.blocks)
    {
        let start = block.place as usize;
        let end = start + saved_bytes(index.version, block.shape) + CHECKSUM_BYTES;
        seal(&mut file[start..end]);
    }
}

/// Half of the inputs are damaged anywhere; in the others one block is, and the checksums fit, so
/// that what follows them is reached.
fn damaged(blocks: &[Vec<u8>], random: &mut StdRng) -> Vec<u8> {
    if random.random() {
        let mut file = assemble(blocks);
        damage(&mut file, true, random);
        return file;
    }
    let mut blocks = blocks.to_vec();
    let at = random.random_range(0..blocks.len());
    let block = &mut blocks[at];
    block.truncate(block.len() - CHECKSUM_BYTES);
    let resizes = random.random_ratio(1, 4);
    damage(block, resizes, random);
    block.extend([0; CHECKSUM_BYTES]);
    seal(block);
    let mut file = assemble(&blocks);
    if let Some(index) = index(&file) {
        seal_blocks(&mut file, &index);
    }
    file
}

/// Restores `file` and works with the result. Returns whether it was accepted.
fn restores(file: &[u8]) -> bool {
    let disk = disk_with(file);
    let memory = memory(&disk, CAPACITY_BYTES);
    let restored = memory.restore(Path::new(ROOT), TOKENIZER);
    match &restored {
        Ok(_) => work(&memory),
        Err(_) => assert_eq!((memory.bytes(), memory.num_tokens()), (0, 0)),
    }
    assert!(memory.num_namespaces() <= MAX_NAMESPACES);
    restored.is_ok()
}

/// Drafts from every namespace, adds to it and saves all.
fn work(memory: &DraftMemory) {
    let text = |start: TokenId| (start..start + 10).map(|i| 1000 + i).collect::<Vec<_>>();
    for shared in memory.oldest_first() {
        let mut insertion = shared.begin();
        for &start in STARTS {
            let mut drafter = Drafter::new(DraftConfig::default(), Some(Arc::clone(&shared)));
            drafter.push_prompt(&text(start));
            let tree = drafter.draft(16, 0.0);
            let accepted: Vec<_> = tree.walk(&text(start + 10));
            drafter.observe(&tree, &accepted);
            drafter.push_output(&text(start + 10));
            insertion.push(&text(start));
        }
        shared.insert(&(0..300).map(|i| i % 23).collect::<Vec<_>>());
    }
    assert!(memory.bytes() <= CAPACITY_BYTES);
    save(memory);
}

fn fuzz(count: u32) {
    let files: [&[u8]; 2] = [
        include_bytes!("../../../../tests/common/version1.snapshot"),
        include_bytes!("../../../../tests/common/version2.snapshot"),
    ];
    for file in files {
        assert!(restores(file), "the undamaged file is fine");
        let blocks = blocks(file);
        let outcome = try_inputs(count / 2, |random| restores(&damaged(&blocks, random)));
        let few = count / 40;
        assert!(
            outcome.accepted > few && outcome.refused > few,
            "{outcome:?}"
        );
    }
}

#[test]
fn damaged_single_files_are_refused_or_harmless() {
    fuzz(4_000);
}

#[test]
#[ignore = "deep"]
fn a_hundred_thousand_damaged_single_files_are_refused_or_harmless() {
    fuzz(100_000);
}
