//! How much is read from a file, when, and by whom.

use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

use super::format_one;
use super::support::{built, cells, found, is_true, open, open_file, repetitive, shared};
use crate::SEPARATOR;
use crate::sources::corpora::corpus::{Corpus, CorpusReads};
use crate::sources::corpora::corpus_cache::CorpusCache;
use crate::sources::corpora::header::HEADER_BYTES;
use crate::sources::corpora::layout::BLOCK_BYTES;
use crate::sources::corpora::read_budget::{READS_PER_DRAFT, ReadBudget};
use crate::store::chains::Chains;

#[test]
fn opening_reads_the_header_and_the_table_only() {
    let documents = repetitive(20_000, 1);
    let file = built(&documents, 1 << 20);
    let blocks = (file.len() - HEADER_BYTES).div_ceil(BLOCK_BYTES + 8);
    assert!(blocks > 5);
    let opened = CorpusReads {
        bytes: (HEADER_BYTES + 8 * blocks + 8) as u64,
        ..CorpusReads::default()
    };
    assert_eq!(open(&file).reads(), opened);
    let old = open(&format_one::build(&documents));
    assert_eq!(old.reads().bytes, old.bytes() as u64, "all of it, once");
}

#[test]
fn a_draft_reads_few_blocks_itself_and_the_next_ones_find_the_rest() {
    let documents = repetitive(60_000, 6);
    let truth = cells(&documents);
    let file = built(&documents, 1 << 20);
    let whole = open(&file);
    // Never loaded ahead, though all that one context needs has room.
    let cache = CorpusCache::new(file.len() * 9 / 10);
    let corpus = Corpus::cached(open_file(&shared(&file)), &cache);
    // Common: its occurrences are everywhere.
    let context = &[1];
    let expected = found(&whole, context, 1 << 20);
    assert!(whole.reads().draft_blocks > u64::from(READS_PER_DRAFT));
    let mut before = 0;
    let mut drafts = 0;
    loop {
        let found = found(&corpus, context, 1 << 20);
        let reads = corpus.reads().draft_blocks;
        assert!(reads - before <= u64::from(READS_PER_DRAFT));
        assert!(
            found
                .iter()
                .all(|occurrence| is_true(occurrence, &truth, context))
        );
        before = reads;
        drafts += 1;
        cache.wait();
        if found == expected {
            break;
        }
        assert!(drafts < 1000, "{} of {}", found.len(), expected.len());
    }
    assert!(drafts > 1 && corpus.reads().background_blocks > 0);
    assert!(cache.bytes() <= file.len() * 9 / 10);
}

#[test]
fn a_corpus_that_fits_is_read_ahead_and_frees_its_memory() {
    let documents = repetitive(20_000, 7);
    let truth = cells(&documents);
    let cache = CorpusCache::new(64 * BLOCK_BYTES);
    let bytes = shared(&built(&documents, 1 << 20));
    let corpus = Corpus::cached(open_file(&bytes), &cache);
    cache.wait();
    let blocks = corpus.reads().background_blocks;
    assert_eq!(cache.bytes() as u64, blocks * BLOCK_BYTES as u64);
    assert!(cache.bytes() >= corpus.bytes());
    bytes.lock().unwrap().clear();
    let budget = ReadBudget::default();
    for (position, &token) in truth.iter().enumerate() {
        assert_eq!(corpus.reader(&budget).token(position as u32), token);
    }
    assert_eq!(corpus.reads().draft_blocks, 0);
    drop(corpus);
    assert_eq!(cache.bytes(), 0);
}

#[test]
fn readers_beside_each_other_in_too_little_memory_never_see_a_foreign_word() {
    let documents = repetitive(if cfg!(miri) { 8_000 } else { 60_000 }, 8);
    let truth = cells(&documents);
    let file = built(&documents, 1 << 20);
    let cache = CorpusCache::new(3 * BLOCK_BYTES);
    let corpora: Vec<_> = (0..2)
        .map(|_| Corpus::cached(open_file(&shared(&file)), &cache))
        .collect();
    let (num_readers, reads) = if cfg!(miri) { (2_u64, 4) } else { (4, 20_000) };
    let seen: usize = std::thread::scope(|scope| {
        let readers = (0..num_readers).map(|seed| {
            let (corpora, truth) = (&corpora, &truth);
            scope.spawn(move || {
                let mut random = StdRng::seed_from_u64(seed);
                let mut seen = 0;
                for read in 0..reads {
                    let budget = ReadBudget::default();
                    let reader = corpora[read % 2].reader(&budget);
                    let position = random.random_range(64..truth.len());
                    let token = reader.token(position as u32);
                    assert!(token == truth[position] || token == SEPARATOR);
                    seen += usize::from(token == truth[position]);
                    let context = &truth[position - 64..position];
                    let matched = reader.matched_before(position as u32, context);
                    assert!(matched <= 64);
                    seen += matched;
                }
                seen
            })
        });
        let readers: Vec<_> = readers.collect();
        readers
            .into_iter()
            .map(|reader| reader.join().unwrap())
            .sum()
    });
    assert!(
        seen > num_readers as usize * reads,
        "most are found: {seen}"
    );
    assert!(cache.bytes() <= 3 * BLOCK_BYTES);
}
