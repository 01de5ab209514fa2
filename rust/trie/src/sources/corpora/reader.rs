//! What one draft reads of a corpus.

use std::sync::{Arc, Weak};

use super::blocks::{Blocks, Reach};
use super::corpus_cache::CorpusCache;
use super::layout::BLOCK_WORDS;
use super::loader::{Fetch, Wanted};
use super::read_budget::ReadBudget;
use crate::store::chains::{CUT, Chains, bucket};
use crate::{SEPARATOR, TokenId};

/// The text and index of a corpus, as far as one draft may read it.
///
/// Every index that is read from the file is checked when it is used, so even a file made to
/// deceive cannot lead outside it.
pub(crate) struct CorpusReader<'a> {
    pub(super) blocks: &'a Arc<Blocks>,
    /// `None` reads whatever it needs.
    pub(super) cache: Option<&'a CorpusCache>,
    pub(super) budget: &'a ReadBudget,
    pub(super) num_cells: u32,
}

impl CorpusReader<'_> {
    #[inline]
    fn reach(&self, word: u64) -> Reach<'_> {
        self.blocks
            .reach(word, || self.cache.is_none() || self.budget.take())
    }

    /// The value of `word`; `None` if it is lost or not at hand: what is `wanted` then is read in
    /// the background.
    #[inline]
    fn word(&self, word: u64, wanted: impl Fn() -> Wanted) -> Option<u32> {
        loop {
            match self.reach(word) {
                Reach::Held(block) => {
                    let value = block.word(word as usize % BLOCK_WORDS);
                    if block.is_held() {
                        return Some(value);
                    }
                }
                Reach::Far => {
                    self.want(wanted());
                    return None;
                }
                Reach::Lost => return None,
            }
        }
    }

    #[cold]
    fn want(&self, wanted: Wanted) {
        if let Some(cache) = self.cache {
            let blocks: Weak<Blocks> = Arc::downgrade(self.blocks);
            let blocks: Weak<dyn Fetch> = blocks;
            cache.loader.want(blocks, wanted);
        }
    }
}

impl Chains for CorpusReader<'_> {
    fn end(&self) -> u32 {
        self.num_cells
    }

    fn token(&self, position: u32) -> TokenId {
        if position >= self.num_cells {
            return SEPARATOR;
        }
        let word = self.blocks.layout().token(position);
        self.word(word, || Wanted::Word(word)).unwrap_or(SEPARATOR)
    }

    fn head(&self, order: usize, hash: u32) -> u32 {
        let heads = self.blocks.layout().heads(order);
        let index = bucket(hash, (heads.end - heads.start) as usize);
        let word = heads.start + index as u64;
        let head = self.word(word, || Wanted::Chain { order, word });
        head.unwrap_or(CUT)
    }

    fn previous(&self, order: usize, position: u32) -> u32 {
        if position >= self.num_cells {
            return 0;
        }
        let word = self.blocks.layout().link(order, position);
        let link = self.word(word, || Wanted::Chain { order, word });
        link.unwrap_or(CUT)
    }

    // Compares what one block holds at a time: one lookup for all of it.
    fn matched_before(&self, position: u32, context: &[TokenId]) -> usize {
        let max = context.len().min(position as usize);
        let mut matched = 0;
        while matched < max {
            let newest = position - 1 - matched as u32;
            let word = self.blocks.layout().token(newest);
            let block = match self.reach(word) {
                Reach::Held(block) => block,
                Reach::Far => {
                    self.want(Wanted::Word(word));
                    break;
                }
                Reach::Lost => break,
            };
            let run = self.blocks.layout().tokens_back(newest).min(max - matched);
            let (last, start) = (word as usize % BLOCK_WORDS, context.len() - matched);
            let wanted = context[start - run..start].iter().rev();
            let equal = wanted
                .enumerate()
                .take_while(|&(back, &token)| block.word(last - back) == token)
                .count();
            if !block.is_held() {
                continue;
            }
            matched += equal;
            if equal < run {
                break;
            }
        }
        matched
    }
}
