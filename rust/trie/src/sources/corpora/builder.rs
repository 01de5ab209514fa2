//! The builder of a corpus file.

use std::io::{self, Write};
use std::path::Path;

use super::corpus::CorpusInfo;
use super::file::{Header, MAX_NAME_BYTES, Sections, num_heads};
use super::readers::Readers;
use crate::store::atomic_file::{self, Access, Checked, check_fingerprint};
use crate::store::chains::{ORDERS, bucket, suffix_hashes};
use crate::{SEPARATOR, TokenId, TrieError};

/// Most tokens and separators of one corpus: positions are 32-bit words.
const MAX_CELLS: usize = u32::MAX as usize - 1;

/// Collects documents and writes them as one indexed corpus file.
///
/// Uses 4 bytes of memory per token while collecting and 11 while writing.
///
/// # Example
///
/// ```
/// use spectrie_trie::{Corpus, CorpusBuilder};
///
/// # let folder = std::env::temp_dir().join(format!("corpus-{}", std::process::id()));
/// # std::fs::create_dir_all(&folder).unwrap();
/// let path = folder.join("greetings.corpus");
/// let mut builder = CorpusBuilder::new("greetings", "00ff00ff00ff00ff")?;
/// builder.push(&[1, 2, 3])?;
/// builder.push(&[1, 2, 4])?;
/// builder.finish(&path)?;
/// assert_eq!(Corpus::open(&path)?.num_tokens(), 6);
/// # std::fs::remove_dir_all(&folder).unwrap();
/// # Ok::<(), spectrie_trie::TrieError>(())
/// ```
#[derive(Debug)]
pub struct CorpusBuilder {
    name: String,
    fingerprint: String,
    cells: Vec<TokenId>,
    num_documents: u32,
}

impl CorpusBuilder {
    /// Creates an empty corpus called `name`: 1 to 64 letters, digits, `.`, `_` or `-`, not
    /// starting with `.` or `-`. `fingerprint` (at most 64 bytes) names the tokenizer of the ids.
    ///
    /// # Errors
    ///
    /// [`TrieError::CorpusName`] or [`TrieError::Fingerprint`].
    pub fn new(name: &str, fingerprint: &str) -> Result<Self, TrieError> {
        let allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-');
        let well_formed = (1..=MAX_NAME_BYTES).contains(&name.len())
            && !name.starts_with(['.', '-'])
            && name.chars().all(allowed);
        if !well_formed {
            return Err(TrieError::CorpusName {
                given: name.to_owned(),
            });
        }
        check_fingerprint(fingerprint)?;
        Ok(Self {
            name: name.to_owned(),
            fingerprint: fingerprint.to_owned(),
            cells: Vec::new(),
            num_documents: 0,
        })
    }

    /// Appends one document; [`SEPARATOR`] splits it into several. Documents of fewer than two
    /// tokens are left out.
    ///
    /// # Errors
    ///
    /// [`TrieError::CorpusFull`] if it does not fit; no part of it is kept.
    pub fn push(&mut self, document: &[TokenId]) -> Result<(), TrieError> {
        if self.cells.len() + document.len() >= MAX_CELLS {
            return Err(TrieError::CorpusFull {
                given: self.cells.len() + document.len(),
                max: MAX_CELLS,
            });
        }
        let parts = document.split(|&token| token == SEPARATOR);
        for part in parts.filter(|part| part.len() > 1) {
            self.cells.extend_from_slice(part);
            self.cells.push(SEPARATOR);
            self.num_documents += 1;
        }
        Ok(())
    }

    /// Returns the number of tokens kept so far.
    pub fn num_tokens(&self) -> u64 {
        self.cells.len() as u64 - u64::from(self.num_documents)
    }

    /// Writes the corpus to `path`, replacing an old file atomically.
    ///
    /// # Errors
    ///
    /// [`TrieError::Io`], naming the path; an old file stays unchanged.
    pub fn finish(self, path: &Path) -> Result<CorpusInfo, TrieError> {
        let bytes = atomic_file::replace(path, Access::Shared, |writer| self.write(writer))?;
        Ok(CorpusInfo {
            num_tokens: self.num_tokens(),
            num_documents: u64::from(self.num_documents),
            name: self.name,
            bytes,
            readers: Readers::All,
            accepted_tokens: 0,
        })
    }

    fn write<W: Write>(&self, writer: &mut Checked<W>) -> io::Result<()> {
        let num_cells = self.cells.len() as u32;
        let header = Header {
            name: self.name.clone(),
            fingerprint: self.fingerprint.clone(),
            num_cells,
            num_documents: self.num_documents,
        };
        writer.write_all(&header.encode())?;
        writer.write_words(self.cells.iter().copied())?;
        // Links are final once their position has been linked, so they need not be held.
        let mut heads = num_heads(num_cells).map(|count| vec![0; count]);
        let mut document_start = 0;
        let links = (0..num_cells).flat_map(|position| {
            let before = &self.cells[document_start..position as usize];
            if self.cells[position as usize] == SEPARATOR {
                document_start = position as usize + 1;
                [0; ORDERS.len()]
            } else {
                link(&mut heads, before, position)
            }
        });
        writer.write_words(links)?;
        for heads in heads {
            writer.write_words(heads.into_iter())?;
        }
        writer.end_block()?;
        debug_assert_eq!(writer.bytes(), Sections::of(num_cells).file_bytes());
        Ok(())
    }
}

/// Makes `position` the newest of each bucket that the tokens `before` it fall into, and gives
/// those that were.
fn link(
    heads: &mut [Vec<u32>; ORDERS.len()],
    before: &[TokenId],
    position: u32,
) -> [u32; ORDERS.len()] {
    let mut links = [0; ORDERS.len()];
    let (hashes, count) = suffix_hashes(before);
    for (order, &hash) in hashes[..count].iter().enumerate() {
        let index = bucket(hash, heads[order].len());
        links[order] = std::mem::replace(&mut heads[order][index], position);
    }
    links
}
