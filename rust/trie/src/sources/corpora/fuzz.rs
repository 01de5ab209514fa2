//! Damaged corpora: each is refused, or drafted from without harm.

use std::path::Path;
use std::sync::Arc;

use rand::Rng;
use rand::rngs::StdRng;

use super::file::{HEADER_BYTES, Sections};
use super::map::Map;

use crate::testing::corrupt::{damage, seal, try_inputs};
use crate::{
    Corpus, CorpusBuilder, DraftConfig, DraftMemory, Drafter, MemoryConfig, Readers, TokenId,
};

/// Tokens of the text before it repeats itself.
const CYCLE: TokenId = 23;
/// Where the contexts start that are drafted for. Miri takes seconds for each.
const STARTS: &[TokenId] = if cfg!(miri) { &[7] } else { &[0, 7, 17] };
/// Position of the number of cells in the header.
const NUM_CELLS: usize = 16;

fn cycle(start: TokenId, tokens: TokenId) -> Vec<TokenId> {
    (start..start + tokens).map(|i| i % CYCLE).collect()
}

fn corpus() -> Vec<u8> {
    let mut builder = CorpusBuilder::new("a", "abc").unwrap();
    builder.push(&cycle(0, 120)).unwrap();
    builder.push(&cycle(9, 60)).unwrap();
    let path = std::env::temp_dir().join(format!("fuzz-{}.corpus", std::process::id()));
    builder.finish(&path).unwrap();
    let file = std::fs::read(&path).unwrap();
    std::fs::remove_file(&path).unwrap();
    file
}

/// Half of the inputs are damaged anywhere; the others keep the length that their header asks for
/// and have a checksum that fits, so that what follows it is reached.
fn damaged(file: &[u8], random: &mut StdRng) -> Vec<u8> {
    let mut file = file.to_vec();
    if random.random() {
        damage(&mut file, true, random);
        return file;
    }
    if random.random_ratio(1, 8) {
        let num_cells: u32 = random.random_range(0..400);
        file[NUM_CELLS..NUM_CELLS + 4].copy_from_slice(&num_cells.to_le_bytes());
        file.resize(Sections::of(num_cells).file_bytes(), random.random());
    }
    // The header is a small part and has most of the rules.
    let part = if random.random() {
        HEADER_BYTES
    } else {
        file.len()
    };
    let mut body = file[..part].to_vec();
    damage(&mut body, false, random);
    file[..part].copy_from_slice(&body);
    seal(&mut file);
    file
}

/// Opens `file` and drafts from it. Returns whether it was accepted.
fn opens(file: &[u8]) -> bool {
    let map = Map::of(file).unwrap();
    let Ok(corpus) = Corpus::verify(map, Path::new("any")) else {
        return false;
    };
    assert!(corpus.num_tokens() <= file.len() as u64);
    let memory = DraftMemory::new(MemoryConfig::default()).unwrap();
    memory.add_corpus(corpus, Readers::All).unwrap();
    let shared = memory.namespace("a");
    for &start in STARTS {
        let mut drafter = Drafter::new(DraftConfig::default(), Some(Arc::clone(&shared)));
        drafter.push_prompt(&cycle(start, 10));
        let tree = drafter.draft(16, 0.0);
        drafter.observe(&tree, &tree.walk(&cycle(start + 10, 4)));
        drafter.push_output(&cycle(start + 10, 5));
    }
    assert_eq!(memory.corpora().len(), 1);
    true
}

fn fuzz(count: u32) {
    let file = corpus();
    assert!(opens(&file), "the undamaged file is fine");
    let outcome = try_inputs(count, |random| opens(&damaged(&file, random)));
    let few = count / 20;
    assert!(
        outcome.accepted > few && outcome.refused > few,
        "{outcome:?}"
    );
}

#[test]
fn damaged_corpora_are_refused_or_harmless() {
    fuzz(if cfg!(miri) { 4 } else { 20_000 });
}

#[test]
#[ignore = "deep"]
fn a_million_damaged_corpora_are_refused_or_harmless() {
    fuzz(1_000_000);
}
