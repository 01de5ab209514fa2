//! Atomically replaced files with checksums.

use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use xxhash_rust::xxh3::Xxh3;

use crate::TrieError;

/// Bytes of the checksum (XXH3, 64 bits, little-endian) that ends a file or a block.
pub(crate) const CHECKSUM_BYTES: usize = size_of::<u64>();

/// Bytes that every file sets aside for the fingerprint of what it belongs to.
pub(crate) const FINGERPRINT_BYTES: usize = 64;

/// Refuses a fingerprint that no file can hold.
pub(crate) fn check_fingerprint(fingerprint: &str) -> Result<(), TrieError> {
    if fingerprint.len() > FINGERPRINT_BYTES {
        return Err(TrieError::Fingerprint {
            given: fingerprint.to_owned(),
        });
    }
    Ok(())
}

/// Bytes gathered before they are written.
const BUFFER_BYTES: usize = 1 << 20;

/// Passes bytes on, counts them and takes their checksum.
pub(crate) struct Checked<W> {
    inner: W,
    hash: Xxh3,
    bytes: usize,
}

impl<W: Write> Checked<W> {
    pub(crate) fn new(inner: W) -> Self {
        Self {
            inner,
            hash: Xxh3::new(),
            bytes: 0,
        }
    }

    /// Bytes written so far, checksums included.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// What was written to.
    pub(crate) fn into_inner(self) -> W {
        self.inner
    }

    /// Appends the checksum of everything since the last one.
    pub(crate) fn end_block(&mut self) -> io::Result<()> {
        let checksum = self.hash.digest();
        self.inner.write_all(&checksum.to_le_bytes())?;
        self.bytes += CHECKSUM_BYTES;
        self.hash.reset();
        Ok(())
    }

    /// Appends a fingerprint that was checked, padded to [`FINGERPRINT_BYTES`].
    pub(crate) fn write_fingerprint(&mut self, fingerprint: &str) -> io::Result<()> {
        self.write_all(fingerprint.as_bytes())?;
        self.write_all(&[0; FINGERPRINT_BYTES][fingerprint.len()..])
    }

    /// Appends `words` in little-endian order.
    pub(crate) fn write_words(&mut self, words: impl Iterator<Item = u32>) -> io::Result<()> {
        let mut chunk = [0; 4 << 10];
        let mut filled = 0;
        for word in words {
            chunk[filled..filled + 4].copy_from_slice(&word.to_le_bytes());
            filled += 4;
            if filled == chunk.len() {
                self.write_all(&chunk)?;
                filled = 0;
            }
        }
        self.write_all(&chunk[..filled])
    }
}

impl<W: Write> Write for Checked<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let count = self.inner.write(bytes)?;
        self.hash.update(&bytes[..count]);
        self.bytes += count;
        Ok(count)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.inner.flush()
    }
}

/// The bytes before the checksum at the end of `bytes`, if it is theirs.
pub(crate) fn checked(bytes: &[u8]) -> Option<&[u8]> {
    let (body, checksum) = bytes.split_last_chunk::<CHECKSUM_BYTES>()?;
    (xxhash_rust::xxh3::xxh3_64(body) == u64::from_le_bytes(*checksum)).then_some(body)
}

/// Writes the file at `path`: a reader, even after a crash or a power cut at any moment,
/// finds the old file or the whole new one. Gives its bytes.
pub(crate) fn replace(
    path: &Path,
    body: impl FnOnce(&mut Checked<BufWriter<File>>) -> io::Result<()>,
) -> Result<usize, TrieError> {
    let partial = partial_path(path);
    let written = write_synced(&partial, body).and_then(|bytes| {
        fs::rename(&partial, path)?;
        sync_folder(path.parent().unwrap_or(path))?;
        Ok(bytes)
    });
    written.map_err(|error| {
        // The first error is the one to report; the rest of the file may be gone already.
        let _ = fs::remove_file(&partial);
        TrieError::io("write", path, &error)
    })
}

fn write_synced(
    path: &Path,
    body: impl FnOnce(&mut Checked<BufWriter<File>>) -> io::Result<()>,
) -> io::Result<usize> {
    let file = File::create(path)?;
    let mut writer = Checked::new(BufWriter::with_capacity(BUFFER_BYTES, file));
    body(&mut writer)?;
    let bytes = writer.bytes();
    let file = writer
        .into_inner()
        .into_inner()
        .map_err(io::IntoInnerError::into_error)?;
    file.sync_all()?;
    Ok(bytes)
}

/// Where the file is written before it takes its name: the same folder, so that a rename does it.
fn partial_path(path: &Path) -> PathBuf {
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(format!(".{}.partial", std::process::id()));
    path.with_file_name(name)
}

/// Makes what was renamed, made or removed in `folder` outlast a power cut.
pub(crate) fn sync_folder(folder: &Path) -> io::Result<()> {
    let is_here = folder == Path::new("");
    File::open(if is_here { Path::new(".") } else { folder })?.sync_all()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_block_and_its_checksum_belong_together() {
        let mut writer = Checked::new(Vec::new());
        writer.write_words([1, 0x0203_0405].into_iter()).unwrap();
        writer.end_block().unwrap();
        let bytes = writer.bytes();
        let mut file = writer.into_inner();
        assert_eq!((bytes, file.len()), (16, 16));
        assert_eq!(checked(&file), Some(&[1, 0, 0, 0, 5, 4, 3, 2][..]));
        file[2] ^= 1;
        assert_eq!(checked(&file), None);
        assert_eq!(checked(&file[..7]), None);
    }
}
