//! Writing what is new in the blocks of namespaces, while they are used.

use std::collections::{BTreeSet, HashMap};
use std::io;
use std::sync::{Arc, Weak};

use crate::namespaces::shared_trie::SharedTrie;
use crate::namespaces::snapshot::manifest::Manifest;
use crate::namespaces::snapshot::part::PartWriter;
use crate::namespaces::snapshot::run::{Run, Runs, checksum, ranges};
use crate::namespaces::snapshot::saved::{SavedBlock, SavedNamespace};
use crate::store::block::Block;
use crate::store::dirty::GROUP_CELLS;

/// Why a save ended early.
#[derive(Debug)]
pub(super) enum Stopped {
    /// Somebody waits for the snapshot: the save begins again.
    Interrupted,
    /// Nothing changed but for files that no manifest refers to.
    Failed(io::Error),
    /// The manifest may be the new one or the last.
    Unsettled(io::Error),
}

impl From<io::Error> for Stopped {
    fn from(error: io::Error) -> Self {
        Self::Failed(error)
    }
}

/// The runs of blocks in memory, by their serial numbers.
pub(super) type RunsOfBlocks = HashMap<u64, Runs>;

/// What a save has done so far.
#[derive(Debug)]
pub(super) struct Save<'a> {
    pub(super) writer: PartWriter<'a>,
    /// The runs of blocks when they were last saved.
    known: &'a RunsOfBlocks,
    /// Parts whose live runs are written again.
    rewritten: &'a BTreeSet<u32>,
    pub(super) manifest: Manifest,
    runs: RunsOfBlocks,
    /// Groups that count as saved since this save began.
    taken: Vec<(Weak<Block>, Vec<u32>)>,
    buffer: Vec<u8>,
}

impl<'a> Save<'a> {
    pub(super) fn new(
        writer: PartWriter<'a>,
        known: &'a RunsOfBlocks,
        rewritten: &'a BTreeSet<u32>,
    ) -> Self {
        Self {
            writer,
            known,
            rewritten,
            manifest: Manifest::default(),
            runs: RunsOfBlocks::new(),
            taken: Vec::new(),
            buffer: Vec::new(),
        }
    }

    /// Writes what is new in `tries`, the one idle longest first, unless `is_awaited` says that
    /// somebody waits.
    pub(super) fn write(
        &mut self,
        tries: &[Arc<SharedTrie>],
        is_awaited: impl Fn() -> bool,
    ) -> Result<(), Stopped> {
        for shared in tries {
            let mut blocks = Vec::new();
            for block in shared.view().blocks() {
                if is_awaited() {
                    return Err(Stopped::Interrupted);
                }
                blocks.push(self.write_block(block)?);
            }
            if !blocks.is_empty() {
                self.manifest.namespaces.push(SavedNamespace {
                    name: shared.name().to_owned(),
                    accepted_tokens: shared.accepted_tokens(),
                    blocks,
                });
            }
        }
        Ok(())
    }

    fn write_block(&mut self, block: &Arc<Block>) -> io::Result<SavedBlock<Runs>> {
        let serial = block.dirty().serial();
        // Read before the groups are taken, so that what is counted is in them or was saved before.
        let num_tokens = block.num_tokens();
        let taken = block.dirty().take();
        let mut groups: BTreeSet<u32> = taken.iter().copied().collect();
        if !taken.is_empty() {
            self.taken.push((Arc::downgrade(block), taken));
        }
        // Read after the groups were taken, so that it is behind all that was written to them.
        let shape = block.shape(num_tokens);
        let mut runs = Runs::default();
        match self.known.get(&serial) {
            Some(known) => {
                runs.clone_from(known);
                groups.extend(known.groups_in(self.rewritten));
                runs.leave(self.rewritten);
            }
            None => groups.extend(0..shape.end.div_ceil(GROUP_CELLS)),
        }
        let mut newer = Vec::new();
        for cells in ranges(&groups, shape.end) {
            self.buffer.clear();
            block.copy(cells.clone(), &mut self.buffer);
            let (part, offset) = self.writer.append(&self.buffer)?;
            newer.push(Run {
                part,
                offset,
                first: cells.start,
                cells: cells.end - cells.start,
                checksum: checksum(&self.buffer),
            });
        }
        runs.add(newer);
        self.runs.insert(serial, runs.clone());
        Ok(SavedBlock { shape, place: runs })
    }

    /// What is saved now, and the runs of its blocks.
    pub(super) fn into_result(self) -> (Manifest, RunsOfBlocks) {
        (self.manifest, self.runs)
    }

    /// Undoes it: what it wrote is removed, and counts as new again.
    pub(super) fn undo(&self) {
        self.writer.discard();
        for (block, groups) in &self.taken {
            if let Some(block) = block.upgrade() {
                block.dirty().put_back(groups);
            }
        }
    }
}
