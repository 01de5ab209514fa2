//! Blocks of corpora in memory: a bounded number of frames that all corpora share.
//!
//! A frame is given to another block while readers may read it. So each block has a *slot*, one
//! word that says which frame holds it and how many frames had been filled by then. A reader loads
//! the slot, reads words, and loads the slot again: if it is unchanged, the words were those of
//! the block. (A sequence lock, with every word atomic: Boehm, "Can seqlocks get along with
//! programming language memory models?", 2012.)

use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use super::layout::{BLOCK_BYTES, BLOCK_WORDS};
use crate::store::sync::{AtomicU32, AtomicU64, fence, try_zeroed};

/// The slots of the blocks of one corpus.
pub(super) type Slots = [AtomicU64];

/// Low half of a slot whose block cannot be used.
const LOST: u32 = u32::MAX;

/// Set in a slot by whoever reads its block; cleared when a frame is wanted.
const USED: u64 = 1 << 32;

/// One in the number of fills, above the frame and [`USED`].
const FILL: u64 = 1 << 33;

/// Frames looked at for one that no draft used lately, before any is taken.
const MAX_LOOKED_AT: usize = 64;

/// What a slot says.
pub(super) enum Lookup<'a> {
    Held(Block<'a>),
    /// Not in memory.
    Absent,
    /// Read before, and of no use.
    Lost,
}

/// The words of a block, as long as [`Block::is_held`].
pub(super) struct Block<'a> {
    words: &'a [AtomicU32],
    slot: &'a AtomicU64,
    seen: u64,
}

impl Block<'_> {
    /// The word at `index`, to be used only if the block [is still held](Self::is_held) afterwards.
    #[inline]
    pub(super) fn word(&self, index: usize) -> u32 {
        self.words.get(index).map_or(0, |word| word.load(Relaxed))
    }

    /// Whether every word read so far was one of this block.
    #[inline]
    pub(super) fn is_held(&self) -> bool {
        fence(Acquire);
        (self.slot.load(Relaxed) ^ self.seen) & !USED == 0
    }
}

/// Frames for blocks, and who has them.
#[derive(Debug)]
pub(super) struct Frames {
    words: Box<[AtomicU32]>,
    owners: Mutex<Owners>,
}

#[derive(Debug, Default)]
struct Owners {
    /// Per frame, the block in it.
    of: Vec<Option<Owner>>,
    num_held: usize,
    /// The frame looked at next.
    hand: usize,
    fills: u64,
}

#[derive(Debug)]
struct Owner {
    slots: Weak<Slots>,
    block: usize,
}

impl Frames {
    /// Frames of at most `capacity_bytes`, at least one. Memory is taken when a frame is filled;
    /// where the system refuses even addresses, there are fewer.
    pub(super) fn new(capacity_bytes: usize) -> Self {
        let mut count = (capacity_bytes / BLOCK_BYTES).clamp(1, LOST as usize - 1);
        let words = loop {
            match try_zeroed(count * BLOCK_WORDS) {
                Some(words) => break words,
                None if count > 1 => count /= 2,
                None => break Box::default(),
            }
        };
        let owners = Owners {
            of: (0..words.len() / BLOCK_WORDS).map(|_| None).collect(),
            ..Owners::default()
        };
        Self {
            words,
            owners: Mutex::new(owners),
        }
    }

    fn owners(&self) -> MutexGuard<'_, Owners> {
        self.owners.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Bytes of the frames that hold a block.
    pub(super) fn bytes(&self) -> usize {
        self.owners().num_held * BLOCK_BYTES
    }

    /// Number of frames that hold none.
    pub(super) fn num_free(&self) -> usize {
        let owners = self.owners();
        owners.of.len() - owners.num_held
    }

