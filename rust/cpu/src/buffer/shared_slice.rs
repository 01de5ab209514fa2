//! A slice whose parts several threads write.
#![allow(unsafe_code)] // element access from several threads

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
