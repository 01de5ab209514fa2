//! The bytes that running streams hold for records that they may leave.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Bytes that all running streams hold for their records. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub(crate) struct Held(Arc<AtomicUsize>);

impl Held {
    /// A stream's part of it, still empty.
    pub(crate) fn part(&self) -> Part {
        Part {
            held: self.clone(),
            num_bytes: 0,
        }
    }
}

/// What one stream holds, until it is dropped.
#[derive(Debug)]
pub(crate) struct Part {
    held: Held,
    num_bytes: usize,
}

impl Part {
    /// Sets what the stream holds; gives what all hold.
    pub(crate) fn set(&mut self, num_bytes: usize) -> usize {
        let before = std::mem::replace(&mut self.num_bytes, num_bytes);
        let all = &self.held.0;
        if num_bytes >= before {
            let more = num_bytes - before;
            all.fetch_add(more, Ordering::Relaxed) + more
        } else {
            let less = before - num_bytes;
            all.fetch_sub(less, Ordering::Relaxed) - less
        }
    }
}

impl Drop for Part {
    fn drop(&mut self) {
        self.set(0);
    }
}
