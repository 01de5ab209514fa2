//! The layout of a snapshot in a single file.
//!
//! A header, one part per block of text, an index of namespaces and their blocks, and the position
//! of the index. Each of these ends with its checksum; numbers are little-endian. Version 1 also
//! holds the links and heads of each block.

use std::io;
use std::path::{Path, PathBuf};

use crate::TrieError;
use crate::namespaces::snapshot::saved::{Rest, SavedBlock, SavedNamespace};
use crate::namespaces::snapshot::single::segment;
use crate::store::atomic_file::{CHECKSUM_BYTES, FINGERPRINT_BYTES, checked};
use crate::store::block::Block;
use crate::store::block_shape::BlockShape;
use crate::store::chains::chain_layout;
use crate::store::disk::Disk;
use crate::store::grant::Grant;

/// Name of a snapshot in its folder.
const FILE_NAME: &str = "memory.snapshot";
/// What it is renamed to when it cannot be read.
const DAMAGED_NAME: &str = "memory.snapshot.damaged";

/// First bytes of every snapshot.
const MAGIC: [u8; 8] = *b"SPMEMORY";

/// The version that holds the text alone.
const VERSION: u32 = 2;
/// The version that holds links and heads as well.
const SEGMENTS_VERSION: u32 = 1;

pub(in super::super) const HEADER_BYTES: usize = 20 + FINGERPRINT_BYTES + CHECKSUM_BYTES;
pub(in super::super) const FOOTER_BYTES: usize = size_of::<u64>() + CHECKSUM_BYTES;

/// A block in the file: its offset.
pub(in super::super) type FiledNamespace = SavedNamespace<u64>;

/// The file in a folder.
#[derive(Debug)]
pub(in super::super) struct SingleFile<'a> {
    disk: &'a dyn Disk,
    path: PathBuf,
}

/// What a whole file holds.
#[derive(Debug, PartialEq, Eq)]
pub(in super::super) struct Index {
    pub(in super::super) version: u32,
    pub(in super::super) namespaces: Vec<FiledNamespace>,
}

/// Why it is not read.
#[derive(Debug)]
pub(in super::super) enum Refusal {
    Io(io::Error),
    /// There is none, or it is of another tokenizer.
    NotOurs,
    /// What was found, and what was expected.
    Wrong {
        found: String,
        expected: String,
    },
}

impl From<io::Error> for Refusal {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

fn wrong(found: impl Into<String>, expected: impl Into<String>) -> Refusal {
    Refusal::Wrong {
        found: found.into(),
        expected: expected.into(),
    }
}

fn damaged(what: &str) -> Refusal {
    wrong(format!("a damaged {what}"), "an undamaged file")
}

/// Bytes of a block in a file of `version`, without its checksum.
pub(in super::super) fn saved_bytes(version: u32, shape: BlockShape) -> usize {
    if version == SEGMENTS_VERSION {
        segment::saved_bytes(shape)
    } else {
        shape.saved_bytes()
    }
}

impl<'a> SingleFile<'a> {
    /// That in `folder`, if there is one.
    pub(in super::super) fn new(disk: &'a dyn Disk, folder: &Path) -> Self {
        let path = folder.join(FILE_NAME);
        Self { disk, path }
    }

    /// Reads a block into memory for which there is a `grant`.
    pub(in super::super) fn read(
        &self,
        version: u32,
        block: &SavedBlock<u64>,
        grant: Grant,
    ) -> Result<Block, Refusal> {
        let SavedBlock { shape, place } = *block;
        let mut bytes = vec![0; saved_bytes(version, shape) + CHECKSUM_BYTES];
        self.disk.read(&self.path, place, &mut bytes)?;
        let bytes = checked(&bytes).ok_or_else(|| damaged("block"))?;
        let (words, _) = bytes.as_chunks::<4>();
        let words: Vec<_> = words.iter().map(|word| u32::from_le_bytes(*word)).collect();
        let (tokens, rest) = words.split_at(shape.end as usize);
        let contexts = if version == SEGMENTS_VERSION {
            segment::contexts(shape, &words)
        } else {
            rest.to_vec()
        };
        let mut block = Block::restored(shape, grant);
        block.fill(0, tokens.iter().copied(), contexts.into_iter());
        Ok(block)
    }

