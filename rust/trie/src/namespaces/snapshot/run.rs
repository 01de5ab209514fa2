//! A run of cells of one block, as it lies in a part file; and the runs that make up a block.

use std::collections::BTreeSet;
use std::ops::Range;

use crate::store::block::Block;
use crate::store::dirty::GROUP_CELLS;

/// Most cells of a run: what a damaged byte costs at most.
pub(super) const RUN_CELLS: u32 = 64 << 10;

/// Cells of a block that were written together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Run {
    /// The part file, by its number, and the place in it.
    pub(super) part: u32,
    pub(super) offset: u32,
    /// The first cell: a multiple of [`GROUP_CELLS`].
    pub(super) first: u32,
    pub(super) cells: u32,
    /// XXH3 of its bytes.
    pub(super) checksum: u64,
}

impl Run {
    /// Bytes of so many cells: their tokens, and a bit of each for context.
    pub(super) fn bytes_for(cells: u32) -> usize {
        (cells as usize + cells.div_ceil(u32::BITS) as usize) * size_of::<u32>()
    }

    pub(super) fn bytes(&self) -> usize {
        Self::bytes_for(self.cells)
    }

    /// Whether a block of `capacity` cells can have it.
    pub(super) fn is_possible(&self, capacity: u32) -> bool {
        let end = self.first.checked_add(self.cells);
        self.first.is_multiple_of(GROUP_CELLS)
            && (1..=RUN_CELLS).contains(&self.cells)
            && end.is_some_and(|end| end <= capacity)
    }

    fn groups(&self) -> Range<u32> {
        self.first / GROUP_CELLS..(self.first + self.cells).div_ceil(GROUP_CELLS)
    }

    /// Puts `bytes`, if they are its own, into `block`. Says whether they are.
    pub(super) fn fill(&self, bytes: &[u8], block: &mut Block) -> bool {
        if checksum(bytes) != self.checksum {
            return false;
        }
        let (words, _) = bytes.as_chunks::<4>();
        let words = words.iter().map(|word| u32::from_le_bytes(*word));
        let cells = self.cells as usize;
        block.fill(self.first, words.clone().take(cells), words.skip(cells));
        true
    }
}

/// The checksum of a run with these bytes.
pub(super) fn checksum(bytes: &[u8]) -> u64 {
    xxhash_rust::xxh3::xxh3_64(bytes)
}

/// Cuts sorted groups of cells, as far as they lie before `end`, into ranges of at most
/// [`RUN_CELLS`] neighbouring cells.
pub(super) fn ranges(groups: &BTreeSet<u32>, end: u32) -> Vec<Range<u32>> {
    let mut ranges: Vec<Range<u32>> = Vec::new();
    for group in groups {
        let cells = group * GROUP_CELLS..((group + 1) * GROUP_CELLS).min(end);
        if cells.is_empty() {
            continue;
        }
        match ranges.last_mut() {
            Some(last) if last.end == cells.start && cells.end - last.start <= RUN_CELLS => {
                last.end = cells.end;
            }
            _ => ranges.push(cells),
        }
    }
    ranges
}

/// The runs of a block, oldest first. Where two hold the same group of cells, the newer one counts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Runs(Vec<Run>);

impl Runs {
    /// Those of a manifest.
    pub(super) fn new(runs: Vec<Run>) -> Self {
        Self(runs)
    }

    pub(super) fn all(&self) -> &[Run] {
        &self.0
    }

    /// Adds newer ones, and leaves out those that no longer count for any group.
    pub(super) fn add(&mut self, newer: Vec<Run>) {
        if newer.is_empty() {
            return;
        }
        self.0.extend(newer);
        let mut counts = self.counts().into_iter();
        self.0.retain(|_| counts.next() > Some(0));
    }

    /// Visits every group with the index of the run that counts for it.
    fn each_group(&self, mut visit: impl FnMut(usize, u32)) {
        let end = self.0.iter().map(|run| run.groups().end).max();
        let mut seen = vec![false; end.unwrap_or(0) as usize];
        for (index, run) in self.0.iter().enumerate().rev() {
            for group in run.groups() {
                if !std::mem::replace(&mut seen[group as usize], true) {
                    visit(index, group);
                }
            }
        }
    }

    /// For how many groups each run counts.
    fn counts(&self) -> Vec<u32> {
        let mut counts = vec![0; self.0.len()];
        self.each_group(|index, _| counts[index] += 1);
        counts
    }

    /// Each run with the bytes of the groups that it counts for.
    pub(super) fn live_bytes(&self) -> impl Iterator<Item = (&Run, u64)> {
        let counts = self.counts().into_iter();
        self.0.iter().zip(counts).map(|(run, count)| {
            let bytes = Run::bytes_for((count * GROUP_CELLS).min(run.cells));
            (run, bytes as u64)
        })
    }

    /// The groups that runs in one of `parts` count for.
    pub(super) fn groups_in(&self, parts: &BTreeSet<u32>) -> BTreeSet<u32> {
        let mut groups = BTreeSet::new();
        if parts.is_empty() {
            return groups;
        }
        self.each_group(|index, group| {
            if parts.contains(&self.0[index].part) {
                groups.insert(group);
            }
        });
        groups
    }

    /// Leaves out the runs that lie in one of `parts`.
    pub(super) fn leave(&mut self, parts: &BTreeSet<u32>) {
        self.0.retain(|run| !parts.contains(&run.part));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(part: u32, first_group: u32, groups: u32) -> Run {
        Run {
            part,
            offset: 0,
            first: first_group * GROUP_CELLS,
            cells: groups * GROUP_CELLS,
            checksum: 0,
        }
    }

    #[test]
    fn neighbouring_groups_form_runs_of_bounded_length() {
        let groups = BTreeSet::from([0, 1, 2, 4, 9]);
        assert_eq!(ranges(&groups, 1100), [0..768, 1024..1100]);
        let groups: BTreeSet<_> = (0..600).collect();
        let found = ranges(&groups, 600 * GROUP_CELLS);
        assert_eq!(found, [0..65_536, 65_536..131_072, 131_072..153_600]);
    }

    #[test]
    fn the_newer_run_counts_and_one_that_counts_for_nothing_goes() {
        let mut runs = Runs::default();
        runs.add(vec![run(1, 0, 2), run(1, 4, 1)]);
        runs.add(vec![run(2, 1, 3)]);
        let live: Vec<_> = runs
            .live_bytes()
            .map(|(run, bytes)| (run.part, bytes))
            .collect();
        let group = Run::bytes_for(GROUP_CELLS) as u64;
        assert_eq!(live, [(1, group), (1, group), (2, 3 * group)]);
        assert_eq!(runs.groups_in(&[2].into()), [1, 2, 3].into());
        runs.add(vec![run(3, 0, 1)]);
        let parts: Vec<_> = runs.all().iter().map(|run| run.part).collect();
        assert_eq!(parts, [1, 2, 3], "the first of part 1 counts for nothing");
        runs.leave(&[1, 3].into());
        assert_eq!(runs.all(), [run(2, 1, 3)]);
    }
}
