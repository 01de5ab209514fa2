//! The full pages that may follow one page, found by how their tokens begin.

use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Pages of different tokens after the same text, in the order of their tokens.
///
/// Of all of them, one that shares the longest beginning with some tokens lies next to where these
/// would lie, so it is found without a look at the others.
#[derive(Debug, Default)]
pub(super) struct Siblings {
    pages: BTreeMap<Tokens, u32>,
}

#[derive(Debug, PartialEq, Eq)]
struct Tokens(Arc<[u32]>);

impl Siblings {
    pub(super) fn is_empty(&self) -> bool {
        self.pages.is_empty()
    }

    pub(super) fn pages(&self) -> impl Iterator<Item = u32> {
        self.pages.values().copied()
    }

    pub(super) fn insert(&mut self, tokens: &Arc<[u32]>, page: u32) {
        self.pages.insert(Tokens(Arc::clone(tokens)), page);
    }

    pub(super) fn remove(&mut self, tokens: &Arc<[u32]>) {
        self.pages.remove(&Tokens(Arc::clone(tokens)));
    }

    /// The page that begins with most of `tokens`, and with how many; `None` where none begins with
    /// any. Its time grows with the logarithm of the number of pages.
    pub(super) fn find_beginning(&self, tokens: &[u32]) -> Option<(u32, usize)> {
        if tokens.is_empty() {
            return None;
        }
        let place = Tokens(Arc::from(tokens));
        let before = self.pages.range(..&place).next_back();
        let after = self.pages.range(&place..).next();
        let neighbours = before.into_iter().chain(after);
        let lengths = neighbours.map(|(one, &page)| (page, num_common(&one.0, tokens)));
        lengths
            .max_by_key(|&(_, length)| length)
            .filter(|&(_, length)| length > 0)
    }
}

impl Ord for Tokens {
    fn cmp(&self, other: &Self) -> Ordering {
        #[cfg(test)]
        count::note();
        self.0.cmp(&other.0)
    }
}

impl PartialOrd for Tokens {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

/// Tokens that both `a` and `b` begin with.
pub(super) fn num_common(a: &[u32], b: &[u32]) -> usize {
    #[cfg(test)]
    count::note();
    a.iter().zip(b).take_while(|(a, b)| a == b).count()
}

/// How many pages were compared with a text, for tests.
#[cfg(test)]
pub(super) mod count {
    use std::cell::Cell;

    thread_local! {
        static COMPARED: Cell<usize> = const { Cell::new(0) };
    }

    pub(super) fn note() {
        COMPARED.set(COMPARED.get() + 1);
    }

    /// Comparisons of this thread since it last asked.
    pub(crate) fn take() -> usize {
        COMPARED.replace(0)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn the_longest_beginning_is_as_long_as_among_all(
            texts in prop::collection::btree_set(prop::collection::vec(0_u32..4, 5), 0..60),
            wanted in prop::collection::vec(0_u32..4, 0..6),
        ) {
            let texts: Vec<Arc<[u32]>> = texts.into_iter().map(Arc::from).collect();
            let mut siblings = Siblings::default();
            for (text, page) in texts.iter().zip(0..) {
                siblings.insert(text, page);
            }
            for gone in texts.iter().step_by(3) {
                siblings.remove(gone);
            }
            let left = || texts.iter().enumerate().filter(|(index, _)| index % 3 != 0);
            let longest = left().map(|(_, text)| num_common(text, &wanted)).max();
            let found = siblings.find_beginning(&wanted);
            prop_assert_eq!(found.map_or(0, |(_, length)| length), longest.unwrap_or(0));
            if let Some((page, length)) = found {
                prop_assert!(left().any(|(index, _)| index == page as usize));
                prop_assert_eq!(num_common(&texts[page as usize], &wanted), length);
            }
            prop_assert_eq!(siblings.pages().count(), left().count());
        }
    }
}
