//! The header of a corpus file.
//!
//! The words follow it: see `layout.rs`. A file of format 2 ends with the XXH3 checksums of its
//! blocks and a checksum of the header and that table; one of format 1 with a checksum of all
//! bytes before.

use std::path::Path;

use super::layout::{Format, Layout};
use crate::TrieError;
use crate::store::atomic_file::{CHECKSUM_BYTES, FINGERPRINT_BYTES};
use crate::store::chains::chain_layout;

/// First bytes of every corpus file.
const MAGIC: [u8; 8] = *b"SPCORPUS";

/// Most bytes of a name and of a fingerprint.
pub(super) const MAX_NAME_BYTES: usize = FINGERPRINT_BYTES;

/// Where the header's name starts, after its numbers.
const NAME_START: usize = 32;

/// Bytes before the words.
pub(super) const HEADER_BYTES: usize = NAME_START + 2 * MAX_NAME_BYTES;

/// What the header says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Header {
    pub(super) format: Format,
    pub(super) name: String,
    /// Of the tokenizer whose ids these are.
    pub(super) fingerprint: String,
    /// Tokens and separators.
    pub(super) num_cells: u32,
    pub(super) num_documents: u32,
}

/// Why the file at `path` is refused.
pub(super) fn refuse(path: &Path, found: String, expected: String) -> TrieError {
    TrieError::Refused {
        kind: "corpus",
        path: path.to_owned(),
        found,
        expected,
        remedy: "build it again with `spectrie corpus build`",
    }
}

/// The refusal of a file at `path` whose checksum is wrong.
pub(super) fn refuse_damaged(path: &Path) -> TrieError {
    refuse(
        path,
        "a checksum that does not match its bytes".into(),
        "an undamaged file".into(),
    )
}

impl Header {
    pub(super) fn encode(&self) -> [u8; HEADER_BYTES] {
        let mut bytes = [0; HEADER_BYTES];
        bytes[..8].copy_from_slice(&MAGIC);
        let words = [
            match self.format {
                Format::One => 1,
                Format::Two => 2,
            },
            chain_layout(),
            self.num_cells,
            self.num_documents,
            self.name.len() as u32,
            self.fingerprint.len() as u32,
        ];
        for (index, word) in words.iter().enumerate() {
            bytes[8 + 4 * index..12 + 4 * index].copy_from_slice(&word.to_le_bytes());
        }
        let (name, fingerprint) = bytes[NAME_START..].split_at_mut(MAX_NAME_BYTES);
        name[..self.name.len()].copy_from_slice(self.name.as_bytes());
        fingerprint[..self.fingerprint.len()].copy_from_slice(self.fingerprint.as_bytes());
        bytes
    }

    /// Reads the header from the first bytes of a file. `path` is for messages.
    pub(super) fn decode(bytes: &[u8], path: &Path) -> Result<Self, TrieError> {
        let header = bytes
            .get(..HEADER_BYTES)
            .filter(|header| header.starts_with(&MAGIC))
            .ok_or_else(|| refuse(path, "a file of another kind".into(), "a corpus".into()))?;
        let word = |index: usize| {
            let at = 8 + 4 * index;
            u32::from_le_bytes([header[at], header[at + 1], header[at + 2], header[at + 3]])
        };
        let format = match word(0) {
            1 => Format::One,
            2 => Format::Two,
            other => {
                let found = format!("format version {other}");
                return Err(refuse(path, found, "version 1 or 2".into()));
            }
        };
        if word(1) != chain_layout() {
            return Err(refuse(
                path,
                format!("an index of layout {:08x}", word(1)),
                format!("layout {:08x}", chain_layout()),
            ));
        }
        let text = |field: usize, start: usize| {
            let bytes = header[start..start + MAX_NAME_BYTES].get(..word(field) as usize)?;
            std::str::from_utf8(bytes).ok().map(str::to_owned)
        };
        let (Some(name), Some(fingerprint)) =
            (text(4, NAME_START), text(5, NAME_START + MAX_NAME_BYTES))
        else {
            return Err(refuse(
                path,
                "a name that is no text".into(),
                "UTF-8 text".into(),
            ));
        };
        Ok(Self {
            format,
            name,
            fingerprint,
            num_cells: word(2),
            num_documents: word(3).min(word(2)),
        })
    }

    /// Where the words are.
    pub(super) fn layout(&self) -> Layout {
        Layout::new(self.format, self.num_cells)
    }

    /// Bytes of the checksums of blocks.
    pub(super) fn table_bytes(&self) -> usize {
        match self.format {
            Format::One => 0,
            Format::Two => self.layout().blocks() * CHECKSUM_BYTES,
        }
    }

    /// Where the words end, in bytes of the file.
    pub(super) fn words_end(&self) -> u64 {
        HEADER_BYTES as u64 + self.layout().words() * size_of::<u32>() as u64
    }

    /// Bytes of the whole file.
    pub(super) fn file_bytes(&self) -> u64 {
        self.words_end() + (self.table_bytes() + CHECKSUM_BYTES) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_billion_tokens_open_by_less_than_eight_megabytes() {
        let header = Header {
            format: Format::Two,
            name: "a".into(),
            fingerprint: String::new(),
            num_cells: 1_000_000_000,
            num_documents: 1_000_000,
        };
        let opened = HEADER_BYTES + header.table_bytes() + CHECKSUM_BYTES;
        assert!(opened <= 8_000_000, "{opened} bytes");
        assert!(header.file_bytes() > 26_000_000_000);
    }
}
