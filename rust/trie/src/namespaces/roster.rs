//! The namespaces that new requests find, by name, and which of them goes out next.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use crate::SharedTrie;

/// Namespaces by name. Beside finding one, a change costs the logarithm of their number.
#[derive(Debug, Default)]
pub(super) struct Roster {
    entries: HashMap<Arc<str>, Entry>,
    tenants: HashMap<Arc<str>, Names>,
    /// Tenants by how many namespaces they have, then by the oldest use they are listed with.
    by_count: BTreeMap<(usize, u64), Arc<str>>,
    #[cfg(test)]
    looked_at: std::cell::Cell<u64>,
}

#[derive(Debug)]
struct Entry {
    shared: Arc<SharedTrie>,
    tenant: Arc<str>,
    /// A use of it by which it is listed: the last one, or an earlier one.
    listed: u64,
}

/// The namespaces of one tenant.
#[derive(Debug, Default)]
struct Names {
    count: usize,
    by_use: BTreeMap<u64, Arc<str>>,
}

impl Roster {
    pub(super) fn get(&self, name: &str) -> Option<&Arc<SharedTrie>> {
        self.entries.get(name).map(|entry| &entry.shared)
    }

    pub(super) fn len(&self) -> usize {
        self.entries.len()
    }

    /// In no particular order.
    pub(super) fn tries(&self) -> impl Iterator<Item = &Arc<SharedTrie>> {
        self.entries.values().map(|entry| &entry.shared)
    }

    /// Adds a namespace of `tenant`, whose name is not taken.
    pub(super) fn insert(&mut self, name: &str, tenant: &str, shared: Arc<SharedTrie>) {
        let (name, tenant) = (Arc::<str>::from(name), Arc::<str>::from(tenant));
        let listed = shared.last_used();
        self.change(&tenant, |names| {
            names.count += 1;
            names.by_use.insert(listed, Arc::clone(&name));
        });
        let entry = Entry {
            shared,
            tenant,
            listed,
        };
        self.entries.insert(name, entry);
    }

    pub(super) fn remove(&mut self, name: &str) -> Option<Arc<SharedTrie>> {
        let entry = self.entries.remove(name)?;
        self.change(&entry.tenant, |names| {
            names.count -= 1;
            names.by_use.remove(&entry.listed);
        });
        Some(entry.shared)
    }

    /// Counts a namespace among those of `tenant`, and says whether that is news.
    pub(super) fn move_to(&mut self, name: &str, tenant: &str) -> bool {
        let is_news = |entry: &Entry| *entry.tenant != *tenant;
        if !self.entries.get(name).is_some_and(is_news) {
            return false;
        }
        if let Some(shared) = self.remove(name) {
            self.insert(name, tenant, shared);
        }
        true
    }

    /// Which namespace makes room for another one of `tenant`: of the tenants that would have most,
    /// the one idle longest, preferably one that no request holds. Those that requests hold and that are
    /// idle for longer are passed by one by one.
    pub(super) fn next_out(&mut self, tenant: &str) -> Option<Arc<str>> {
        let (&(most, _), _) = self.by_count.last_key_value()?;
        let own = self.tenants.get_key_value(tenant);
        let own = own.map(|(tenant, names)| (Arc::clone(tenant), names.count + 1));
        let most = own.as_ref().map_or(most, |&(_, count)| count.max(most));
        let own = own.filter(|&(_, count)| count == most);
        let own = own.as_ref().map(|(tenant, _)| tenant);
        let mut passed: Vec<(Arc<str>, u64)> = Vec::new();
        let mut free = None;
        while let Some((listed, name)) = self.oldest(most, own) {
            let Some(entry) = self.look(&name) else {
                break;
            };
            let (last_used, is_held) = (
                entry.shared.last_used(),
                Arc::strong_count(&entry.shared) > 1,
            );
            if last_used != listed {
                self.list(&name, last_used);
            } else if is_held {
                self.unlist(&name);
                passed.push((name, listed));
            } else {
                free = Some(name);
                break;
            }
        }
        for (name, listed) in &passed {
            self.list(name, *listed);
        }
        free.or_else(|| passed.into_iter().next().map(|(name, _)| name))
    }

    /// The namespace listed as idle longest of the tenants that have `most`, and of `own`.
    fn oldest(&self, most: usize, own: Option<&Arc<str>>) -> Option<(u64, Arc<str>)> {
        let at_most = self.by_count.range((most, 0)..).next();
        let tenants = at_most.map(|(_, tenant)| tenant).into_iter().chain(own);
        let firsts =
            tenants.filter_map(|tenant| self.tenants.get(tenant)?.by_use.first_key_value());
        let oldest = firsts.min_by_key(|&(listed, _)| listed);
        oldest.map(|(&listed, name)| (listed, Arc::clone(name)))
    }

    /// Lists a namespace by another use of it.
    fn list(&mut self, name: &Arc<str>, listed: u64) {
        let Some(entry) = self.entries.get_mut(name) else {
            return;
        };
        let before = std::mem::replace(&mut entry.listed, listed);
        let tenant = Arc::clone(&entry.tenant);
        self.change(&tenant, |names| {
            names.by_use.remove(&before);
            names.by_use.insert(listed, Arc::clone(name));
        });
    }

    /// Takes a namespace off the list of its tenant until it is listed again.
    fn unlist(&mut self, name: &str) {
        if let Some(entry) = self.entries.get(name) {
            let (tenant, listed) = (Arc::clone(&entry.tenant), entry.listed);
            self.change(&tenant, |names| drop(names.by_use.remove(&listed)));
        }
    }

    /// Changes the names of a tenant, and its place among the others.
    fn change(&mut self, tenant: &Arc<str>, change: impl FnOnce(&mut Names)) {
        let names = self.tenants.entry(Arc::clone(tenant)).or_default();
        if let Some((&oldest, _)) = names.by_use.first_key_value() {
            self.by_count.remove(&(names.count, oldest));
        }
        change(names);
        if let Some((&oldest, _)) = names.by_use.first_key_value() {
            let place = (names.count, oldest);
            self.by_count.insert(place, Arc::clone(tenant));
        }
        if names.count == 0 {
            self.tenants.remove(tenant);
        }
    }

    fn look(&self, name: &str) -> Option<&Entry> {
        #[cfg(test)]
        self.looked_at.set(self.looked_at.get() + 1);
        self.entries.get(name)
    }

    /// How often one namespace was looked at.
    #[cfg(test)]
    pub(super) fn looked_at(&self) -> u64 {
        self.looked_at.get()
    }
}
