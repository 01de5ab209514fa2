//! Which pages hold which text, so that requests with equal beginnings compute them once.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use super::eviction::{EvictionOrder, Standing};
use super::siblings::Siblings;

/// What a page holds: a page full of tokens, after those of its parent. The tokens themselves are
/// compared, so equal hashes cannot mix up texts; a parent's page stands for what it holds, because a
/// page that has children stays.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Key {
    namespace: Arc<str>,
    parent: Option<u32>,
    tokens: Arc<[u32]>,
}

#[derive(Debug)]
struct Entry {
    key: Arc<Key>,
    /// Which of all pages ever entered it is.
    number: u64,
    children: Siblings,
    standing: Standing,
    is_idle: bool,
    /// Whether it outlives the requests that hold it.
    is_kept: bool,
}

/// Full pages by namespace and text, in trees.
///
/// Each page is worth one page of prefill as often as it is used. Where a page must go, it is an
/// idle one without children, because a page is of no use without those before it; which of them,
/// [`EvictionOrder`] says.
#[derive(Debug, Default)]
pub(crate) struct PrefixCache {
    pages: HashMap<Arc<Key>, u32>,
    entries: BTreeMap<u32, Entry>,
    /// Pages that begin a text.
    roots: HashMap<Arc<str>, Siblings>,
    /// Idle pages without children.
    evictable: EvictionOrder,
    num_idle: usize,
    num_entered: u64,
}

impl PrefixCache {
    /// Pages that no request holds.
    pub(crate) fn num_idle(&self) -> usize {
        self.num_idle
    }

    pub(crate) fn is_idle(&self, page: u32) -> bool {
        self.entries.get(&page).is_some_and(|entry| entry.is_idle)
    }

    /// Whether a page outlives the requests that hold it.
    pub(crate) fn is_kept(&self, page: u32) -> bool {
        self.entries.get(&page).is_some_and(|entry| entry.is_kept)
    }

    /// The page with exactly `tokens` after `parent`.
    pub(crate) fn find(
        &self,
        namespace: &Arc<str>,
        parent: Option<u32>,
        tokens: &[u32],
    ) -> Option<u32> {
        let key = Key {
            namespace: Arc::clone(namespace),
            parent,
            tokens: tokens.into(),
        };
        self.pages.get(&key).copied()
    }

    /// A number that stays the same as long as a page holds the same text, and those before it.
    pub(crate) fn number(&self, page: u32) -> Option<u64> {
        self.entries.get(&page).map(|entry| entry.number)
    }

    /// The page after `parent` that begins with most of `tokens`, and with how many; `None` where
    /// none begins with any.
    pub(crate) fn find_beginning(
        &self,
        namespace: &str,
        parent: Option<u32>,
        tokens: &[u32],
    ) -> Option<(u32, usize)> {
        let siblings = match parent {
            Some(parent) => &self.entries.get(&parent)?.children,
            None => self.roots.get(namespace)?,
        };
        siblings.find_beginning(tokens)
    }

    /// Enters a held page; no other may hold this text. `parent` is entered.
    pub(crate) fn insert(
        &mut self,
        page: u32,
        namespace: &Arc<str>,
        parent: Option<u32>,
        tokens: &[u32],
    ) {
        let key = Arc::new(Key {
            namespace: Arc::clone(namespace),
            parent,
            tokens: tokens.into(),
        });
        if let Some(siblings) = self.siblings_of(&key) {
            siblings.insert(&key.tokens, page);
        }
        self.pages.insert(Arc::clone(&key), page);
        self.num_entered += 1;
        let entry = Entry {
            key,
            number: self.num_entered,
            children: Siblings::default(),
            standing: Standing::default(),
            is_idle: false,
            is_kept: false,
        };
        self.entries.insert(page, entry);
    }

