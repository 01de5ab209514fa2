//! Linking all text of an index again, after it was read from a file.

use std::hint::black_box;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::Relaxed;

use crate::SEPARATOR;
use crate::store::chains::{ORDERS, suffix_hash};
use crate::store::sync::AtomicU32;
use crate::store::threads::side_by_side;
use crate::store::view::{CELL_BITS, View};

/// Tokens whose heads are fetched together.
const AHEAD: usize = 64;

/// Less text than this is linked by one thread.
const MIN_SHARED_TOKENS: u64 = 1 << 16;

impl View {
    /// Makes all text findable, to which nothing leads yet, by as many threads as there are cores.
    /// The caller has the writers' turn.
    pub(crate) fn relink(&self) {
        let taken = AtomicUsize::new(0);
        let work = || {
            // The longest comes first, since it takes longest.
            while let Some(order) = ORDERS.len().checked_sub(1 + taken.fetch_add(1, Relaxed)) {
                self.relink_by(order);
            }
        };
        let most = match self.capacity() {
            ..MIN_SHARED_TOKENS => 1,
            _ => ORDERS.len(),
        };
        side_by_side(most, work);
    }

    /// Makes all text findable by its contexts of `order`. The orders have nothing in common, so
    /// several threads may do one each.
    fn relink_by(&self, order: usize) {
        let mut found = Vec::with_capacity(AHEAD);
        for (index, block) in self.blocks().iter().enumerate() {
            let first = (index as u32) << CELL_BITS;
            let mut num_before = 0;
            for cell in 0..block.end() {
                if block.token(cell) == SEPARATOR {
                    num_before = 0;
                    continue;
                }
                if num_before >= ORDERS[order] && !block.is_context(cell) {
                    let hash = suffix_hash(order, block.tokens_before(cell));
                    let head = self.heads[order].cell_of(hash);
                    found.extend(head.map(|head| (head, first | cell)));
                }
                num_before += 1;
                if found.len() == AHEAD {
                    self.link_all(order, &mut found);
                }
            }
        }
        self.link_all(order, &mut found);
    }

    /// Puts positions into the chains of heads, which are fetched side by side.
    fn link_all(&self, order: usize, found: &mut Vec<(&AtomicU32, u32)>) {
        let fetched = found.iter().map(|(head, _)| head.load(Relaxed));
        black_box(fetched.fold(0, |sum, head| sum ^ head));
        for (head, position) in found.drain(..) {
            self.link_into(order, head, position);
        }
    }
}
