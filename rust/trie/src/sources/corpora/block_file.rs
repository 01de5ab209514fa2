//! A corpus file, read block by block: each block is checked before its words are used.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;

use xxhash_rust::xxh3::{Xxh3, xxh3_64};

use super::header::{HEADER_BYTES, Header, refuse, refuse_damaged};
use super::layout::{BLOCK_BYTES, Format, Layout};
use crate::TrieError;
use crate::store::atomic_file::CHECKSUM_BYTES;

/// Where bytes come from.
#[derive(Debug)]
pub(super) enum Source {
    File(File),
    /// Bytes that a test may change while they are open.
    #[cfg(test)]
    Memory(std::sync::Arc<std::sync::Mutex<Vec<u8>>>),
}

impl Source {
    fn len(&self) -> io::Result<u64> {
        match self {
            Self::File(file) => Ok(file.metadata()?.len()),
            #[cfg(test)]
            Self::Memory(bytes) => Ok(bytes.lock().unwrap().len() as u64),
        }
    }

    fn read_exact_at(&self, out: &mut [u8], at: u64) -> io::Result<()> {
        match self {
            Self::File(file) => file.read_exact_at(out, at),
            #[cfg(test)]
            Self::Memory(bytes) => {
                let bytes = bytes.lock().unwrap();
                let range = at as usize..at as usize + out.len();
                let found = bytes.get(range).ok_or(io::ErrorKind::UnexpectedEof)?;
                out.copy_from_slice(found);
                Ok(())
            }
        }
    }
}

/// An open corpus file: its header, and the checksum of each of its blocks.
#[derive(Debug)]
pub(super) struct BlockFile {
    source: Source,
    header: Header,
    layout: Layout,
    checksums: Box<[u64]>,
    bytes_read: AtomicU64,
}

impl BlockFile {
    pub(super) fn open(path: &Path) -> Result<Self, TrieError> {
        let file = File::open(path).map_err(|error| TrieError::io("open", path, &error))?;
        Self::read(Source::File(file), path)
    }

    /// The file that `source` holds. `path` is for messages.
    pub(super) fn read(source: Source, path: &Path) -> Result<Self, TrieError> {
        let fails = |error: io::Error| TrieError::io("read", path, &error);
        let length = source.len().map_err(fails)?;
        let mut start = [0; HEADER_BYTES];
        let start = &mut start[..length.min(HEADER_BYTES as u64) as usize];
        source.read_exact_at(start, 0).map_err(fails)?;
        let header = Header::decode(start, path)?;
        if length != header.file_bytes() {
            return Err(refuse(
                path,
                format!("{length} bytes"),
                format!("{} bytes", header.file_bytes()),
            ));
        }
        let mut file = Self {
            layout: header.layout(),
            source,
            header,
            checksums: Box::default(),
            bytes_read: AtomicU64::new(start.len() as u64),
        };
        let checksums = match file.header.format {
            Format::One => file.checksums_of_all(start),
            Format::Two => file.checksum_table(start),
        };
        file.checksums = checksums
            .map_err(fails)?
            .ok_or_else(|| refuse_damaged(path))?;
        Ok(file)
    }

    /// The table at the end, unless it or the header is damaged.
    fn checksum_table(&self, start: &[u8]) -> io::Result<Option<Box<[u64]>>> {
        let mut table = vec![0; self.header.table_bytes() + CHECKSUM_BYTES];
        self.read_at(&mut table, self.header.words_end())?;
        let (words, _) = table.as_chunks::<CHECKSUM_BYTES>();
        let mut words: Vec<u64> = words.iter().map(|word| u64::from_le_bytes(*word)).collect();
        let expected = words.pop();
        let found = checksum_of(start, &words);
        Ok((expected == Some(found)).then(|| words.into()))
    }

    /// The checksums of the blocks of a file that has none, unless it is damaged: reads all of it.
    fn checksums_of_all(&self, start: &[u8]) -> io::Result<Option<Box<[u64]>>> {
        let mut all = Xxh3::new();
        all.update(start);
        let mut bytes = vec![0; BLOCK_BYTES];
        let mut checksums = Vec::with_capacity(self.layout.blocks());
        for block in 0..self.layout.blocks() {
            let (at, length) = self.place(block);
            self.read_at(&mut bytes[..length], at)?;
            all.update(&bytes[..length]);
            checksums.push(xxh3_64(&bytes[..length]));
        }
        let mut expected = [0; CHECKSUM_BYTES];
        self.read_at(&mut expected, self.header.words_end())?;
        let whole = all.digest() == u64::from_le_bytes(expected);
        Ok(whole.then(|| checksums.into()))
    }

    pub(super) fn header(&self) -> &Header {
        &self.header
    }

    pub(super) fn layout(&self) -> &Layout {
        &self.layout
    }

    /// Bytes read from the file so far.
    pub(super) fn bytes_read(&self) -> u64 {
        self.bytes_read.load(Relaxed)
    }

    /// Reads a block and checks it: its bytes, or where it is and what was found there.
    pub(super) fn block(&self, block: usize) -> Result<Vec<u8>, String> {
        let (at, length) = self.place(block);
        let mut bytes = vec![0; length];
        let found = match self.read_at(&mut bytes, at) {
            Ok(()) if self.checksums.get(block) == Some(&xxh3_64(&bytes)) => return Ok(bytes),
            Ok(()) => "damaged".to_owned(),
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => "cut off".to_owned(),
            Err(error) => error.to_string(),
        };
        let last = (at + length as u64).saturating_sub(1);
        Err(format!("bytes {at} to {last} of its file: {found}"))
    }

    /// Where a block is in the file, and its bytes.
    fn place(&self, block: usize) -> (u64, usize) {
        let words = self.layout.block(block);
        let bytes = |words: u64| words * size_of::<u32>() as u64;
        let length = bytes(words.end.saturating_sub(words.start));
        (HEADER_BYTES as u64 + bytes(words.start), length as usize)
    }

    fn read_at(&self, out: &mut [u8], at: u64) -> io::Result<()> {
        self.source.read_exact_at(out, at)?;
        self.bytes_read.fetch_add(out.len() as u64, Relaxed);
        Ok(())
    }
}

/// The checksum that ends a file of format 2.
pub(super) fn checksum_of(header: &[u8], checksums: &[u64]) -> u64 {
    let mut hash = Xxh3::new();
    hash.update(header);
    for checksum in checksums {
        hash.update(&checksum.to_le_bytes());
    }
    hash.digest()
}