    /// Counts a use of a held page; `keep` makes it outlive those who hold it.
    pub(crate) fn touch(&mut self, page: u32, keep: bool) {
        if let Some(entry) = self.entries.get_mut(&page) {
            self.evictable.touch(&mut entry.standing);
            entry.is_kept |= keep;
        }
    }

    /// Notes whether any request holds a page.
    pub(crate) fn set_idle(&mut self, page: u32, is_idle: bool) {
        let Some(entry) = self.entries.get_mut(&page) else {
            return;
        };
        if entry.is_idle == is_idle {
            return;
        }
        entry.is_idle = is_idle;
        if is_idle {
            self.num_idle += 1;
            if entry.children.is_empty() {
                self.evictable.insert(page, &entry.standing);
            }
        } else {
            self.num_idle -= 1;
            self.evictable.remove(page, &entry.standing);
        }
    }

    /// Gives up the idle page that is worth least.
    pub(crate) fn evict(&mut self) -> Option<u32> {
        let page = self.evictable.choose()?;
        self.remove(page);
        Some(page)
    }

    /// Takes out a page without children.
    pub(crate) fn remove(&mut self, page: u32) {
        self.set_idle(page, false);
        let Some(entry) = self.entries.remove(&page) else {
            return;
        };
        if cfg!(any(test, debug_assertions)) {
            assert!(entry.children.is_empty(), "page {page} has children");
        }
        self.pages.remove(&entry.key);
        let Some(siblings) = self.siblings_of(&entry.key) else {
            return;
        };
        siblings.remove(&entry.key.tokens);
        let is_empty = siblings.is_empty();
        match entry.key.parent {
            None if is_empty => {
                self.roots.remove(&entry.key.namespace);
            }
            Some(parent) if is_empty => {
                if let Some(above) = self.entries.get(&parent).filter(|above| above.is_idle) {
                    self.evictable.insert(parent, &above.standing);
                }
            }
            _ => {}
        }
    }

    /// Removes all pages of a namespace; returns those that no request holds.
    pub(crate) fn forget(&mut self, namespace: &str) -> Vec<u32> {
        let mut found: Vec<u32> = Vec::new();
        let mut next: Vec<u32> = self
            .roots
            .get(namespace)
            .map_or_else(Vec::new, |roots| roots.pages().collect());
        while let Some(page) = next.pop() {
            if let Some(entry) = self.entries.get(&page) {
                next.extend(entry.children.pages());
            }
            found.push(page);
        }
        let mut idle = Vec::new();
        // Children come after their parents.
        for &page in found.iter().rev() {
            if self.is_idle(page) {
                idle.push(page);
            }
            self.remove(page);
        }
        idle
    }

    fn siblings_of(&mut self, key: &Key) -> Option<&mut Siblings> {
        match key.parent {
            None => Some(self.roots.entry(Arc::clone(&key.namespace)).or_default()),
            Some(parent) => self
                .entries
                .get_mut(&parent)
                .map(|entry| &mut entry.children),
        }
    }
}

