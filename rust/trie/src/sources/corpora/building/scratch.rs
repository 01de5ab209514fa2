//! Files without a name, for what does not fit in memory: they end with the process.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;

/// Words gathered before they are written, or read at once.
const BUFFER_WORDS: usize = 16 << 10;

/// Bytes that each writer and each reader of words holds.
pub(super) const BUFFER_BYTES: usize = BUFFER_WORDS * size_of::<u32>();

/// Tells the names of scratch files apart until they lose them.
static NEXT: AtomicU64 = AtomicU64::new(0);

/// A file that only this process sees.
#[derive(Debug)]
pub(super) struct Scratch {
    file: File,
    words: u64,
}

impl Scratch {
    /// Creates an empty one in `folder`, which is made if it is missing.
    pub(super) fn new(folder: &Path) -> io::Result<Self> {
        fs::create_dir_all(folder)?;
        let number = NEXT.fetch_add(1, Relaxed);
        let path = folder.join(format!(".spectrie-{}-{number}.scratch", std::process::id()));
        let mut options = OpenOptions::new();
        let file = options
            .read(true)
            .write(true)
            .create_new(true)
            .open(&path)?;
        fs::remove_file(&path)?;
        Ok(Self { file, words: 0 })
    }

    /// Number of words written.
    pub(super) fn words(&self) -> u64 {
        self.words
    }

    /// Appends `words`, one buffer after the other.
    pub(super) fn append(&mut self, words: &[u32]) -> io::Result<()> {
        let mut bytes = Vec::with_capacity(BUFFER_BYTES);
        for part in words.chunks(BUFFER_WORDS) {
            bytes.clear();
            bytes.extend(part.iter().flat_map(|word| word.to_le_bytes()));
            let at = self.words * size_of::<u32>() as u64;
            self.file.write_all_at(&bytes, at)?;
            self.words += part.len() as u64;
        }
        Ok(())
    }

    /// Reads the words from `start` on.
    pub(super) fn read(&self, start: u64, out: &mut [u32]) -> io::Result<()> {
        let mut bytes = vec![0; BUFFER_BYTES.min(size_of_val(out))];
        let mut at = start * size_of::<u32>() as u64;
        for part in out.chunks_mut(BUFFER_WORDS) {
            let bytes = &mut bytes[..size_of_val(part)];
            self.file.read_exact_at(bytes, at)?;
            at += bytes.len() as u64;
            let (words, _) = bytes.as_chunks();
            for (out, word) in part.iter_mut().zip(words) {
                *out = u32::from_le_bytes(*word);
            }
        }
        Ok(())
    }
}

/// Appends words to a scratch file one by one.
pub(super) struct Appender<'a> {
    file: &'a mut Scratch,
    buffer: Vec<u32>,
}

impl<'a> Appender<'a> {
    pub(super) fn new(file: &'a mut Scratch) -> Self {
        let buffer = Vec::with_capacity(BUFFER_WORDS);
        Self { file, buffer }
    }

    #[inline]
    pub(super) fn push(&mut self, word: u32) -> io::Result<()> {
        self.buffer.push(word);
        if self.buffer.len() == BUFFER_WORDS {
            self.flush()?;
        }
        Ok(())
    }

    /// Writes what was gathered.
    pub(super) fn flush(&mut self) -> io::Result<()> {
        self.file.append(&self.buffer)?;
        self.buffer.clear();
        Ok(())
    }
}

/// Gives the words of a part of a scratch file one by one.
pub(super) struct Stream {
    next: u64,
    end: u64,
    buffer: Vec<u32>,
    given: usize,
}

impl Stream {
    /// Reads the words from `start` to before `end`.
    pub(super) fn new(start: u64, end: u64) -> Self {
        Self {
            next: start,
            end,
            buffer: Vec::new(),
            given: 0,
        }
    }

    /// The next word of `file`, which is always the same.
    #[inline]
    pub(super) fn next(&mut self, file: &Scratch) -> io::Result<u32> {
        if self.given == self.buffer.len() {
            self.fill(file)?;
        }
        let word = self.buffer.get(self.given);
        self.given += 1;
        word.copied().ok_or(io::ErrorKind::UnexpectedEof.into())
    }

    fn fill(&mut self, file: &Scratch) -> io::Result<()> {
        let count = (self.end - self.next).min(BUFFER_WORDS as u64);
        self.buffer.resize(count as usize, 0);
        file.read(self.next, &mut self.buffer)?;
        self.next += count;
        self.given = 0;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_of_a_scratch_file_are_read_beside_each_other_and_no_file_stays() {
        let folder = std::env::temp_dir().join(format!("scratch-{}", std::process::id()));
        let mut file = Scratch::new(&folder).unwrap();
        assert_eq!(fs::read_dir(&folder).unwrap().count(), 0);
        let mut appender = Appender::new(&mut file);
        let count = 3 * BUFFER_WORDS as u32 + 5;
        for word in 0..count {
            appender.push(word).unwrap();
        }
        appender.flush().unwrap();
        assert_eq!(file.words(), u64::from(count));
        let mut halves = [Stream::new(0, 9), Stream::new(9, u64::from(count))];
        for word in 0..count {
            let half = usize::from(word >= 9);
            assert_eq!(halves[half].next(&file).unwrap(), word);
        }
        for mut half in halves {
            assert!(half.next(&file).is_err(), "the end");
        }
        fs::remove_dir(&folder).unwrap();
    }
}