    /// Checks the header against `fingerprint` and reads the index.
    pub(in super::super) fn index(&self, fingerprint: &str) -> Result<Index, Refusal> {
        let length = match self.disk.len(&self.path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Err(Refusal::NotOurs),
            length => length?,
        };
        if length < (HEADER_BYTES + FOOTER_BYTES) as u64 {
            return Err(wrong(format!("{length} bytes"), "a whole snapshot"));
        }
        let mut header = [0; HEADER_BYTES];
        self.disk.read(&self.path, 0, &mut header)?;
        let version = check_header(&header, fingerprint)?;
        let mut footer = [0; FOOTER_BYTES];
        let index_end = length - FOOTER_BYTES as u64;
        self.disk.read(&self.path, index_end, &mut footer)?;
        let position = checked(&footer).and_then(|body| body.first_chunk());
        let position = position.map(|bytes| u64::from_le_bytes(*bytes));
        let Some(bytes) = position.and_then(|position| index_end.checked_sub(position)) else {
            return Err(damaged("end"));
        };
        let mut index = vec![0; bytes as usize];
        self.disk.read(&self.path, index_end - bytes, &mut index)?;
        let parsed = checked(&index).and_then(|body| parse_index(body, index_end, version));
        parsed.ok_or_else(|| damaged("index"))
    }

    /// Its size.
    pub(in super::super) fn bytes(&self) -> io::Result<u64> {
        self.disk.len(&self.path)
    }

    /// Removes it.
    pub(in super::super) fn remove(&self) -> io::Result<()> {
        self.disk.remove_if_there(&self.path)
    }

    /// Removes one that was damaged.
    pub(in super::super) fn remove_damaged(&self) -> io::Result<()> {
        let path = self.path.with_file_name(DAMAGED_NAME);
        self.disk.remove_if_there(&path)
    }

    /// Keeps one that could not be read under the name of a damaged one.
    pub(in super::super) fn set_aside(&self) -> io::Result<()> {
        let aside = self.path.with_file_name(DAMAGED_NAME);
        match self.disk.rename(&self.path, &aside) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            renamed => renamed,
        }
    }

    /// The error for a file that cannot be used, which is kept under another name.
    pub(in super::super) fn refuse(&self, refusal: Refusal) -> TrieError {
        match refusal {
            Refusal::Io(error) => TrieError::io("read", &self.path, &error),
            Refusal::NotOurs => {
                let error = io::ErrorKind::NotFound.into();
                TrieError::io("read", &self.path, &error)
            }
            Refusal::Wrong { found, expected } => {
                // Where it cannot be renamed it stays, and is refused again.
                let _ = self.set_aside();
                TrieError::Refused {
                    kind: "snapshot",
                    path: self.path.clone(),
                    found,
                    expected,
                    remedy: "serving starts without it, and it is kept as memory.snapshot.damaged",
                }
            }
        }
    }
}

fn check_header(header: &[u8; HEADER_BYTES], fingerprint: &str) -> Result<u32, Refusal> {
    let mut rest = Rest(header);
    if rest.take(MAGIC.len()) != Some(&MAGIC) {
        return Err(wrong("a file of another kind", "a snapshot"));
    }
    let version = rest.word().unwrap_or(0);
    if version != VERSION && version != SEGMENTS_VERSION {
        return Err(wrong(
            format!("format version {version}"),
            format!("version {SEGMENTS_VERSION} or {VERSION}"),
        ));
    }
    let layout = rest.word().unwrap_or(0);
    // Links and heads of another build would not be found.
    if version == SEGMENTS_VERSION && layout != chain_layout() {
        let expected = format!("layout {:08x}", chain_layout());
        return Err(wrong(format!("an index of layout {layout:08x}"), expected));
    }
    if checked(header).is_none() {
        return Err(damaged("header"));
    }
    let found = rest.word().and_then(|length| rest.take(length as usize));
    if found != Some(fingerprint.as_bytes()) {
        return Err(Refusal::NotOurs);
    }
    Ok(version)
}

/// The index, if it is well-formed and every block lies before `end`.
fn parse_index(body: &[u8], end: u64, version: u32) -> Option<Index> {
    let mut rest = Rest(body);
    let mut namespaces = Vec::new();
    for _ in 0..rest.word()? {
        let (name, accepted_tokens, num_blocks) = rest.namespace()?;
        let mut blocks = Vec::new();
        for _ in 0..num_blocks {
            let place = rest.long()?;
            let shape = rest.shape()?;
            let bytes = (saved_bytes(version, shape) + CHECKSUM_BYTES) as u64;
            if place.checked_add(bytes)? > end {
                return None;
            }
            blocks.push(SavedBlock { shape, place });
        }
        namespaces.push(SavedNamespace {
            name,
            accepted_tokens,
            blocks,
        });
    }
    let index = Index {
        version,
        namespaces,
    };
    rest.0.is_empty().then_some(index)
}
