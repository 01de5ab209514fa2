//! Zeroed, aligned memory that the system hands out page by page as it is touched.
#![allow(unsafe_code)] // raw mappings, and element writes from several threads

use std::ptr::NonNull;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use crate::error::CpuError;

/// A fixed-size zeroed buffer on pages of its own.
pub(crate) struct Buffer<E> {
    start: NonNull<E>,
    len: usize,
}

// SAFETY: the buffer owns its memory; `E` is plain data and all sharing goes through `&`/`&mut`.
unsafe impl<E: Send> Send for Buffer<E> {}
// SAFETY: as above.
unsafe impl<E: Sync> Sync for Buffer<E> {}

impl<E: Copy> Buffer<E> {
    /// `len` elements of all-zero bits, which is the value zero for the dtypes of this crate.
    ///
    /// The mapping is private and anonymous, so a page costs nothing until it is written.
    pub(crate) fn zeroed(len: usize) -> Result<Self, CpuError> {
        let bytes = len.max(1).saturating_mul(size_of::<E>());
        // SAFETY: a fresh anonymous mapping at an address of the system's choice.
        let start = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                bytes,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_PRIVATE | libc::MAP_ANONYMOUS,
                -1,
                0,
            )
        };
        if start == libc::MAP_FAILED {
            return Err(CpuError::Memory { bytes });
        }
        // Miri knows no advice.
        #[cfg(all(target_os = "linux", not(miri)))]
        // SAFETY: advice about the mapping just made; large pages save address look-ups, and a
        // refusal changes nothing.
        unsafe {
            libc::madvise(start, bytes, libc::MADV_HUGEPAGE);
        }
        let start = NonNull::new(start.cast::<E>()).ok_or(CpuError::Memory { bytes })?;
        Ok(Self { start, len })
    }

    /// Gives the memory of the elements from `first` on back to the system, which may zero them.
    pub(crate) fn release(&mut self, first: usize) {
        #[cfg(all(target_os = "linux", not(miri)))]
        {
            let (size, page) = (size_of::<E>(), 1 << 21);
            let start =
                (self.start.as_ptr() as usize + first.min(self.len) * size).next_multiple_of(page);
            let end = self.start.as_ptr() as usize + self.len * size;
            if start < end {
                // SAFETY: whole pages of this mapping, which `&mut self` makes unique; zero is a value.
                unsafe {
                    libc::madvise(start as *mut libc::c_void, end - start, libc::MADV_DONTNEED);
                }
            }
        }
        #[cfg(not(all(target_os = "linux", not(miri))))]
        let _ = first;
    }

    pub(crate) fn as_slice(&self) -> &[E] {
        // SAFETY: `start` holds `len` initialised elements for as long as `self` lives.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr(), self.len) }
    }

    pub(crate) fn as_mut_slice(&mut self) -> &mut [E] {
        // SAFETY: as above, and `&mut self` makes it unique.
        unsafe { std::slice::from_raw_parts_mut(self.start.as_ptr(), self.len) }
    }
}

impl<E> Drop for Buffer<E> {
    fn drop(&mut self) {
        let bytes = self.len.max(1).saturating_mul(size_of::<E>());
        // SAFETY: the mapping made in `zeroed`, of the same length.
        unsafe { libc::munmap(self.start.as_ptr().cast(), bytes) };
    }
}

/// Bytes of the mappings that pieces are cut from.
const MAPPING_BYTES: usize = if cfg!(miri) { 1 << 14 } else { 64 << 20 };

/// A cache line, where pieces begin.
#[derive(Clone, Copy)]
#[repr(align(64))]
struct Line(#[allow(dead_code)] [u8; 64]);

/// A fixed-size zeroed part of a larger mapping, beginning on a cache line.
///
/// Weights of a megabyte have no large pages of their own. Cut from one mapping they share them, and get
/// them at the first touch: a product streams 17 instead of 14 GB/s then, on one Emerald Rapids core.
pub(crate) struct Piece<E> {
    /// Unmapped with the last of its pieces.
    _mapping: Arc<Buffer<Line>>,
    start: NonNull<E>,
    len: usize,
}

// SAFETY: pieces do not overlap, so each owns its part; `E` is plain data and sharing goes through `&`.
unsafe impl<E: Send> Send for Piece<E> {}
// SAFETY: as above.
unsafe impl<E: Sync> Sync for Piece<E> {}

/// The mapping that the next pieces come from, and its lines in use.
static OPEN: Mutex<(Weak<Buffer<Line>>, usize)> = Mutex::new((Weak::new(), 0));

impl<E: Copy> Piece<E> {
    /// `len` elements of all-zero bits, which is the value zero for the dtypes of this crate.
    pub(crate) fn zeroed(len: usize) -> Result<Self, CpuError> {
        const { assert!(align_of::<E>() <= align_of::<Line>()) };
        let bytes = len.saturating_mul(size_of::<E>());
        let lines = bytes.div_ceil(size_of::<Line>());
        let mut open = OPEN.lock().unwrap_or_else(PoisonError::into_inner);
        let (mapping, first) = match open.0.upgrade() {
            Some(mapping) if lines <= mapping.len - open.1 => {
                let first = open.1;
                open.1 += lines;
                (mapping, first)
            }
            _ => {
                let most = lines.max(MAPPING_BYTES / size_of::<Line>());
                let mapping = Arc::new(Buffer::zeroed(most)?);
                if lines < most {
                    *open = (Arc::downgrade(&mapping), lines);
                }
                (mapping, 0)
            }
        };
        // SAFETY: lines `first..first + lines` are inside the mapping, by the match.
        let start = unsafe { mapping.start.add(first) }.cast::<E>();
        Ok(Self {
            _mapping: mapping,
            start,
            len,
        })
    }

    #[inline(always)]
    pub(crate) fn as_slice(&self) -> &[E] {
        // SAFETY: the mapping holds these initialised elements, and no other piece has them.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr(), self.len) }
    }

    pub(crate) fn as_mut_slice(&mut self) -> &mut [E] {
        // SAFETY: as above, and `&mut self` makes it unique.
        unsafe { std::slice::from_raw_parts_mut(self.start.as_ptr(), self.len) }
    }
}

/// A slice that several threads write disjoint parts of.
#[derive(Clone, Copy)]
pub(crate) struct SharedSlice<'a, E> {
    start: *mut E,
    len: usize,
    lifetime: std::marker::PhantomData<&'a mut [E]>,
}

