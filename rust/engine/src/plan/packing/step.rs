//! What a packed step holds, for those who launch its kernels.

use spectrie_types::{PackedSection, PackedWork};

/// A step that was packed: its size, and where its sections are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PackedStep {
    /// Words used.
    pub num_words: usize,
    /// Rows of the forward.
    pub num_rows: usize,
    /// Sampled rows.
    pub num_samples: usize,
    /// Rows whose likeliest tokens are wanted.
    pub num_tops: usize,
    /// Slots to copy before the forward.
    pub num_moves: usize,
    /// Whether any request has more than 64 rows.
    pub has_prompts: bool,
    /// Whether it says how tokens are drawn, so that [`Verdicts::Drawn`](crate::Verdicts::Drawn) will do.
    /// If not, the sections of draws are empty.
    pub is_drawn: bool,
    /// Cuts that any row uses: 1 top-k, 2 top-p, 4 typical.
    pub cuts: u8,
    /// Whether any row has a bias, a seen, a path's or a masked token.
    pub has_lists: bool,
    /// A power of two that no row's number of splits exceeds, of any window.
    pub most_splits: usize,
    pub(super) table: Vec<(usize, usize)>,
}

impl PackedStep {
    /// Where a section begins, and how many words it has.
    pub fn section(&self, section: PackedSection) -> (usize, usize) {
        self.table[usize::from(section.number())]
    }

    /// The same of a list of attention's work for a window of the shape; `None` where there is no
    /// such window.
    pub fn work(&self, window: usize, list: PackedWork) -> Option<(usize, usize)> {
        let first = PackedSection::ALL.len() + window * PackedWork::ALL.len();
        self.table.get(first + usize::from(list.number())).copied()
    }
}