#[cfg(test)]
impl PrefixCache {
    /// Checks that the indices agree with the entries; gives the idle ones.
    pub(crate) fn check(&self) -> usize {
        assert_eq!(self.pages.len(), self.entries.len());
        let mut num_leaves = 0;
        for (page, entry) in &self.entries {
            assert_eq!(self.pages.get(&entry.key), Some(page));
            let is_leaf = entry.is_idle && entry.children.is_empty();
            let is_evictable = self.evictable.contains(*page, &entry.standing);
            assert_eq!(is_evictable, is_leaf, "page {page}");
            num_leaves += usize::from(is_leaf);
            for child in entry.children.pages() {
                assert_eq!(self.entries[&child].key.parent, Some(*page));
                assert!(!entry.is_idle || self.entries[&child].is_idle);
            }
        }
        assert_eq!(self.evictable.len(), num_leaves);
        self.entries.values().filter(|entry| entry.is_idle).count()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(name: &str) -> Arc<str> {
        Arc::from(name)
    }

    /// A chain of pages 0, 1, 2 and a page 3 of its own, idle, each used once in this order.
    fn cache() -> PrefixCache {
        let mut cache = PrefixCache::default();
        for (page, parent, tokens) in [
            (0, None, [1, 1]),
            (1, Some(0), [2, 2]),
            (2, Some(1), [3, 3]),
            (3, None, [1, 2]),
        ] {
            cache.insert(page, &name("a"), parent, &tokens);
            cache.touch(page, true);
        }
        for page in 0..4 {
            cache.set_idle(page, true);
        }
        cache
    }

    #[test]
    fn a_page_is_found_by_namespace_parent_and_every_token() {
        let cache = cache();
        assert_eq!(cache.find(&name("a"), None, &[1, 1]), Some(0));
        assert_eq!(cache.find(&name("a"), Some(0), &[2, 2]), Some(1));
        assert_eq!(cache.find(&name("b"), None, &[1, 1]), None);
        assert_eq!(cache.find(&name("a"), Some(3), &[2, 2]), None);
        assert_eq!(cache.find(&name("a"), Some(0), &[2, 3]), None);
    }

    #[test]
    fn the_page_with_the_longest_equal_beginning_is_found() {
        let cache = cache();
        assert_eq!(cache.find_beginning("a", None, &[1, 2, 9]), Some((3, 2)));
        let length = cache
            .find_beginning("a", None, &[1, 9])
            .map(|(_, length)| length);
        assert_eq!(length, Some(1));
        assert_eq!(cache.find_beginning("a", None, &[9, 1]), None);
        assert_eq!(cache.find_beginning("b", None, &[1, 1]), None);
        assert_eq!(cache.find_beginning("a", Some(1), &[3]), Some((2, 1)));
    }

    #[test]
    fn leaves_go_before_their_parents_and_used_pages_last() {
        let mut cache = cache();
        cache.set_idle(0, false);
        cache.touch(0, true);
        cache.set_idle(0, true);
        let order: Vec<u32> = std::iter::from_fn(|| cache.evict()).collect();
        assert_eq!(order, [2, 1, 3, 0]);
        assert_eq!((cache.num_idle(), cache.roots.len()), (0, 0));
    }

    #[test]
    fn pages_that_are_not_used_fall_behind_new_ones() {
        let mut cache = PrefixCache::default();
        let enter = |cache: &mut PrefixCache, page: u32, uses: usize| {
            cache.insert(page, &name("a"), None, &[page, 7]);
            for _ in 0..uses {
                cache.touch(page, true);
            }
            cache.set_idle(page, true);
        };
        enter(&mut cache, 0, 3);
        // Of two pages the one used three times stays for two generations of the others.
        let mut gone = Vec::new();
        for page in 1..5 {
            enter(&mut cache, page, 1);
            gone.extend(cache.evict());
        }
        assert_eq!(gone, [1, 2, 0, 3]);
    }

    #[test]
    fn held_pages_stay() {
        let mut cache = cache();
        cache.set_idle(3, false);
        cache.set_idle(0, false);
        let order: Vec<u32> = std::iter::from_fn(|| cache.evict()).collect();
        assert_eq!(order, [2, 1]);
        assert_eq!(cache.find(&name("a"), None, &[1, 2]), Some(3));
    }

    #[test]
    fn a_forgotten_namespace_is_found_no_more() {
        let mut cache = cache();
        cache.insert(9, &name("b"), None, &[1, 1]);
        cache.set_idle(1, false);
        cache.set_idle(0, false);
        let mut idle = cache.forget("a");
        idle.sort_unstable();
        assert_eq!(idle, [2, 3]);
        assert_eq!(cache.find(&name("a"), None, &[1, 1]), None);
        assert_eq!(cache.find(&name("b"), None, &[1, 1]), Some(9));
        assert_eq!(cache.num_idle(), 0);
    }
}
