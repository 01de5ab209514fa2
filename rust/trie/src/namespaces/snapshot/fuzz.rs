//! Damaged snapshots: each is refused, or restored to memory that works.

use std::io;
use std::sync::Arc;

use rand::Rng;
use rand::rngs::StdRng;

use super::file::{self, FOOTER_BYTES, HEADER_BYTES, ReadAt, Refusal};
use super::load::load_from;
use super::save::write;
use crate::store::atomic_file::{CHECKSUM_BYTES, Checked};
use crate::testing::corrupt::{damage, seal, try_inputs};
use crate::{DraftConfig, DraftMemory, Drafter, MemoryConfig, TokenId};

const TOKENIZER: &str = "abc";
const OLD_TOKENIZER: &str = "0123456789abcdef";
const CAPACITY_BYTES: usize = 64 << 10;
const MAX_NAMESPACES: usize = 4;
/// Tokens of the text before it repeats itself.
const CYCLE: TokenId = 23;
/// Where the contexts start that are drafted for. Miri takes seconds for each.
const STARTS: &[TokenId] = if cfg!(miri) { &[7] } else { &[0, 7, 17] };

impl ReadAt for Vec<u8> {
    fn len(&self) -> io::Result<u64> {
        Ok(self.as_slice().len() as u64)
    }

    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<()> {
        let bytes = self.get(offset as usize..).unwrap_or_default();
        let bytes = bytes
            .get(..buffer.len())
            .ok_or(io::ErrorKind::UnexpectedEof)?;
        buffer.copy_from_slice(bytes);
        Ok(())
    }
}

/// Takes what `file` holds into `memory`.
fn restore(memory: &DraftMemory, file: &Vec<u8>, tokenizer: &str) -> Result<(), Refusal> {
    let loaded = load_from(file, tokenizer, MAX_NAMESPACES, memory.pool())?;
    memory.take_in(loaded);
    Ok(())
}

fn memory() -> DraftMemory {
    DraftMemory::new(MemoryConfig {
        capacity_bytes: CAPACITY_BYTES,
        max_namespaces: MAX_NAMESPACES,
    })
    .unwrap()
}

fn cycle(start: TokenId, tokens: TokenId) -> Vec<TokenId> {
    (start..start + tokens).map(|i| i % CYCLE).collect()
}

/// A snapshot of two namespaces, one of them with several blocks.
fn snapshot() -> Vec<u8> {
    let memory = memory();
    memory.namespace("a").insert(&cycle(0, 400));
    memory.namespace("b").insert(&cycle(5, 90));
    let mut writer = Checked::new(Vec::new());
    write(&mut writer, &memory.oldest_first(), TOKENIZER).unwrap();
    writer.into_inner()
}

/// A snapshot that the version before this one wrote, of a namespace of three segments and one of
/// one.
fn old_snapshot() -> Vec<u8> {
    include_bytes!("../../../tests/common/version1.snapshot").to_vec()
}

/// The header of `file`, its blocks and its index, each with its checksum.
fn blocks(file: &Vec<u8>, tokenizer: &str, num_blocks: usize) -> Vec<Vec<u8>> {
    let (version, saved) = file::read_index(file, tokenizer).unwrap();
    let mut blocks = vec![file[..HEADER_BYTES].to_vec()];
    let mut end = HEADER_BYTES;
    for block in saved.iter().flat_map(|namespace| &namespace.blocks) {
        assert_eq!(block.offset as usize, end);
        let start = end;
        end += file::saved_bytes(version, block.shape) + CHECKSUM_BYTES;
        blocks.push(file[start..end].to_vec());
    }
    blocks.push(file[end..file.as_slice().len() - FOOTER_BYTES].to_vec());
    assert_eq!(
        blocks.as_slice().len(),
        num_blocks + 2,
        "a header, the blocks, an index"
    );
    assert_eq!(&assemble(&blocks), file);
    blocks
}

/// The blocks and the footer with the position of the last one.
fn assemble(blocks: &[Vec<u8>]) -> Vec<u8> {
    let mut file = blocks.concat();
    let index = blocks.last().map_or(0, |index| index.as_slice().len());
    let position = (file.as_slice().len() - index) as u64;
    let mut footer = [0; FOOTER_BYTES];
    footer[..size_of::<u64>()].copy_from_slice(&position.to_le_bytes());
    seal(&mut footer);
    file.extend(footer);
    file
}

