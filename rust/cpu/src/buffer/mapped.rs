//! Zeroed, aligned memory that the system hands out page by page as it is touched.
#![allow(unsafe_code)] // raw mappings

use std::ptr::NonNull;

use crate::error::CpuError;

/// A fixed-size zeroed buffer on pages of its own.
pub(crate) struct Buffer<E> {
    pub(super) start: NonNull<E>,
    pub(super) len: usize,
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
