//! The compiled constraints that were used last, within a number of bytes.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use super::GrammarSpec;

/// Keeps values by the constraint they were made from, the least recently used given up first.
pub(super) struct Cache<T> {
    entries: HashMap<Arc<GrammarSpec>, Entry<T>>,
    /// Its entries in the order of their last use.
    by_use: BTreeMap<u64, Arc<GrammarSpec>>,
    num_uses: u64,
    num_bytes: usize,
    max_bytes: usize,
}

struct Entry<T> {
    value: T,
    num_bytes: usize,
    last_use: u64,
}

impl<T: Clone> Cache<T> {
    pub(super) fn new(max_bytes: usize) -> Self {
        Self {
            entries: HashMap::new(),
            by_use: BTreeMap::new(),
            num_uses: 0,
            num_bytes: 0,
            max_bytes,
        }
    }

    /// What is kept for `spec`; this is a use of it.
    pub(super) fn get(&mut self, spec: &GrammarSpec) -> Option<T> {
        let entry = self.entries.get_mut(spec)?;
        self.num_uses += 1;
        if let Some(spec) = self.by_use.remove(&entry.last_use) {
            self.by_use.insert(self.num_uses, spec);
        }
        entry.last_use = self.num_uses;
        Some(entry.value.clone())
    }

    /// Keeps what was made from `spec`, of `num_bytes` with all that belongs to it, instead of what
    /// was used longest ago. What is larger than the whole cache is not kept.
    pub(super) fn insert(&mut self, spec: GrammarSpec, value: T, num_bytes: usize) {
        self.remove(&spec);
        if num_bytes > self.max_bytes {
            return;
        }
        while self.num_bytes + num_bytes > self.max_bytes {
            let Some((_, oldest)) = self.by_use.first_key_value() else {
                break;
            };
            self.remove(&Arc::clone(oldest));
        }
        self.num_uses += 1;
        self.num_bytes += num_bytes;
        let spec = Arc::new(spec);
        self.by_use.insert(self.num_uses, Arc::clone(&spec));
        let last_use = self.num_uses;
        self.entries.insert(
            spec,
            Entry {
                value,
                num_bytes,
                last_use,
            },
        );
    }

    fn remove(&mut self, spec: &GrammarSpec) {
        if let Some(entry) = self.entries.remove(spec) {
            self.by_use.remove(&entry.last_use);
            self.num_bytes -= entry.num_bytes;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spec(name: usize) -> GrammarSpec {
        GrammarSpec::Regex(format!("a{{{name}}}"))
    }

    fn kept(cache: &Cache<usize>) -> Vec<usize> {
        let mut kept: Vec<usize> = cache.entries.values().map(|entry| entry.value).collect();
        kept.sort_unstable();
        assert_eq!(cache.by_use.len(), kept.len());
        let bytes: usize = cache.entries.values().map(|entry| entry.num_bytes).sum();
        assert_eq!(cache.num_bytes, bytes);
        kept
    }

    #[test]
    fn what_was_used_longest_ago_makes_room() {
        let mut cache = Cache::new(100);
        for name in 0..4 {
            cache.insert(spec(name), name, 25);
        }
        assert_eq!(cache.get(&spec(0)), Some(0));
        cache.insert(spec(4), 4, 25);
        assert_eq!(kept(&cache), [0, 2, 3, 4]);
        cache.insert(spec(5), 5, 60);
        assert_eq!(kept(&cache), [4, 5]);
        assert_eq!(cache.get(&spec(0)), None);
    }

    #[test]
    fn what_is_made_twice_is_kept_once() {
        let mut cache = Cache::new(100);
        cache.insert(spec(1), 1, 70);
        cache.insert(spec(1), 2, 90);
        assert_eq!(kept(&cache), [2]);
    }

    #[test]
    fn what_is_larger_than_the_cache_pushes_nothing_out() {
        let mut cache = Cache::new(100);
        cache.insert(spec(1), 1, 70);
        cache.insert(spec(2), 2, 101);
        assert_eq!(kept(&cache), [1]);
    }
}