/// Gives the blocks that the index of `file` names the checksums of what is there.
fn seal_blocks(file: &mut [u8], version: u32, index: &[file::SavedNamespace]) {
    for block in index.iter().flat_map(|namespace| &namespace.blocks) {
        let start = block.offset as usize;
        let end = start + file::saved_bytes(version, block.shape) + CHECKSUM_BYTES;
        seal(&mut file[start..end]);
    }
}

/// Half of the inputs are damaged anywhere; in the others one block is, and the checksums fit, so
/// that what follows them is reached.
fn damaged(blocks: &[Vec<u8>], tokenizer: &str, random: &mut StdRng) -> Vec<u8> {
    if random.random() {
        let mut file = assemble(blocks);
        damage(&mut file, true, random);
        return file;
    }
    let mut blocks = blocks.to_vec();
    let at = random.random_range(0..blocks.as_slice().len());
    let block = &mut blocks[at];
    block.truncate(block.as_slice().len() - CHECKSUM_BYTES);
    let resizes = random.random_ratio(1, 4);
    damage(block, resizes, random);
    block.extend([0; CHECKSUM_BYTES]);
    seal(block);
    let mut file = assemble(&blocks);
    if let Ok((version, index)) = file::read_index(&file, tokenizer) {
        seal_blocks(&mut file, version, &index);
    }
    file
}

/// Restores `file` and works with the result. Returns whether it was accepted.
fn restores(file: &Vec<u8>, tokenizer: &str) -> bool {
    let memory = memory();
    let restored = restore(&memory, file, tokenizer);
    match &restored {
        Ok(()) => work(&memory),
        Err(refusal) => {
            assert_eq!((memory.bytes(), memory.num_tokens()), (0, 0));
            if let Refusal::Io(error) = refusal {
                assert_eq!(error.kind(), io::ErrorKind::UnexpectedEof, "{error}");
            }
        }
    }
    restored.is_ok()
}

/// Drafts from every namespace, adds to it and saves all.
fn work(memory: &DraftMemory) {
    for shared in memory.oldest_first() {
        let mut insertion = shared.begin();
        for &start in STARTS {
            let context = cycle(start, 10);
            let mut drafter = Drafter::new(DraftConfig::default(), Some(Arc::clone(&shared)));
            drafter.push_prompt(&context);
            let tree = drafter.draft(16, 0.0);
            let accepted: Vec<_> = tree.walk(&cycle(start + 10, 4));
            drafter.observe(&tree, &accepted);
            drafter.push_output(&cycle(start + 10, 5));
            insertion.push(&context);
        }
        shared.insert(&cycle(3, 300));
    }
    assert!(memory.bytes() <= CAPACITY_BYTES);
    let mut writer = Checked::new(Vec::new());
    write(&mut writer, &memory.oldest_first(), TOKENIZER).unwrap();
    let again = writer.into_inner();
    restore(&self::memory(), &again, TOKENIZER).unwrap();
}

fn fuzz(count: u32) {
    let (new, old) = (snapshot(), old_snapshot());
    let files = [(new, TOKENIZER, 3), (old, OLD_TOKENIZER, 4)];
    for (file, tokenizer, num_blocks) in &files {
        assert!(restores(file, tokenizer), "the undamaged file is fine");
        let blocks = blocks(file, tokenizer, *num_blocks);
        let outcome = try_inputs(count / 2, |random| {
            restores(&damaged(&blocks, tokenizer, random), tokenizer)
        });
        let few = count / 40;
        assert!(
            outcome.accepted > few && outcome.refused > few,
            "{outcome:?}"
        );
    }
}

#[test]
fn damaged_snapshots_are_refused_or_harmless() {
    fuzz(if cfg!(miri) { 12 } else { 20_000 });
}

#[test]
#[ignore = "deep"]
fn a_million_damaged_snapshots_are_refused_or_harmless() {
    fuzz(1_000_000);
}
