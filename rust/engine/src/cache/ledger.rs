//! Who holds which page, and why several may: a naive account of the cache, for tests.

use std::collections::{HashMap, HashSet};

use super::cache::Cache;
use super::pool::{FoundPages, PagePool};
use super::reuse::Resident;

/// Compares the pages of a cache between two plans with what `running` and `waiting` requests say.
pub(super) fn check<'a>(
    cache: &Cache,
    pool: &PagePool,
    running: impl Iterator<Item = Resident<'a>>,
    waiting: impl Iterator<Item = Resident<'a>>,
) {
    let size = cache.page_size();
    let mut holders: HashMap<u32, u32> = HashMap::new();
    let mut texts: HashMap<u32, (&str, &[u32])> = HashMap::new();
    for Resident { table, tokens, .. } in running {
        let own: HashSet<u32> = table.pages.iter().copied().collect();
        assert_eq!(own.len(), table.pages.len(), "a page is held twice by one");
        for (index, &page) in table.pages.iter().enumerate() {
            *holders.entry(page).or_default() += 1;
            let end = (index + 1) * size;
            let text: (&str, &[u32]) = if end <= table.kv_len {
                (&table.namespace, &tokens[..end])
            } else {
                ("", &[])
            };
            if let Some(other) = texts.insert(page, text) {
                assert!(!text.1.is_empty(), "two write to page {page}");
                assert_eq!(other, text, "page {page} is shared by different texts");
            }
        }
        if table.shares {
            let mut found = FoundPages::default();
            let shared = &tokens[..table.num_shared * size];
            pool.find(&table.namespace, shared, &mut found);
            assert_eq!(found.pages(), &table.pages[..table.num_shared]);
        }
    }
    for Resident { table, tokens, .. } in waiting {
        assert!(table.pages.is_empty());
        // What is remembered of the cache is what it holds.
        let (mut known, mut anew) = (table.found.clone(), FoundPages::default());
        for found in [&mut known, &mut anew] {
            pool.find(&table.namespace, tokens, found);
        }
        assert_eq!(known.pages(), anew.pages());
    }
    for &(_, page) in &cache.written {
        *holders.entry(page).or_default() += 1;
    }
    pool.check(&holders);
}
