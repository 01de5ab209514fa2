//! Leave to own bytes of a budget, and the account of who has them.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::Relaxed;

/// Bytes that one owner has of a budget, as a part of what another account has.
#[derive(Debug, Default)]
pub(crate) struct Account {
    parent: Option<Arc<Account>>,
    bytes: AtomicUsize,
}

impl Account {
    /// An account without bytes; those it gets count in `parent` too.
    pub(crate) fn within(parent: &Arc<Self>) -> Arc<Self> {
        Arc::new(Self {
            parent: Some(Arc::clone(parent)),
            bytes: AtomicUsize::new(0),
        })
    }

    /// Bytes that it has.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes.load(Relaxed)
    }

    /// Whether both are parts of the same account.
    fn is_beside(&self, other: &Self) -> bool {
        let parents = self.parent.as_ref().zip(other.parent.as_ref());
        parents.is_some_and(|(one, other)| Arc::ptr_eq(one, other))
    }

    fn add(&self, bytes: usize) {
        self.bytes.fetch_add(bytes, Relaxed);
        if let Some(parent) = &self.parent {
            parent.add(bytes);
        }
    }

    fn subtract(&self, bytes: usize) {
        self.bytes.fetch_sub(bytes, Relaxed);
        if let Some(parent) = &self.parent {
            parent.subtract(bytes);
        }
    }
}

/// Leave to own some bytes of the budget, which has them back when this is released or dropped.
#[derive(Debug)]
pub(crate) struct Grant {
    /// 0 once they were returned.
    bytes: AtomicUsize,
    account: Arc<Account>,
}

impl Grant {
    /// Books `bytes` to an account.
    pub(crate) fn new(bytes: usize, account: &Arc<Account>) -> Self {
        account.add(bytes);
        Self {
            bytes: AtomicUsize::new(bytes),
            account: Arc::clone(account),
        }
    }

    /// One that no budget bounds.
    pub(crate) fn unbounded(bytes: usize) -> Self {
        Self::new(bytes, &Arc::default())
    }

    pub(crate) fn bytes(&self) -> usize {
        self.bytes.load(Relaxed)
    }

    /// Returns the bytes now: nobody owns them any more, though a draft that is running may read
    /// them for some microseconds.
    pub(crate) fn release(&self) {
        self.account.subtract(self.bytes.swap(0, Relaxed));
    }

    /// Books the bytes to another account within the same one, whose count stays as it is: with
    /// a moment of more it would exceed the budget, with one of less others might take the room.
    pub(crate) fn move_to(&mut self, account: &Arc<Account>) {
        debug_assert!(self.account.is_beside(account));
        let bytes = self.bytes();
        self.account.bytes.fetch_sub(bytes, Relaxed);
        account.bytes.fetch_add(bytes, Relaxed);
        self.account = Arc::clone(account);
    }
}

impl Drop for Grant {
    fn drop(&mut self) {
        self.release();
    }
}

/// Where a request asks for the bytes of its own drafter.
pub(crate) trait Room: fmt::Debug + Send + Sync {
    /// Leave to own `bytes`, or `None` when there is no room for them.
    fn ask(&self, bytes: usize) -> Option<Grant>;
}

/// Room without end, for a request of no namespace.
#[derive(Debug, Default)]
pub(crate) struct Unbounded;

impl Room for Unbounded {
    fn ask(&self, bytes: usize) -> Option<Grant> {
        Some(Grant::unbounded(bytes))
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicBool;
    use std::thread;

    #[test]
    fn bytes_that_move_count_once_at_any_moment() {
        let budget = Arc::new(Account::default());
        let (first, second) = (Account::within(&budget), Account::within(&budget));
        let mut grant = Grant::new(64, &first);
        let done = AtomicBool::new(false);
        thread::scope(|scope| {
            let watch = scope.spawn(|| {
                let mut seen = [usize::MAX, 0];
                while !done.load(Relaxed) {
                    let bytes = budget.bytes();
                    seen = [seen[0].min(bytes), seen[1].max(bytes)];
                }
                seen
            });
            for _ in 0..1_000_000 {
                grant.move_to(&second);
                grant.move_to(&first);
            }
            done.store(true, Relaxed);
            assert_eq!(watch.join().unwrap(), [64, 64]);
        });
        assert_eq!((first.bytes(), second.bytes()), (64, 0));
    }
}
