//! A share of a byte budget.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicBool, AtomicUsize};

/// Leave to own some bytes of the budget, which has them back when this is released or dropped.
#[derive(Debug)]
pub(crate) struct Grant {
    bytes: usize,
    released: AtomicBool,
    used_bytes: Arc<AtomicUsize>,
}

impl Grant {
    /// Counts `bytes` among the `used_bytes` of a budget.
    pub(crate) fn new(bytes: usize, used_bytes: &Arc<AtomicUsize>) -> Self {
        used_bytes.fetch_add(bytes, Relaxed);
        Self {
            bytes,
            released: AtomicBool::new(false),
            used_bytes: Arc::clone(used_bytes),
        }
    }

    /// One that no budget bounds.
    #[cfg(test)]
    pub(crate) fn unbounded(bytes: usize) -> Self {
        Self::new(bytes, &Arc::default())
    }

    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Returns the bytes now: they have no owner any more, though a draft that is running may read
    /// them for some microseconds.
    pub(crate) fn release(&self) {
        if !self.released.swap(true, Relaxed) {
            self.used_bytes.fetch_sub(self.bytes, Relaxed);
        }
    }
}

impl Drop for Grant {
    fn drop(&mut self) {
        self.release();
    }
}
