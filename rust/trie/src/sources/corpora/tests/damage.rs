//! Damage while a corpus is open costs blocks, by name and number, and nothing else.

use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

use super::format_one;
use super::support::{
    built, cells, found, is_true, open, open_file, repetitive, scratch_path, shared,
};
use crate::sources::corpora::corpus::Corpus;
use crate::sources::corpora::corpus_cache::CorpusCache;
use crate::sources::corpora::header::HEADER_BYTES;
use crate::sources::corpora::layout::{BLOCK_BYTES, BLOCK_CELLS};
use crate::sources::corpora::read_budget::ReadBudget;
use crate::store::chains::{Chains, LIMITS};
use crate::{SEPARATOR, TokenId};

#[test]
fn a_damaged_byte_costs_its_block_and_no_wrong_token() {
    let documents = repetitive(12_000, 2);
    let truth = cells(&documents);
    let whole = built(&documents, 1 << 20);
    let end = whole.len() - 8 * (whole.len() / BLOCK_BYTES + 1) - 8;
    let mut random = StdRng::seed_from_u64(3);
    for _ in 0..100 {
        let at = random.random_range(HEADER_BYTES..end);
        let damaged = (at - HEADER_BYTES) / BLOCK_BYTES;
        let mut file = whole.clone();
        file[at] ^= 1 << random.random_range(0..8);
        let corpus = open(&file);
        let budget = ReadBudget::default();
        let reader = corpus.reader(&budget);
        for (position, &token) in truth.iter().enumerate() {
            let expected = if position / BLOCK_CELLS == damaged {
                SEPARATOR
            } else {
                token
            };
            assert_eq!(reader.token(position as u32), expected);
        }
        for end in (40..truth.len()).step_by(97) {
            let context = crate::store::chains::context_of(&truth[..end]);
            let found = found(&corpus, context, LIMITS[0]);
            assert!(
                found
                    .iter()
                    .all(|occurrence| is_true(occurrence, &truth, context))
            );
        }
        corpus.load();
        let info = corpus.info(crate::Readers::All);
        assert_eq!(info.lost_blocks, 1, "byte {at}");
        let named = info.first_loss.unwrap();
        let first = HEADER_BYTES + damaged * BLOCK_BYTES;
        assert!(named.starts_with(&format!("bytes {first} to ")), "{named}");
        assert!(named.ends_with("damaged"), "{named}");
    }
}

#[test]
fn what_follows_a_lost_link_is_still_found_by_other_orders() {
    let mut documents: Vec<Vec<TokenId>> = (0..3)
        .map(|part| (0..6000).map(|index| 100 + part * 6000 + index).collect())
        .collect();
    let passage: Vec<TokenId> = (1..=12).collect();
    for document in &mut documents {
        let middle = document.len() / 2;
        document.splice(middle..middle, passage.iter().copied().chain([50]));
    }
    let bytes = shared(&built(&documents, 1 << 20));
    let corpus = Corpus::alone(open_file(&bytes));
    assert_eq!(found(&corpus, &passage, 8).len(), 3);
    // The newest occurrence is in a block whose damage hides its links.
    let newest = corpus.num_tokens() as usize - 3000 + 2;
    let corpus = Corpus::alone(open_file(&bytes));
    bytes.lock().unwrap()[HEADER_BYTES + newest / BLOCK_CELLS * BLOCK_BYTES] ^= 1;
    let left = found(&corpus, &passage, 8);
    assert!(left.iter().all(|occurrence| occurrence.next == 50));
    assert_eq!(corpus.info(crate::Readers::All).lost_blocks, 1);
}

#[test]
fn a_file_cut_short_while_it_is_open_is_a_named_loss() {
    let documents = repetitive(12_000, 4);
    let truth = cells(&documents);
    for whole in [built(&documents, 1 << 20), format_one::build(&documents)] {
        let path = scratch_path();
        std::fs::write(&path, &whole).unwrap();
        let cache = CorpusCache::new(2 * BLOCK_BYTES);
        let corpora = [Corpus::open(&path), Corpus::open_in(&path, &cache)];
        let file = std::fs::OpenOptions::new().write(true).open(&path).unwrap();
        file.set_len((HEADER_BYTES + BLOCK_BYTES + 100) as u64)
            .unwrap();
        for corpus in corpora {
            let corpus = corpus.unwrap();
            for end in (40..truth.len()).step_by(31) {
                let context = crate::store::chains::context_of(&truth[..end]);
                let found = found(&corpus, context, LIMITS[0]);
                assert!(
                    found
                        .iter()
                        .all(|occurrence| is_true(occurrence, &truth, context))
                );
            }
            cache.wait();
            let budget = ReadBudget::default();
            assert_eq!(
                corpus.reader(&budget).token(5),
                truth[5],
                "what is left is read"
            );
            let info = corpus.info(crate::Readers::All);
            assert!(info.lost_blocks > 0);
            assert!(info.first_loss.unwrap().ends_with("cut off"));
        }
        let error = Corpus::open(&path).unwrap_err().to_string();
        assert!(error.contains("expected"), "{error}");
        std::fs::remove_file(&path).unwrap();
    }
}

#[test]
fn a_file_changed_before_it_is_read_again_is_not_believed() {
    let documents = repetitive(12_000, 5);
    let truth = cells(&documents);
    let bytes = shared(&built(&documents, 1 << 20));
    let cache = CorpusCache::new(BLOCK_BYTES);
    let corpus = Corpus::cached(open_file(&bytes), &cache);
    let budget = ReadBudget::default();
    let (first, other) = (7, BLOCK_CELLS as u32 + 7);
    assert_eq!(corpus.reader(&budget).token(first), truth[first as usize]);
    assert_eq!(corpus.reader(&budget).token(other), truth[other as usize]);
    // One frame: the first block is in memory no more.
    bytes.lock().unwrap()[HEADER_BYTES + 4 * 7] ^= 1;
    assert_eq!(corpus.reader(&budget).token(first), SEPARATOR);
    assert_eq!(corpus.reader(&budget).token(other), truth[other as usize]);
    assert_eq!(corpus.info(crate::Readers::All).lost_blocks, 1);
}
