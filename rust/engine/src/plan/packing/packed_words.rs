//! The words of a packed step, as they are written.

/// Each section begins at a multiple of this many words, 32 bytes, and takes at least as many.
const ALIGNED_WORDS: usize = 8;

/// Words of a table of sections, then the sections; memory is kept from step to step.
#[derive(Debug, Default)]
pub(super) struct PackedWords {
    words: Vec<i32>,
    num_sections: usize,
    num_written: usize,
}

impl PackedWords {
    /// Begins anew, with so many sections.
    pub(super) fn begin(&mut self, num_sections: usize) {
        self.words.clear();
        self.words.resize(2 * num_sections, 0);
        self.num_sections = num_sections;
        self.num_written = 0;
        self.align();
    }

    /// Writes the next section.
    pub(super) fn section(&mut self, write: impl FnOnce(&mut Vec<i32>)) {
        debug_assert!(self.num_written < self.num_sections);
        let begin = self.words.len();
        write(&mut self.words);
        let len = self.words.len() - begin;
        if len == 0 {
            self.words.resize(begin + ALIGNED_WORDS, 0);
        }
        self.align();
        let entry = 2 * self.num_written;
        self.words[entry] = begin as i32;
        self.words[entry + 1] = len as i32;
        self.num_written += 1;
    }

    fn align(&mut self) {
        let len = self.words.len().next_multiple_of(ALIGNED_WORDS);
        self.words.resize(len, 0);
    }

    /// All words written.
    pub(super) fn words(&self) -> &[i32] {
        debug_assert_eq!(self.num_written, self.num_sections);
        &self.words
    }

    /// Where each section begins, and how many words it has.
    pub(super) fn table(&self) -> impl Iterator<Item = (usize, usize)> {
        let entries = self.words[..2 * self.num_sections].chunks_exact(2);
        entries.map(|entry| (entry[0] as usize, entry[1] as usize))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sections_are_aligned_and_none_is_without_room() {
        let mut packed = PackedWords::default();
        for _ in 0..2 {
            packed.begin(3);
            packed.section(|words| words.extend(1..=9));
            packed.section(|_| {});
            packed.section(|words| words.push(7));
            let table: Vec<_> = packed.table().collect();
            assert_eq!(table, [(8, 9), (24, 0), (32, 1)]);
            assert_eq!(packed.words().len(), 40);
            assert_eq!(packed.words()[..8], [8, 9, 24, 0, 32, 1, 0, 0]);
            assert_eq!(packed.words()[15..18], [8, 9, 0]);
            assert_eq!(packed.words()[32], 7);
        }
    }
}
