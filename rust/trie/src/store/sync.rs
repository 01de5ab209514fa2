//! The atomic words that publish text to readers. In tests built with `--cfg loom` they are
//! those of loom, for `testing/interleavings.rs` and `sources/recycled/interleavings.rs`.

#[cfg(not(all(test, loom)))]
pub(crate) use std::sync::atomic::{AtomicU32, AtomicU64, fence};

#[cfg(all(test, loom))]
pub(crate) use loom::sync::atomic::{AtomicU32, AtomicU64, fence};

/// `count` words of zero. Costs no time: pages come zeroed when they are first touched.
#[cfg(not(all(test, loom)))]
pub(crate) fn zeroed(count: usize) -> Box<[AtomicU32]> {
    bytemuck::zeroed_slice_box(count)
}

#[cfg(all(test, loom))]
pub(crate) fn zeroed(count: usize) -> Box<[AtomicU32]> {
    (0..count).map(|_| AtomicU32::new(0)).collect()
}

/// `count` long words of zero like those of [`zeroed`].
#[cfg(not(all(test, loom)))]
pub(crate) fn zeroed_long(count: usize) -> Box<[AtomicU64]> {
    bytemuck::zeroed_slice_box(count)
}

#[cfg(all(test, loom))]
pub(crate) fn zeroed_long(count: usize) -> Box<[AtomicU64]> {
    (0..count).map(|_| AtomicU64::new(0)).collect()
}

/// `count` words of zero like those of [`zeroed`]; `None` if the system has no addresses for them.
#[cfg(not(all(test, loom)))]
pub(crate) fn try_zeroed(count: usize) -> Option<Box<[AtomicU32]>> {
    bytemuck::try_zeroed_slice_box(count).ok()
}

#[cfg(all(test, loom))]
pub(crate) fn try_zeroed(count: usize) -> Option<Box<[AtomicU32]>> {
    Some(zeroed(count))
}

/// Sets a word that no other thread sees yet.
#[cfg(not(all(test, loom)))]
pub(crate) fn set(word: &mut AtomicU32, value: u32) {
    *word.get_mut() = value;
}

#[cfg(all(test, loom))]
pub(crate) fn set(word: &mut AtomicU32, value: u32) {
    word.with_mut(|word| *word = value);
}

/// Sets the first of `words`, which no other thread sees yet, to `values`, as far as both go.
pub(crate) fn fill(words: &mut [AtomicU32], values: impl Iterator<Item = u32>) {
    for (word, value) in words.iter_mut().zip(values) {
        set(word, value);
    }
}
