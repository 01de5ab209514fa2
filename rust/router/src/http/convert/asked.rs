//! The names of the fields that a test's bodies were read for, there or not.

use std::cell::RefCell;
use std::collections::BTreeSet;

thread_local! {
    static NAMES: RefCell<BTreeSet<String>> = const { RefCell::new(BTreeSet::new()) };
}

pub(super) fn note(path: &str) {
    NAMES.with_borrow_mut(|names| names.insert(path.replace("[0]", "[]")));
}

pub(crate) fn forget() {
    NAMES.with_borrow_mut(BTreeSet::clear);
}

pub(crate) fn names() -> BTreeSet<String> {
    NAMES.with_borrow(BTreeSet::clone)
}
