//! The namespaces of a draft memory, by name.

use std::collections::HashMap;
use std::sync::Arc;

use spectrie_types::DropReason;

use crate::SharedTrie;
use crate::namespaces::draft_memory::{DraftMemory, Held};
use crate::namespaces::shared_trie::tenant_of;

impl DraftMemory {
    /// Returns the trie of a namespace, created empty on first use. Those called `a/b` share what
    /// tenant `a` has of the budget; others are tenants themselves.
    ///
    /// At the maximum number of namespaces, one of the tenant with most is forgotten first: the one
    /// idle longest, preferably one that no request holds. Requests that hold it neither read nor
    /// extend its text any more.
    pub fn namespace(&self, name: &str) -> Arc<SharedTrie> {
        self.namespace_of(None, name)
    }

    /// As [`DraftMemory::namespace`], within the share of `tenant` from now on, if one is given.
    pub fn namespace_of(&self, tenant: Option<&str>, name: &str) -> Arc<SharedTrie> {
        let mut pushed_out = Vec::new();
        let shared = self.find_or_make(tenant, name, &mut pushed_out);
        for idle in pushed_out {
            idle.forget(DropReason::Idle);
        }
        shared
    }

    /// The trie of a namespace, and those that made room for it.
    fn find_or_make(
        &self,
        tenant: Option<&str>,
        name: &str,
        pushed_out: &mut Vec<Arc<SharedTrie>>,
    ) -> Arc<SharedTrie> {
        let mut held = self.held();
        if let Some(shared) = held.namespaces.get(name) {
            shared.touch();
            if let Some(tenant) = tenant {
                shared.set_tenant(tenant);
            }
            return Arc::clone(shared);
        }
        let tenant = tenant.unwrap_or_else(|| tenant_of(name));
        while held.namespaces.len() >= self.config.max_namespaces {
            let Some(idlest) = held.next_out(tenant) else {
                break;
            };
            pushed_out.extend(held.namespaces.remove(&idlest));
        }
        let shared = SharedTrie::new(Arc::clone(&self.pool), name);
        shared.set_tenant(tenant);
        shared.set_corpora(held.corpora_of(name));
        shared.set_bigrams(held.bigrams.clone());
        held.made.retain(|made| made.strong_count() > 0);
        held.made.push(Arc::downgrade(&shared));
        held.namespaces.insert(name.to_owned(), Arc::clone(&shared));
        shared
    }
}

impl Held {
    /// Which namespace makes room for another one of `tenant`.
    fn next_out(&self, tenant: &str) -> Option<String> {
        let mut counts: HashMap<Arc<str>, usize> = HashMap::from([(Arc::from(tenant), 1)]);
        for shared in self.namespaces.values() {
            *counts.entry(shared.tenant()).or_default() += 1;
        }
        let count = |shared: &SharedTrie| counts.get(&shared.tenant()).copied();
        let most = self.namespaces.values().map(|shared| count(shared)).max()?;
        let candidates = self.namespaces.iter();
        let candidates = candidates.filter(|(_, shared)| count(shared) == most);
        candidates
            .min_by_key(|(_, shared)| (Arc::strong_count(shared) > 1, shared.last_used()))
            .map(|(name, _)| name.clone())
    }
}
