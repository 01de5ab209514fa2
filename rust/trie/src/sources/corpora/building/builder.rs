//! The builder of a corpus file.

use std::io;
use std::path::{Path, PathBuf};

use super::cells::{Cells, HELD_CELLS};
use super::index_writer::{BuildProgress, IndexWriter};
use crate::sources::corpora::corpus::CorpusInfo;
use crate::sources::corpora::header::{Header, MAX_NAME_BYTES};
use crate::sources::corpora::layout::Format;
use crate::sources::corpora::readers::Readers;
use crate::store::atomic_file::{self, check_fingerprint};
use crate::{SEPARATOR, TokenId, TrieError};

/// Most tokens and separators of one corpus: positions are 32-bit words.
const MAX_CELLS: usize = u32::MAX as usize - 1;

/// Heads in memory at once: 256 MiB.
const MAX_HEADS: usize = 64 << 20;

/// Collects documents and writes them as one indexed corpus file.
///
/// Uses at most 288 MiB of memory, whatever the size of the corpus. What does not fit goes to files
/// without a name in the folder for temporary files, or in [`CorpusBuilder::scratch_in`]: 4 bytes
/// for each token beyond a million, and about 20 more beyond 38 million.
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
    cells: Cells,
    num_documents: u32,
    max_heads: usize,
    /// Why a token could not be kept.
    failed: Option<TrieError>,
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
            cells: Cells::new(std::env::temp_dir(), HELD_CELLS),
            num_documents: 0,
            max_heads: MAX_HEADS,
            failed: None,
        })
    }

    /// Sets the folder for what does not fit in memory: best one on the disk of the corpus. It is
    /// made when it is first needed. Default: the folder for temporary files.
    #[must_use]
    pub fn scratch_in(mut self, folder: PathBuf) -> Self {
        self.cells.move_to(folder);
        self
    }

    /// The same builder with other bounds: tokens in memory while collecting, and heads in memory
    /// while writing.
    #[cfg(test)]
    pub(crate) fn bounded(mut self, held_cells: usize, max_heads: usize) -> Self {
        self.cells = Cells::new(self.cells.folder().clone(), held_cells);
        self.max_heads = max_heads;
        self
    }

    /// Appends one document; [`SEPARATOR`] splits it into several. Documents of fewer than two
    /// tokens are left out.
    ///
    /// # Errors
    ///
    /// [`TrieError::CorpusFull`] if it does not fit; no part of it is kept. [`TrieError::Io`] if a
    /// temporary file cannot be written; the corpus cannot be finished then.
    pub fn push(&mut self, document: &[TokenId]) -> Result<(), TrieError> {
        if let Some(failed) = &self.failed {
            return Err(failed.clone());
        }
        if self.cells.len() + document.len() >= MAX_CELLS {
            return Err(TrieError::CorpusFull {
                given: self.cells.len() + document.len(),
                max: MAX_CELLS,
            });
        }
        let parts = document.split(|&token| token == SEPARATOR);
        for part in parts.filter(|part| part.len() > 1) {
            let pushed = self.cells.extend(part);
            let ended = pushed.and_then(|()| self.cells.extend(&[SEPARATOR]));
            ended.map_err(|error| self.fail(&error))?;
            self.num_documents += 1;
        }
        Ok(())
    }

    fn fail(&mut self, error: &io::Error) -> TrieError {
        let error = TrieError::io("write a temporary file in", self.cells.folder(), error);
        self.failed.insert(error).clone()
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
        self.finish_with(path, |_| Ok(()))
    }

    /// Writes the corpus like [`CorpusBuilder::finish`] and calls `progress` after every few
    /// thousand tokens; an error that it returns ends the writing.
    ///
    /// # Errors
    ///
    /// [`TrieError::Io`], naming the path, also for an error of `progress`; an old file stays
    /// unchanged.
    pub fn finish_with(
        self,
        path: &Path,
        mut progress: impl FnMut(BuildProgress) -> io::Result<()>,
    ) -> Result<CorpusInfo, TrieError> {
        if let Some(failed) = self.failed {
            return Err(failed);
        }
        let header = Header {
            format: Format::Two,
            name: self.name,
            fingerprint: self.fingerprint,
            num_cells: self.cells.len() as u32,
            num_documents: self.num_documents,
        };
        let bytes = atomic_file::replace(path, |out| {
            let index = IndexWriter {
                cells: &self.cells,
                header: &header,
                max_heads: self.max_heads,
                progress: &mut progress,
            };
            index.write(out)
        })?;
        debug_assert_eq!(bytes as u64, header.file_bytes());
        Ok(CorpusInfo {
            num_tokens: self.cells.len() as u64 - u64::from(self.num_documents),
            num_documents: u64::from(self.num_documents),
            name: header.name,
            bytes,
            readers: Readers::All,
            accepted_tokens: 0,
            lost_blocks: 0,
            first_loss: None,
        })
    }
}
