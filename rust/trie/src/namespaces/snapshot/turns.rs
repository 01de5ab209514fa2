//! Whose turn it is with the snapshots: a save gives way to whoever forgets.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use crate::namespaces::snapshot::snapshots::Snapshots;
use crate::store::disk::Disk;

/// The snapshots, which one thread at a time works with.
#[derive(Debug)]
pub(crate) struct Turns {
    snapshots: Mutex<Snapshots>,
    /// How many threads wait to forget.
    awaited: Mutex<u32>,
    ended: Condvar,
}

impl Turns {
    /// Snapshots on `disk`.
    pub(crate) fn new(disk: Arc<dyn Disk>) -> Self {
        Self {
            snapshots: Mutex::new(Snapshots::new(disk)),
            awaited: Mutex::new(0),
            ended: Condvar::new(),
        }
    }

    fn awaited(&self) -> MutexGuard<'_, u32> {
        self.awaited.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn snapshots(&self) -> MutexGuard<'_, Snapshots> {
        self.snapshots
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for a turn to save or restore, after all who wait to forget.
    pub(crate) fn take(&self) -> MutexGuard<'_, Snapshots> {
        let awaited = self
            .ended
            .wait_while(self.awaited(), |awaited| *awaited > 0);
        drop(awaited.unwrap_or_else(PoisonError::into_inner));
        self.snapshots()
    }

    /// Whether somebody waits to forget.
    pub(crate) fn is_awaited(&self) -> bool {
        *self.awaited() > 0
    }

    /// Waits for a turn to forget: until a save that runs has written the block that it is at, or
    /// its manifest; or until a restore has read all.
    pub(crate) fn take_to_forget(&self) -> MutexGuard<'_, Snapshots> {
        *self.awaited() += 1;
        let snapshots = self.snapshots();
        *self.awaited() -= 1;
        self.ended.notify_all();
        snapshots
    }
}
