//! Damaged corpora: each is refused, or drafted from without harm.

use std::path::Path;
use std::sync::{Arc, Mutex};

use rand::Rng;
use rand::rngs::StdRng;

use super::format_one;
use super::support::scratch_path;
use crate::sources::corpora::block_file::{BlockFile, Source, checksum_of};
use crate::sources::corpora::header::{HEADER_BYTES, Header};
use crate::sources::corpora::layout::{BLOCK_BYTES, Format};
use crate::testing::corrupt::{damage, seal, try_inputs};
use crate::{
    Corpus, CorpusBuilder, DraftConfig, DraftMemory, Drafter, MemoryConfig, Readers, TokenId,
};

/// Tokens of the text before it repeats itself.
const CYCLE: TokenId = 23;
/// Where the contexts start that are drafted for. Miri takes seconds for each.
const STARTS: &[TokenId] = &[0, 7, 17];
/// Position of the number of cells in the header.
const NUM_CELLS: usize = 16;

fn cycle(start: TokenId, tokens: TokenId) -> Vec<TokenId> {
    (start..start + tokens).map(|i| i % CYCLE).collect()
}

/// The documents of the undamaged file.
fn documents() -> [Vec<TokenId>; 2] {
    [cycle(0, 120), cycle(9, 60)]
}

fn corpus() -> Vec<u8> {
    let mut builder = CorpusBuilder::new("a", "abc").unwrap();
    for document in documents() {
        builder.push(&document).unwrap();
    }
    let path = scratch_path();
    builder.finish(&path).unwrap();
    let file = std::fs::read(&path).unwrap();
    std::fs::remove_file(&path).unwrap();
    file
}

/// The header of a file that may be damaged, if it has one.
fn header(file: &[u8]) -> Option<Header> {
    Header::decode(file, Path::new("any")).ok()
}

/// Half of the inputs are damaged anywhere; the others keep the length that their header asks for
/// and have checksums that fit, so that what is behind them is reached.
fn damaged(file: &[u8], random: &mut StdRng) -> Vec<u8> {
    let mut file = file.to_vec();
    if random.random() {
        damage(&mut file, true, random);
        return file;
    }
    if random.random_ratio(1, 8) {
        let num_cells: u32 = random.random_range(0..400);
        file[NUM_CELLS..NUM_CELLS + 4].copy_from_slice(&num_cells.to_le_bytes());
        let length = header(&file).map_or(file.len() as u64, |header| header.file_bytes());
        file.resize(length as usize, random.random());
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
    fit_checksums(&mut file);
    file
}

/// Makes all checksums those of the bytes, where the header says where they are.
fn fit_checksums(file: &mut Vec<u8>) {
    match header(file).filter(|header| header.file_bytes() == file.len() as u64) {
        Some(header) if header.format == Format::Two => {
            let end = header.words_end() as usize;
            let blocks = file[HEADER_BYTES..end].chunks(BLOCK_BYTES);
            let table: Vec<u64> = blocks.map(xxhash_rust::xxh3::xxh3_64).collect();
            let last = checksum_of(&file[..HEADER_BYTES], &table);
            file.truncate(end);
            file.extend(
                table
                    .iter()
                    .chain([&last])
                    .flat_map(|word| word.to_le_bytes()),
            );
        }
        _ => seal(file),
    }
}

/// Opens `file` and drafts from it. Says whether it was accepted.
fn opens(file: &[u8]) -> bool {
    let source = Source::Memory(Arc::new(Mutex::new(file.to_vec())));
    let Ok(opened) = BlockFile::read(source, Path::new("any")) else {
        return false;
    };
    let corpus = Corpus::alone(opened);
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

/// Damages `file` after it was opened, drafts from it, and compares every drafted token with the
/// documents. Says whether something was drafted.
fn drafts_truth(file: &[u8], random: &mut StdRng) -> bool {
    let bytes = Arc::new(Mutex::new(file.to_vec()));
    let opened = BlockFile::read(Source::Memory(Arc::clone(&bytes)), Path::new("any"));
    let corpus = Corpus::alone(opened.unwrap());
    let mut changed = file[HEADER_BYTES..].to_vec();
    if random.random_ratio(7, 8) {
        damage(&mut changed, true, random);
    }
    bytes.lock().unwrap().splice(HEADER_BYTES.., changed);
    let memory = DraftMemory::new(MemoryConfig::default()).unwrap();
    memory.add_corpus(corpus, Readers::All).unwrap();
    let mut drafter = Drafter::new(
        DraftConfig {
            hints: false,
            ..DraftConfig::default()
        },
        Some(memory.namespace("a")),
    );
    // No token of the context comes twice, so all that is drafted comes from the corpus.
    let start = random.random_range(0..CYCLE);
    drafter.push_prompt(&cycle(start, 9));
    let tree = drafter.draft(16, 0.0);
    for (index, node) in tree.nodes.iter().enumerate() {
        let path = tree.path_tokens(index as u32);
        assert_eq!(
            node.token,
            (start + 8 + path.len() as u32) % CYCLE,
            "{path:?}"
        );
    }
    !tree.nodes.is_empty()
}

fn fuzz(count: u32) {
    for file in [corpus(), format_one::build(&documents())] {
        assert!(opens(&file), "the undamaged file is fine");
        let outcome = try_inputs(count / 2, |random| opens(&damaged(&file, random)));
        let few = count / 40;
        assert!(
            outcome.accepted > few && outcome.refused > few,
            "{outcome:?}"
        );
        let outcome = try_inputs(count / 2, |random| drafts_truth(&file, random));
        assert!(
            outcome.accepted > few && outcome.refused > few,
            "{outcome:?}"
        );
    }
}

#[test]
fn damaged_corpora_are_refused_or_harmless() {
    fuzz(20_000);
}

#[test]
#[ignore = "deep"]
fn a_million_damaged_corpora_are_refused_or_harmless() {
    fuzz(1_000_000);
}
