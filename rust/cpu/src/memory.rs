//! Zeroed, aligned memory that the system hands out page by page as it is touched.
#![allow(unsafe_code)] // raw mappings, and element writes from several threads

use std::ptr::NonNull;

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
    /// `len` elements of all-zero bits, which is the value zero for the element types of this crate.
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
        #[cfg(target_os = "linux")]
        // SAFETY: advice about the mapping just made; large pages save address look-ups, and a
        // refusal changes nothing.
        unsafe {
            libc::madvise(start, bytes, libc::MADV_HUGEPAGE);
        }
        let start = NonNull::new(start.cast::<E>()).ok_or(CpuError::Memory { bytes })?;
        Ok(Self { start, len })
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

/// A slice that several threads write disjoint parts of.
#[derive(Clone, Copy)]
pub(crate) struct Shared<'a, E> {
    start: *mut E,
    len: usize,
    lifetime: std::marker::PhantomData<&'a mut [E]>,
}

// SAFETY: the methods' contracts forbid overlapping access.
unsafe impl<E: Send> Send for Shared<'_, E> {}
// SAFETY: as above.
unsafe impl<E: Send> Sync for Shared<'_, E> {}

impl<'a, E: Copy> Shared<'a, E> {
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
