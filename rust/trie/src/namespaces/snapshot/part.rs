//! Part files: runs of cells, written once, each after the other behind a header.

use std::collections::{BTreeMap, BTreeSet};
use std::io;

use crate::namespaces::snapshot::folder::SnapshotFolder;
use crate::namespaces::snapshot::manifest::{HEADER_BYTES, header};

/// Bytes after which another part begins. A part that is half dead is written again, so this
/// bounds what that costs at once; and a place in a part fits 32 bits.
pub(super) const PART_BYTES: u64 = 64 << 20;

/// Bytes gathered before they are written.
const BUFFER_BYTES: usize = 1 << 20;

/// Numbers from here on were not counted up to.
const MAX_NUMBER: u32 = 1 << 31;

const MAGIC: [u8; 8] = *b"SPMEMPRT";

/// The first bytes of every part.
pub(super) fn part_header(fingerprint: &str) -> Vec<u8> {
    header(MAGIC, fingerprint)
}

/// Writes runs to new parts.
#[derive(Debug)]
pub(super) struct PartWriter<'a> {
    folder: &'a SnapshotFolder,
    /// Numbers of parts that this writer did not make.
    used: BTreeSet<u32>,
    /// The number of its next part is this or the next one that is free.
    next: u32,
    /// Bytes of each part, the one being written included.
    parts: BTreeMap<u32, u64>,
    /// The end of the part being written, which is not in its file yet.
    buffer: Vec<u8>,
}

impl<'a> PartWriter<'a> {
    /// Writes parts with other numbers than those `used`: greater ones, or where a file or a manifest
    /// names a number that no counting reaches, the smallest.
    pub(super) fn new(folder: &'a SnapshotFolder, used: BTreeSet<u32>) -> Self {
        let last = used.last().copied();
        Self {
            folder,
            next: last.map_or(0, |last| if last < MAX_NUMBER { last + 1 } else { 0 }),
            used,
            parts: BTreeMap::new(),
            buffer: Vec::new(),
        }
    }

    /// Appends the bytes of a run. Gives its part and its place there.
    pub(super) fn append(&mut self, run: &[u8]) -> io::Result<(u32, u32)> {
        let is_full = |(_, bytes): (&u32, &u64)| bytes + run.len() as u64 > PART_BYTES;
        if self.parts.last_key_value().is_none_or(is_full) {
            self.end_part()?;
            self.folder.make()?;
            let free = (self.next..u32::MAX).find(|number| !self.used.contains(number));
            let number = free.ok_or_else(|| io::Error::other("no part number is free"))?;
            self.parts.insert(number, HEADER_BYTES as u64);
            self.next = number + 1;
            self.buffer = part_header(self.folder.fingerprint());
        }
        let Some(mut last) = self.parts.last_entry() else {
            return Err(io::Error::other("no part was begun"));
        };
        let place = (*last.key(), *last.get() as u32);
        *last.get_mut() += run.len() as u64;
        self.buffer.extend_from_slice(run);
        if self.buffer.len() >= BUFFER_BYTES {
            self.flush()?;
        }
        Ok(place)
    }

    /// Writes what is left and makes all of it last. Gives the bytes of each part.
    pub(super) fn finish(&mut self) -> io::Result<&BTreeMap<u32, u64>> {
        self.end_part()?;
        if !self.parts.is_empty() {
            self.folder.sync()?;
        }
        Ok(&self.parts)
    }

    /// Removes the parts again, which no manifest refers to.
    pub(super) fn discard(&self) {
        for &part in self.parts.keys() {
            // The next save removes what stays.
            let _ = self.folder.remove_part(part);
        }
    }

    fn end_part(&mut self) -> io::Result<()> {
        self.flush()?;
        if let Some(&part) = self.parts.keys().last() {
            self.folder.sync_part(part)?;
        }
        Ok(())
    }

    fn flush(&mut self) -> io::Result<()> {
        if let Some((&part, &bytes)) = self.parts.last_key_value()
            && !self.buffer.is_empty()
        {
            let offset = bytes - self.buffer.len() as u64;
            self.folder.write_part(part, offset, &self.buffer)?;
            self.buffer.clear();
        }
        Ok(())
    }
}
