//! What members wait and meet by. In tests built with `--cfg loom` it is loom's, for
//! `threads/interleavings.rs`.

#[cfg(not(all(test, loom)))]
pub(super) use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, fence};
#[cfg(not(all(test, loom)))]
pub(super) use std::sync::{Condvar, Mutex};

#[cfg(all(test, loom))]
pub(super) use loom::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, fence};
#[cfg(all(test, loom))]
pub(super) use loom::sync::{Condvar, Mutex};