// SAFETY: the methods' contracts forbid overlapping access.
unsafe impl<E: Send> Send for SharedSlice<'_, E> {}
// SAFETY: as above.
unsafe impl<E: Send> Sync for SharedSlice<'_, E> {}

impl<'a, E: Copy> SharedSlice<'a, E> {
    pub(crate) fn new(slice: &'a mut [E]) -> Self {
        Self {
            start: slice.as_mut_ptr(),
            len: slice.len(),
            lifetime: std::marker::PhantomData,
        }
    }

    /// Elements `start..start + len`.
    ///
    /// # Safety
    /// No other thread touches these elements while the result lives.
    #[inline(always)]
    #[allow(clippy::mut_from_ref)]
    pub(crate) unsafe fn part(&self, start: usize, len: usize) -> &'a mut [E] {
        assert!(
            start <= self.len && len <= self.len - start,
            "part outside its slice"
        );
        // SAFETY: in bounds by the assertion; unique by the caller's promise.
        unsafe { std::slice::from_raw_parts_mut(self.start.add(start), len) }
    }

    /// The address of an element, for hints.
    pub(crate) fn address(&self, index: usize) -> *const E {
        self.start.wrapping_add(index)
    }

    /// Elements `start..start + len`, to read.
    ///
    /// # Safety
    /// No thread writes these elements while the result lives.
    #[inline(always)]
    pub(crate) unsafe fn read(&self, start: usize, len: usize) -> &'a [E] {
        assert!(
            start <= self.len && len <= self.len - start,
            "part outside its slice"
        );
        // SAFETY: in bounds by the assertion; unwritten by the caller's promise.
        unsafe { std::slice::from_raw_parts(self.start.add(start), len) }
    }

    /// All elements, to read.
    ///
    /// # Safety
    /// No thread writes the elements that are read while the result lives.
    pub(crate) unsafe fn all(&self) -> &'a [E] {
        // SAFETY: by the caller's promise.
        unsafe { self.read(0, self.len) }
    }

    /// The same memory from element `start` on.
    #[inline(always)]
    pub(crate) fn offset(&self, start: usize) -> Self {
        assert!(start <= self.len, "start outside its slice");
        Self {
            start: self.start.wrapping_add(start),
            len: self.len - start,
            lifetime: std::marker::PhantomData,
        }
    }

    /// Writes one element.
    ///
    /// # Safety
    /// No other thread touches this element at the same time.
    #[inline(always)]
    pub(crate) unsafe fn write(&self, index: usize, value: E) {
        assert!(index < self.len, "element outside its slice");
        // SAFETY: in bounds by the assertion; unique by the caller's promise.
        unsafe { *self.start.add(index) = value }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_are_zero_and_keep_to_themselves() {
        let mut pieces: Vec<Piece<u32>> = [5, 1, 40, 5000, 3, 17]
            .into_iter()
            .filter_map(|len| Piece::zeroed(len).ok())
            .collect();
        for (i, piece) in pieces.iter_mut().enumerate() {
            assert_eq!(piece.as_slice().as_ptr().addr() % 64, 0);
            assert!(piece.as_slice().iter().all(|&value| value == 0));
            piece.as_mut_slice().fill(i as u32 + 1);
        }
        // The mapping stays for those that are left.
        let left: Vec<_> = pieces.split_off(2);
        drop(pieces);
        let lens: Vec<usize> = left.iter().map(|piece| piece.as_slice().len()).collect();
        assert_eq!(lens, [40, 5000, 3, 17]);
        for (i, piece) in left.iter().enumerate() {
            assert!(
                piece
                    .as_slice()
                    .iter()
                    .all(|&value| value as usize == i + 3)
            );
        }
    }
}
