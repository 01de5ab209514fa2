//! The layout of a corpus file.
//!
//! A header of [`HEADER_BYTES`], then 32-bit words in little-endian order: the tokens, each
//! document followed by [`SEPARATOR`](crate::SEPARATOR); per position, one link of each order;
//! the heads of each order. A checksum of everything ends the file. Links and heads mean what
//! they mean in every log: see `chains.rs`.

use std::ops::Range;
use std::path::Path;

use crate::TrieError;
use crate::store::atomic_file::{CHECKSUM_BYTES, FINGERPRINT_BYTES, checked};
use crate::store::chains::{ORDERS, chain_layout};

/// First bytes of every corpus file.
const MAGIC: [u8; 8] = *b"SPCORPUS";

/// Version of this layout.
const VERSION: u32 = 1;

/// Most bytes of a name and of a fingerprint.
pub(super) const MAX_NAME_BYTES: usize = FINGERPRINT_BYTES;

/// Where the header's name starts, after its numbers.
const NAME_START: usize = 32;

/// Bytes before the words.
pub(super) const HEADER_BYTES: usize = NAME_START + 2 * MAX_NAME_BYTES;

/// What the header says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Header {
    pub(super) name: String,
    /// Of the tokenizer whose ids these are.
    pub(super) fingerprint: String,
    /// Tokens and separators.
    pub(super) num_cells: u32,
    pub(super) num_documents: u32,
}

/// Heads of each order in a corpus of `num_cells`: few distinct single tokens, many longer
/// contexts.
pub(super) fn num_heads(num_cells: u32) -> [usize; ORDERS.len()] {
    ORDERS.map(|order| (num_cells as usize / if order == 1 { 4 } else { 2 }).max(1))
}

/// Byte ranges of the tokens, the links and the heads of each order, one after another.
#[derive(Debug)]
pub(super) struct Sections {
    pub(super) tokens: Range<usize>,
    pub(super) links: Range<usize>,
    pub(super) heads: [Range<usize>; ORDERS.len()],
}

impl Sections {
    pub(super) fn of(num_cells: u32) -> Self {
        let mut end = HEADER_BYTES;
        let mut next = |words: usize| {
            let start = end;
            end += words * size_of::<u32>();
            start..end
        };
        Self {
            tokens: next(num_cells as usize),
            links: next(num_cells as usize * ORDERS.len()),
            heads: num_heads(num_cells).map(next),
        }
    }

    /// Bytes of the whole file.
    pub(super) fn file_bytes(&self) -> usize {
        self.heads[ORDERS.len() - 1].end + CHECKSUM_BYTES
    }
}

impl Header {
    pub(super) fn encode(&self) -> [u8; HEADER_BYTES] {
        let mut bytes = [0; HEADER_BYTES];
        bytes[..8].copy_from_slice(&MAGIC);
        let words = [
            VERSION,
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

    /// Reads the header of the whole file `bytes` and checks the file against it. `path` is for
    /// messages.
    pub(super) fn decode(bytes: &[u8], path: &Path) -> Result<Self, TrieError> {
        let refuse = |found: String, expected: String| TrieError::Refused {
            kind: "corpus",
            path: path.to_owned(),
            found,
            expected,
            remedy: "build it again with `spectrie corpus build`",
        };
        let header = bytes
            .get(..HEADER_BYTES)
            .filter(|header| header.starts_with(&MAGIC))
            .ok_or_else(|| refuse("a file of another kind".into(), "a corpus".into()))?;
        let word = |index: usize| {
            let at = 8 + 4 * index;
            u32::from_le_bytes([header[at], header[at + 1], header[at + 2], header[at + 3]])
        };
        if word(0) != VERSION {
            return Err(refuse(
                format!("format version {}", word(0)),
                format!("version {VERSION}"),
            ));
        }
        if word(1) != chain_layout() {
            return Err(refuse(
                format!("an index of layout {:08x}", word(1)),
                format!("layout {:08x}", chain_layout()),
            ));
        }
        let length = Sections::of(word(2)).file_bytes();
        if bytes.len() != length {
            return Err(refuse(
                format!("{} bytes", bytes.len()),
                format!("{length} bytes"),
            ));
        }
        if checked(bytes).is_none() {
            return Err(refuse(
                "a checksum that does not match its bytes".into(),
                "an undamaged file".into(),
            ));
        }
        let text = |field: usize, start: usize| {
            let bytes = header[start..start + MAX_NAME_BYTES].get(..word(field) as usize)?;
            std::str::from_utf8(bytes).ok().map(str::to_owned)
        };
        let (Some(name), Some(fingerprint)) =
            (text(4, NAME_START), text(5, NAME_START + MAX_NAME_BYTES))
        else {
            return Err(refuse("a name that is no text".into(), "UTF-8 text".into()));
        };
        Ok(Self {
            name,
            fingerprint,
            num_cells: word(2),
            num_documents: word(3).min(word(2)),
        })
    }
}
