//! The namespaces of a draft memory, by name.

use std::sync::Arc;

use spectrie_types::DropReason;

use crate::SharedTrie;
use crate::namespaces::draft_memory::DraftMemory;
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
        if let Some(shared) = held.namespaces.get(name).map(Arc::clone) {
            shared.touch();
            if let Some(tenant) = tenant
                && held.namespaces.move_to(name, tenant)
            {
                shared.move_to(tenant);
            }
            return shared;
        }
        let tenant = tenant.unwrap_or_else(|| tenant_of(name));
        while held.namespaces.len() >= self.config.max_namespaces {
            let Some(idlest) = held.namespaces.next_out(tenant) else {
                break;
            };
            pushed_out.extend(held.namespaces.remove(&idlest));
        }
        let shared = SharedTrie::new(Arc::clone(&self.pool), name, tenant);
        shared.set_corpora(held.corpora_of(name));
        shared.set_bigrams(held.bigrams.clone());
        held.note_made(&shared);
        held.namespaces.insert(name, tenant, Arc::clone(&shared));
        shared
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::MemoryConfig;
    use crate::store::grant::Room;

    const ROUNDS: u64 = 200;

    /// A block with its tables asks the budget some thirty times.
    const MOST_LOOKS: u64 = 64 * ROUNDS;

    /// A memory at its maximum of `count` namespaces; each `per_tenant` of them are one tenant's.
    fn full(count: usize, per_tenant: usize) -> DraftMemory {
        let memory = DraftMemory::new(MemoryConfig {
            capacity_bytes: 1 << 30,
            max_namespaces: count,
        });
        let memory = memory.unwrap();
        for number in 0..count {
            let tenant = (number / per_tenant).to_string();
            memory.namespace_of(Some(&tenant), &number.to_string());
        }
        memory
    }

    fn looked_at(memory: &DraftMemory) -> u64 {
        memory.held().namespaces.looked_at() + memory.pool.looked_at()
    }

    /// How often one namespace is looked at while requests of known and new tenants begin, end and
    /// ask for room.
    fn looks(count: usize, per_tenant: usize) -> u64 {
        let memory = full(count, per_tenant);
        let before = looked_at(&memory);
        for round in 0..ROUNDS {
            let known = memory.namespace_of(None, &(count - 1).to_string());
            let _grant = known.ask(64).unwrap();
            let new = memory.namespace_of(Some("new"), &format!("new {round}"));
            let _other = new.ask(64).unwrap();
            new.insert(&[1, 2, 3]);
        }
        assert_eq!(memory.num_namespaces(), count);
        looked_at(&memory) - before
    }

    #[test]
    fn a_request_looks_at_as_few_of_many_namespaces_as_of_a_few() {
        let tenants = [
            (100, 1),
            (10_000, 1),
            (100, 10),
            (10_000, 10),
            (10_000, 10_000),
        ];
        for (count, per_tenant) in tenants {
            let looks = looks(count, per_tenant);
            assert!(looks <= MOST_LOOKS, "{looks} with {count} by {per_tenant}");
        }
    }

    #[test]
    fn namespaces_that_nobody_holds_leave_nothing_behind() {
        let memory = full(10, 2);
        assert_eq!(memory.pool.sizes(), [10, 5, 10]);
        let held = memory.namespace("9");
        for number in 0..10 {
            memory.forget(&number.to_string()).unwrap();
        }
        assert_eq!(memory.pool.sizes(), [1, 1, 1], "a request has a share");
        drop(held);
        assert_eq!(memory.pool.sizes(), [0, 0, 0]);
    }

    #[test]
    fn few_places_of_tries_that_are_gone_are_kept() {
        let memory = full(10, 1);
        for number in 0..1_000 {
            memory.namespace(&format!("new {number}"));
        }
        assert!(memory.held().num_made() <= 32);
    }
}