    /// The block of a slot.
    #[inline]
    pub(super) fn get<'a>(&'a self, slot: &'a AtomicU64) -> Lookup<'a> {
        let seen = slot.load(Acquire);
        let frame = seen as u32;
        if frame == 0 {
            return Lookup::Absent;
        }
        let start = (frame as usize - 1) * BLOCK_WORDS;
        let Some(words) = self.words.get(start..start + BLOCK_WORDS) else {
            return Lookup::Lost;
        };
        if seen & USED == 0 {
            slot.fetch_or(USED, Relaxed);
        }
        Lookup::Held(Block { words, slot, seen })
    }

    /// Puts the `bytes` of a block into a frame, a free one, or else one that no draft used lately
    /// if `evicts`. Does nothing if the block is in one.
    pub(super) fn put(&self, slots: &Arc<Slots>, block: usize, bytes: &[u8], evicts: bool) {
        let mut owners = self.owners();
        let Some(slot) = slots.get(block).filter(|slot| is_absent(slot)) else {
            return;
        };
        let Some(frame) = owners.frame(evicts) else {
            return;
        };
        let words = &self.words[frame * BLOCK_WORDS..][..BLOCK_WORDS];
        let (given, _) = bytes.as_chunks();
        let given = given.iter().map(|word| u32::from_le_bytes(*word));
        for (word, value) in words.iter().zip(given.chain(std::iter::repeat(0))) {
            word.store(value, Relaxed);
        }
        owners.fills += 1;
        slot.store(
            owners.fills.wrapping_mul(FILL) | (frame as u64 + 1),
            Release,
        );
        owners.num_held += 1;
        owners.of[frame] = Some(Owner {
            slots: Arc::downgrade(slots),
            block,
        });
    }

    /// Marks a block that cannot be used. Says whether it was not marked yet.
    pub(super) fn lose(&self, slots: &Slots, block: usize) -> bool {
        let _turn = self.owners();
        let slot = slots.get(block).filter(|slot| is_absent(slot));
        if let Some(slot) = slot {
            slot.store(u64::from(LOST), Release);
        }
        slot.is_some()
    }

    /// Takes back the frames of a corpus that is closed.
    pub(super) fn release(&self, slots: &Arc<Slots>) {
        let mut owners = self.owners();
        let gone = Arc::downgrade(slots);
        let mut freed = 0;
        for owner in &mut owners.of {
            if owner
                .as_ref()
                .is_some_and(|owner| owner.slots.ptr_eq(&gone))
            {
                *owner = None;
                freed += 1;
            }
        }
        owners.num_held -= freed;
    }
}

impl Owners {
    /// A frame that holds nothing, or, if `evicts`, that no longer does.
    fn frame(&mut self, evicts: bool) -> Option<usize> {
        let count = self.of.len();
        let is_full = self.num_held == count;
        if count == 0 || is_full && !evicts {
            return None;
        }
        let mut looked_at = 0;
        loop {
            let frame = self.hand;
            self.hand = (frame + 1) % count;
            let Some(owner) = &self.of[frame] else {
                return Some(frame);
            };
            if !is_full {
                continue;
            }
            looked_at += 1;
            if owner.is_used() && looked_at <= MAX_LOOKED_AT {
                continue;
            }
            owner.leave();
            self.of[frame] = None;
            self.num_held -= 1;
            return Some(frame);
        }
    }
}

impl Owner {
    /// Whether the block was read since this was last asked.
    fn is_used(&self) -> bool {
        let Some(slots) = self.slots.upgrade() else {
            return false;
        };
        let slot = slots.get(self.block);
        slot.is_some_and(|slot| slot.fetch_and(!USED, Relaxed) & USED != 0)
    }

    /// Tells readers of the block that its frame is written to from now on.
    fn leave(&self) {
        if let Some(slots) = self.slots.upgrade()
            && let Some(slot) = slots.get(self.block)
        {
            slot.store(0, Relaxed);
        }
        fence(Release);
    }
}

fn is_absent(slot: &AtomicU64) -> bool {
    slot.load(Relaxed) as u32 == 0
}
