//! Pages that some requests hold alone, so that others may count on them.

use std::collections::{HashMap, HashSet};

use super::cache::Cache;
use super::reuse::CachedPrefix;
use super::table::PageTable;

impl Cache {
    /// Pages of `prefix` that anybody holds but those who hold `lent` alone.
    pub(crate) fn num_held_of(&self, prefix: &CachedPrefix, lent: &HashSet<u32>) -> usize {
        let num_held = prefix.pages.len() - self.pool.num_idle_of(&prefix.pages);
        let held = prefix.pages[..num_held].iter();
        held.filter(|page| !lent.contains(page)).count()
    }

    /// Pages that nobody holds but the owners of `tables`.
    pub(crate) fn held_alone<'a>(
        &self,
        tables: impl Iterator<Item = &'a PageTable>,
    ) -> HashSet<u32> {
        let mut holders: HashMap<u32, usize> = HashMap::new();
        for &page in tables.flat_map(|table| &table.pages) {
            *holders.entry(page).or_default() += 1;
        }
        let alone = holders
            .into_iter()
            .filter(|&(page, count)| self.pool.num_holders(page) == count);
        alone.map(|(page, _)| page).collect()
    }
}
