//! The tokens of a corpus that is being built: the newest in memory, the others in a scratch file.

use std::io;
use std::path::PathBuf;

use super::scratch::{BUFFER_BYTES, Scratch};
use crate::store::chains::{ORDERS, suffix_hashes};
use crate::{SEPARATOR, TokenId};

/// Tokens held before they go to the scratch file.
pub(super) const HELD_CELLS: usize = 1 << 20;

/// Tokens read at once by a walk.
const WALKED_CELLS: usize = 16 << 10;

/// Tokens that a link depends on.
const REACH: usize = ORDERS[ORDERS.len() - 1];

/// Sees the cells of a corpus one after the other.
pub(super) trait Visitor {
    /// Takes the cell at `position`: its token, and the hashes of what stands before it in its
    /// document, as many as there are orders for; none for a separator.
    fn cell(&mut self, position: u32, token: TokenId, hashes: &[u32]) -> io::Result<()>;
    /// Called now and then with the number of cells seen since; an error ends the walk.
    fn passed(&mut self, count: usize) -> io::Result<()>;
}

/// Documents, each followed by a separator, in the order in which they came.
#[derive(Debug)]
pub(super) struct Cells {
    folder: PathBuf,
    file: Option<Scratch>,
    held: Vec<TokenId>,
    most_held: usize,
}

impl Cells {
    /// No cells, of which at most `most_held` will be in memory and the others in `folder`.
    pub(super) fn new(folder: PathBuf, most_held: usize) -> Self {
        Self {
            folder,
            file: None,
            held: Vec::new(),
            most_held,
        }
    }

    /// Where those not in memory go.
    pub(super) fn folder(&self) -> &PathBuf {
        &self.folder
    }

    /// Puts scratch files into another folder, unless there is one already.
    pub(super) fn move_to(&mut self, folder: PathBuf) {
        self.folder = folder;
    }

    /// Number of tokens and separators.
    pub(super) fn len(&self) -> usize {
        self.filed() + self.held.len()
    }

    fn filed(&self) -> usize {
        self.file.as_ref().map_or(0, Scratch::words) as usize
    }

    /// Bytes of memory held.
    pub(super) fn bytes(&self) -> usize {
        size_of::<TokenId>() * self.held.capacity()
    }

    /// Appends tokens.
    pub(super) fn extend(&mut self, mut tokens: &[TokenId]) -> io::Result<()> {
        while !tokens.is_empty() {
            let room = self.most_held - self.held.len();
            let (now, later) = tokens.split_at(room.min(tokens.len()));
            if now.is_empty() {
                self.file()?;
                continue;
            }
            if self.held.len() + now.len() > self.held.capacity() {
                // Doubling must not lead beyond the bound.
                let wanted = (2 * self.held.capacity()).max(self.held.len() + now.len());
                let capacity = wanted.min(self.most_held);
                self.held.reserve_exact(capacity - self.held.len());
            }
            self.held.extend_from_slice(now);
            tokens = later;
        }
        Ok(())
    }

    /// Moves what is held to the scratch file.
    fn file(&mut self) -> io::Result<()> {
        let file = match &mut self.file {
            Some(file) => file,
            none => none.insert(Scratch::new(&self.folder)?),
        };
        file.append(&self.held)?;
        self.held.clear();
        Ok(())
    }

    fn read(&self, start: usize, out: &mut [TokenId]) -> io::Result<()> {
        let from_file = self.filed().saturating_sub(start).min(out.len());
        let (filed, held) = out.split_at_mut(from_file);
        if let Some(file) = &self.file {
            file.read(start as u64, filed)?;
        }
        let from = (start + from_file).saturating_sub(self.filed());
        held.copy_from_slice(&self.held[from..from + held.len()]);
        Ok(())
    }

    /// Shows all cells in turn.
    pub(super) fn walk(&self, visitor: &mut impl Visitor) -> io::Result<()> {
        let mut window = vec![0; REACH + WALKED_CELLS];
        // Where the document starts in the window.
        let mut start = REACH;
        for first in (0..self.len()).step_by(WALKED_CELLS) {
            let count = WALKED_CELLS.min(self.len() - first);
            self.read(first, &mut window[REACH..REACH + count])?;
            for index in REACH..REACH + count {
                let token = window[index];
                let position = (first + index - REACH) as u32;
                if token == SEPARATOR {
                    visitor.cell(position, token, &[])?;
                    start = index + 1;
                } else {
                    let before = &window[start.max(index - REACH)..index];
                    let (hashes, known) = suffix_hashes(before);
                    visitor.cell(position, token, &hashes[..known])?;
                }
            }
            window.copy_within(count..count + REACH, 0);
            start = start.saturating_sub(count);
            visitor.passed(count)?;
        }
        Ok(())
    }
}

/// Bytes that a walk holds.
pub(super) const WALK_BYTES: usize = (REACH + WALKED_CELLS) * size_of::<TokenId>() + BUFFER_BYTES;

#[cfg(test)]
mod tests {
    use super::*;
    use rand::rngs::StdRng;
    use rand::{Rng, SeedableRng};

    #[test]
    fn a_walk_shows_every_cell_with_the_hashes_of_its_document_alone() {
        let mut random = StdRng::seed_from_u64(1);
        let tokens: Vec<TokenId> = (0..2 * WALKED_CELLS + 77)
            .map(|_| match random.random_range(0..12) {
                0 => SEPARATOR,
                token => token,
            })
            .collect();
        let folder = std::env::temp_dir();
        for most_held in [1 << 20, 1000] {
            let mut cells = Cells::new(folder.clone(), most_held);
            for part in tokens.chunks(333) {
                cells.extend(part).unwrap();
            }
            assert_eq!(cells.len(), tokens.len());
            assert!(cells.bytes() <= 4 * most_held);
            let mut check = Check {
                tokens: &tokens,
                next: 0,
                passed: 0,
            };
            cells.walk(&mut check).unwrap();
            assert_eq!((check.next, check.passed), (tokens.len(), tokens.len()));
        }
    }

    /// Compares what it is shown with `tokens`.
    struct Check<'a> {
        tokens: &'a [TokenId],
        next: usize,
        passed: usize,
    }

    impl Visitor for Check<'_> {
        fn cell(&mut self, position: u32, token: TokenId, hashes: &[u32]) -> io::Result<()> {
            assert_eq!(
                (position as usize, token),
                (self.next, self.tokens[self.next])
            );
            let earlier = &self.tokens[..self.next];
            let separator = earlier.iter().rposition(|&token| token == SEPARATOR);
            let before = &earlier[separator.map_or(0, |separator| separator + 1)..];
            let (expected, known) = suffix_hashes(before);
            let known = if token == SEPARATOR { 0 } else { known };
            assert_eq!(hashes, &expected[..known]);
            self.next += 1;
            Ok(())
        }

        fn passed(&mut self, count: usize) -> io::Result<()> {
            self.passed += count;
            Ok(())
        }
    }
}
