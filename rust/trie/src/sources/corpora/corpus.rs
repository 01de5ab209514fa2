//! An open corpus: read-only, memory-mapped, with its index.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;

use crate::sources::corpora::file::{Header, Sections};
use crate::sources::corpora::map::Map;
use crate::sources::corpora::readers::Readers;
use crate::store::chains::{Chains, ORDERS, bucket};
use crate::{SEPARATOR, TokenId, TrieError};

/// Size and use of a corpus.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CorpusInfo {
    /// Its name, unique among those loaded.
    pub name: String,
    /// Number of tokens of all documents.
    pub num_tokens: u64,
    /// Number of documents of at least two tokens.
    pub num_documents: u64,
    /// Size of its file in bytes.
    pub bytes: usize,
    /// Who may draft from it.
    pub readers: Readers,
    /// Number of its tokens that the model accepted since it was opened.
    pub accepted_tokens: u64,
}

/// An open corpus file: text and its index, mapped and never changed.
///
/// It stays readable for all who hold it, even after it is removed from a [`crate::DraftMemory`] or
/// its file is replaced.
#[derive(Debug)]
pub struct Corpus {
    header: Header,
    sections: Sections,
    map: Map,
    accepted_tokens: AtomicU64,
}

impl Corpus {
    /// Maps the corpus file at `path` and verifies all of it: about 0.1 s for 10M tokens (270 MB)
    /// in the page cache.
    ///
    /// Do not rewrite the file in place while it is open; [`crate::CorpusBuilder::finish`] replaces
    /// it safely.
    ///
    /// # Errors
    ///
    /// [`TrieError::Io`] if it cannot be read; [`TrieError::Refused`] if it is damaged, of another
    /// format version, or not a corpus. No bytes can make it panic.
    pub fn open(path: &Path) -> Result<Arc<Self>, TrieError> {
        let map = Map::open(path).map_err(|error| TrieError::io("open", path, &error))?;
        Self::verify(map, path)
    }

    /// The corpus that `map` holds. `path` is for messages.
    pub(super) fn verify(map: Map, path: &Path) -> Result<Arc<Self>, TrieError> {
        let header = Header::decode(&map, path)?;
        let sections = Sections::of(header.num_cells);
        Ok(Arc::new(Self {
            header,
            sections,
            map,
            accepted_tokens: AtomicU64::new(0),
        }))
    }

    /// Returns its name, given when it was built.
    pub fn name(&self) -> &str {
        &self.header.name
    }

    /// Returns the fingerprint of the tokenizer whose ids it holds.
    pub fn fingerprint(&self) -> &str {
        &self.header.fingerprint
    }

    /// Returns the number of tokens of all documents.
    pub fn num_tokens(&self) -> u64 {
        u64::from(self.header.num_cells - self.header.num_documents)
    }

    /// Returns the number of documents of at least two tokens.
    pub fn num_documents(&self) -> u64 {
        u64::from(self.header.num_documents)
    }

    /// Returns the size of its file in bytes.
    pub fn bytes(&self) -> usize {
        self.map.len()
    }

    /// What is known of it, with the readers it was loaded for.
    pub(crate) fn info(&self, readers: Readers) -> CorpusInfo {
        CorpusInfo {
            name: self.name().to_owned(),
            num_tokens: self.num_tokens(),
            num_documents: self.num_documents(),
            bytes: self.bytes(),
            readers,
            accepted_tokens: self.accepted_tokens(),
        }
    }

    /// Draft tokens from it that the model accepted.
    pub(crate) fn accepted_tokens(&self) -> u64 {
        self.accepted_tokens.load(Relaxed)
    }

    /// Notes that drafts from it were accepted.
    pub(crate) fn credit(&self, tokens: u32) {
        self.accepted_tokens.fetch_add(u64::from(tokens), Relaxed);
    }

    /// The word at `index` of the section that starts at byte `start`.
    fn word(&self, start: usize, index: usize) -> Option<u32> {
        let words = self.map.get(start..)?;
        let bytes = words.get(index * size_of::<u32>()..)?.first_chunk()?;
        Some(u32::from_le_bytes(*bytes))
    }
}

// Every index that is read from the file is checked when it is used, so even a file made to
// deceive cannot lead outside it.
impl Chains for Corpus {
    fn end(&self) -> u32 {
        self.header.num_cells
    }

    fn token(&self, position: u32) -> TokenId {
        if position >= self.header.num_cells {
            return SEPARATOR;
        }
        let start = self.sections.tokens.start;
        self.word(start, position as usize).unwrap_or(SEPARATOR)
    }

    fn head(&self, order: usize, hash: u32) -> u32 {
        let heads = &self.sections.heads[order];
        let index = bucket(hash, heads.len() / size_of::<u32>());
        self.word(heads.start, index).unwrap_or(0)
    }

    fn previous(&self, order: usize, position: u32) -> u32 {
        if position >= self.header.num_cells {
            return 0;
        }
        let index = position as usize * ORDERS.len() + order;
        self.word(self.sections.links.start, index).unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::CorpusBuilder;
    use crate::sources::text::Text;
    use crate::store::chains::{Occurrence, collect};
    use proptest::prelude::*;

    /// All occurrences of the end of `context`, oldest first.
    fn found<C: Chains>(chains: &C, context: &[TokenId]) -> Vec<Occurrence> {
        let mut occurrences = Vec::new();
        collect(
            chains,
            0,
            context,
            &mut [1 << 20; ORDERS.len()],
            &mut occurrences,
        );
        occurrences.sort_by_key(|occurrence| occurrence.position);
        occurrences
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        #[test]
        fn a_corpus_finds_what_a_text_finds(
            documents in prop::collection::vec(prop::collection::vec(0_u32..4, 2..40), 1..20),
            context in prop::collection::vec(0_u32..4, 1..12),
        ) {
            let mut builder = CorpusBuilder::new("a", "").unwrap();
            let mut text = Text::default();
            for document in &documents {
                builder.push(document).unwrap();
                text.extend(document);
                text.extend(&[SEPARATOR]);
            }
            let path = std::env::temp_dir().join(format!("walk-{}.corpus", std::process::id()));
            builder.finish(&path).unwrap();
            let corpus = Corpus::open(&path).unwrap();
            std::fs::remove_file(&path).unwrap();
            prop_assert_eq!(found(&*corpus, &context), found(&text, &context));
        }
    }
}
