//! Corpora for tests, and what is found in them.

use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Mutex};

use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

use crate::sources::corpora::block_file::{BlockFile, Source};
use crate::sources::corpora::corpus::Corpus;
use crate::sources::corpora::read_budget::ReadBudget;
use crate::store::chains::{ORDERS, Occurrence, collect};
use crate::{CorpusBuilder, SEPARATOR, TokenId};

/// A name for a file that no other test uses.
pub(super) fn scratch_path() -> PathBuf {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    let number = NEXT.fetch_add(1, Relaxed);
    std::env::temp_dir().join(format!("corpus-{}-{number}", std::process::id()))
}

/// The file of `documents`, with at most `heads` heads in memory at once.
pub(super) fn built(documents: &[Vec<TokenId>], heads: usize) -> Vec<u8> {
    let builder = CorpusBuilder::new("a", "abc").unwrap();
    let mut builder = builder.bounded(1000, heads);
    for document in documents {
        builder.push(document).unwrap();
    }
    let path = scratch_path();
    builder.finish(&path).unwrap();
    let file = std::fs::read(&path).unwrap();
    std::fs::remove_file(&path).unwrap();
    file
}

/// Bytes that can be changed while they are open as a file.
pub(super) type Bytes = Arc<Mutex<Vec<u8>>>;

pub(super) fn shared(file: &[u8]) -> Bytes {
    Arc::new(Mutex::new(file.to_vec()))
}

pub(super) fn open_file(bytes: &Bytes) -> BlockFile {
    BlockFile::read(Source::Memory(Arc::clone(bytes)), Path::new("any")).unwrap()
}

pub(super) fn open(file: &[u8]) -> Arc<Corpus> {
    Corpus::alone(open_file(&shared(file)))
}

/// Occurrences of the end of `context`, in the order in which they are found.
pub(super) fn found(corpus: &Corpus, context: &[TokenId], limit: u32) -> Vec<Occurrence> {
    let budget = ReadBudget::default();
    let mut occurrences = Vec::new();
    let limits = &mut [limit; ORDERS.len()];
    collect(
        &corpus.reader(&budget),
        0,
        context,
        limits,
        &mut occurrences,
    );
    occurrences
}

/// Documents with passages that come back, `tokens` in all.
pub(super) fn repetitive(tokens: usize, seed: u64) -> Vec<Vec<TokenId>> {
    let mut random = StdRng::seed_from_u64(seed);
    let mut text: Vec<TokenId> = Vec::new();
    while text.len() < tokens {
        let run = random.random_range(4..40);
        if text.len() > 100 && random.random_bool(0.5) {
            let start = random.random_range(0..text.len() - 40);
            text.extend_from_within(start..start + run);
        } else {
            text.extend((0..run).map(|_| 3000_f64.powf(random.random()) as TokenId));
        }
    }
    text.chunks(700)
        .filter(|chunk| chunk.len() > 1)
        .map(<[_]>::to_vec)
        .collect()
}

/// The cells that a corpus of `documents` has.
pub(super) fn cells(documents: &[Vec<TokenId>]) -> Vec<TokenId> {
    let cells = documents
        .iter()
        .flat_map(|document| [document, &[SEPARATOR][..]].concat());
    cells.collect()
}

/// Whether an occurrence tells the truth about `cells`.
pub(super) fn is_true(occurrence: &Occurrence, cells: &[TokenId], context: &[TokenId]) -> bool {
    let position = occurrence.position as usize;
    let matched = usize::from(occurrence.matched);
    cells.get(position) == Some(&occurrence.next)
        && cells[position - matched..position] == context[context.len() - matched..]
}
