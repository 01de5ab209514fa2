//! Parts of large zeroed mappings, so that small weights share large pages.
#![allow(unsafe_code)] // hands out parts of a raw mapping

use std::ptr::NonNull;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use crate::buffer::mapped::Buffer;
use crate::error::CpuError;

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
                let mapping_lines = lines.max(MAPPING_BYTES / size_of::<Line>());
                let mapping = Arc::new(Buffer::zeroed(mapping_lines)?);
                if lines < mapping_lines {
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
