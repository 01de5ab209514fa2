//! The layout of a snapshot file.
//!
//! A header, one part per block of text, an index of namespaces and their blocks, and the position
//! of the index. Each of these ends with its checksum; numbers are little-endian. The index comes
//! last because it describes what was written.

use std::fs::File;
use std::io::{self, Write};
use std::os::unix::fs::FileExt;

use crate::namespaces::snapshot::segment;
use crate::store::atomic_file::{CHECKSUM_BYTES, Checked, FINGERPRINT_BYTES, checked};
use crate::store::block_shape::BlockShape;
use crate::store::chains::chain_layout;

/// First bytes of every snapshot.
const MAGIC: [u8; 8] = *b"SPMEMORY";

/// Version of this layout.
const VERSION: u32 = 2;

/// The version before it, which holds links and heads as well. It is read, not written.
pub(super) const SEGMENTS_VERSION: u32 = 1;

pub(super) const HEADER_BYTES: usize = 20 + FINGERPRINT_BYTES + CHECKSUM_BYTES;
pub(super) const FOOTER_BYTES: usize = size_of::<u64>() + CHECKSUM_BYTES;

/// One saved block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct SavedBlock {
    pub(super) offset: u64,
    pub(super) shape: BlockShape,
}

/// One saved namespace, its blocks oldest first.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct SavedNamespace {
    pub(super) name: String,
    pub(super) accepted_tokens: u64,
    pub(super) blocks: Vec<SavedBlock>,
}

/// Bytes that can be read at any place.
pub(super) trait ReadAt: Sync {
    fn len(&self) -> io::Result<u64>;
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<()>;
}

impl ReadAt for File {
    fn len(&self) -> io::Result<u64> {
        self.metadata().map(|metadata| metadata.len())
    }

    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<()> {
        self.read_exact_at(buffer, offset)
    }
}

/// Why a snapshot is not read: what was found and what was expected.
#[derive(Debug)]
pub(super) enum Refusal {
    Io(io::Error),
    Wrong { found: String, expected: String },
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

pub(super) fn damaged(what: &str) -> Refusal {
    wrong(format!("a damaged {what}"), "an undamaged file")
}

/// Writes the header for the tokenizer with `fingerprint`.
pub(super) fn write_header<W: Write>(writer: &mut Checked<W>, fingerprint: &str) -> io::Result<()> {
    writer.write_all(&MAGIC)?;
    writer.write_words([VERSION, chain_layout(), fingerprint.len() as u32].into_iter())?;
    writer.write_fingerprint(fingerprint)?;
    writer.end_block()
}

/// Writes the index and where it is.
pub(super) fn write_index<W: Write>(
    writer: &mut Checked<W>,
    namespaces: &[SavedNamespace],
) -> io::Result<()> {
    let position = writer.bytes() as u64;
    writer.write_words(std::iter::once(namespaces.len() as u32))?;
    for namespace in namespaces {
        writer.write_words(std::iter::once(namespace.name.len() as u32))?;
        writer.write_all(namespace.name.as_bytes())?;
        writer.write_all(&namespace.accepted_tokens.to_le_bytes())?;
        writer.write_words(std::iter::once(namespace.blocks.len() as u32))?;
        for SavedBlock { offset, shape } in &namespace.blocks {
            writer.write_all(&offset.to_le_bytes())?;
            let words = [shape.capacity, shape.end, shape.num_tokens, shape.credit];
            writer.write_words(words.into_iter())?;
        }
    }
    writer.end_block()?;
    writer.write_all(&position.to_le_bytes())?;
    writer.end_block()
}

/// Bytes of a block in a file of `version`, without its checksum.
pub(super) fn saved_bytes(version: u32, shape: BlockShape) -> usize {
    if version == SEGMENTS_VERSION {
        segment::saved_bytes(shape)
    } else {
        shape.saved_bytes()
    }
}

/// Checks the header against `fingerprint` and reads the version and the index.
pub(super) fn read_index<S: ReadAt>(
    source: &S,
    fingerprint: &str,
) -> Result<(u32, Vec<SavedNamespace>), Refusal> {
    let length = source.len()?;
    if length < (HEADER_BYTES + FOOTER_BYTES) as u64 {
        return Err(wrong(format!("{length} bytes"), "a whole snapshot"));
    }
    let mut header = [0; HEADER_BYTES];
    source.read_at(&mut header, 0)?;
    let version = check_header(&header, fingerprint)?;
    let mut footer = [0; FOOTER_BYTES];
    let index_end = length - FOOTER_BYTES as u64;
    source.read_at(&mut footer, index_end)?;
    let position = checked(&footer).and_then(|body| body.first_chunk());
    let position = position.map(|bytes| u64::from_le_bytes(*bytes));
    let Some(bytes) = position.and_then(|position| index_end.checked_sub(position)) else {
        return Err(damaged("end"));
    };
    let mut index = vec![0; bytes as usize];
    source.read_at(&mut index, index_end - bytes)?;
    let parsed = checked(&index).and_then(|body| parse_index(body, index_end, version));
    let namespaces = parsed.ok_or_else(|| damaged("index"))?;
    Ok((version, namespaces))
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
            format!("version {VERSION}"),
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
        let found = String::from_utf8_lossy(found.unwrap_or_default());
        return Err(wrong(
            format!("tokenizer {found:?}"),
            format!("tokenizer {fingerprint:?}"),
        ));
    }
    Ok(version)
}

/// The index, if it is well-formed and every block lies before `end`.
fn parse_index(body: &[u8], end: u64, version: u32) -> Option<Vec<SavedNamespace>> {
    let mut rest = Rest(body);
    let count = rest.word()?;
    let mut namespaces = Vec::new();
    for _ in 0..count {
        let length = rest.word()? as usize;
        let name = std::str::from_utf8(rest.take(length)?).ok()?.to_owned();
        let accepted_tokens = rest.long()?;
        let mut blocks = Vec::new();
        for _ in 0..rest.word()? {
            let offset = rest.long()?;
            let shape = BlockShape {
                capacity: rest.word()?,
                end: rest.word()?,
                num_tokens: rest.word()?,
                credit: rest.word()?,
            };
            let inside = shape.is_possible()
                && offset.checked_add((saved_bytes(version, shape) + CHECKSUM_BYTES) as u64)?
                    <= end;
            if !inside {
                return None;
            }
            blocks.push(SavedBlock { offset, shape });
        }
        namespaces.push(SavedNamespace {
            name,
            accepted_tokens,
            blocks,
        });
    }
    rest.0.is_empty().then_some(namespaces)
}

/// What is left to read.
struct Rest<'a>(&'a [u8]);

impl<'a> Rest<'a> {
    fn take(&mut self, count: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(count)?;
        self.0 = rest;
        Some(taken)
    }

    fn word(&mut self) -> Option<u32> {
        let bytes = self.take(size_of::<u32>())?;
        bytes.first_chunk().map(|bytes| u32::from_le_bytes(*bytes))
    }

    fn long(&mut self) -> Option<u64> {
        let bytes = self.take(size_of::<u64>())?;
        bytes.first_chunk().map(|bytes| u64::from_le_bytes(*bytes))
    }
}
