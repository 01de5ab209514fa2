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

    /// Books the bytes to another account of the budget.
    pub(crate) fn move_to(&mut self, account: &Arc<Account>) {
        let bytes = self.bytes();
        account.add(bytes);
        self.account.subtract(bytes);
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
