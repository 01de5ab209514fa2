//! The bytes of a corpus file, mapped: shared by every process that opens it, and read from the
//! disk when they are first needed.
#![allow(unsafe_code, reason = "mapping a file is unsafe by nature")]

use std::io;
use std::ops::Deref;
use std::path::Path;

/// Read-only bytes of a file.
#[derive(Debug)]
pub(super) struct Map {
    #[cfg(not(miri))]
    bytes: memmap2::Mmap,
    // Miri cannot map files.
    #[cfg(miri)]
    bytes: Vec<u8>,
}

impl Map {
    #[cfg(not(miri))]
    pub(super) fn open(path: &Path) -> io::Result<Self> {
        let file = std::fs::File::open(path)?;
        // SAFETY: the bytes must not change while they are mapped. Corpus files are immutable:
        // `atomic_file::replace` writes another file and renames it, which leaves the mapped one as
        // it is. Rewriting a file in place breaks the documented rule of `Corpus::open`.
        let bytes = unsafe { memmap2::Mmap::map(&file)? };
        Ok(Self { bytes })
    }

    #[cfg(miri)]
    pub(super) fn open(path: &Path) -> io::Result<Self> {
        std::fs::read(path).map(|bytes| Self { bytes })
    }
}

impl Deref for Map {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.bytes
    }
}

#[cfg(test)]
impl Map {
    /// A copy of `bytes`, which are not empty, mapped like a file.
    #[cfg(not(miri))]
    pub(super) fn of(bytes: &[u8]) -> io::Result<Self> {
        let mut map = memmap2::MmapMut::map_anon(bytes.len())?;
        map.copy_from_slice(bytes);
        Ok(Self {
            bytes: map.make_read_only()?,
        })
    }

    #[cfg(miri)]
    pub(super) fn of(bytes: &[u8]) -> io::Result<Self> {
        Ok(Self {
            bytes: bytes.to_vec(),
        })
    }
}
