//! How much each tenant was served, so that none can crowd the others out.

use std::collections::HashMap;
use std::sync::Arc;

/// Tokens computed for each tenant: virtual time, in which those who are behind go first.
///
/// A tenant that comes back after a pause starts level with the one that is furthest behind: it
/// saved nothing up, and what it had ahead of others is not forgiven either.
#[derive(Debug, Default)]
pub(crate) struct FairShare {
    tenants: HashMap<Arc<str>, Tenant>,
}

#[derive(Debug, Default)]
struct Tenant {
    num_served: u64,
    /// Requests that have not ended.
    num_held: usize,
}

impl FairShare {
    /// A request of `tenant` came in.
    pub(crate) fn enter(&mut self, tenant: &Arc<str>) {
        let least = self.least_served();
        let entry = self.tenants.entry(Arc::clone(tenant)).or_default();
        if entry.num_held == 0 {
            entry.num_served = entry.num_served.max(least);
        }
        entry.num_held += 1;
    }

    /// A request of `tenant` ended.
    pub(crate) fn leave(&mut self, tenant: &str) {
        if let Some(entry) = self.tenants.get_mut(tenant) {
            entry.num_held -= 1;
        }
        // Who is not ahead of the others would start as one never seen.
        let is_empty = self.tenants.values().all(|one| one.num_held == 0);
        let least = self.least_served();
        self.tenants
            .retain(|_, one| one.num_held > 0 || (!is_empty && one.num_served > least));
    }

    /// `tokens` were computed for `tenant`.
    pub(crate) fn charge(&mut self, tenant: &str, tokens: usize) {
        if let Some(entry) = self.tenants.get_mut(tenant) {
            entry.num_served += tokens as u64;
        }
    }

    /// What was computed for `tenant`.
    pub(crate) fn served(&self, tenant: &str) -> u64 {
        self.tenants.get(tenant).map_or(0, |one| one.num_served)
    }

    /// Of those who have requests, the least that one was served.
    fn least_served(&self) -> u64 {
        let active = self.tenants.values().filter(|one| one.num_held > 0);
        active.map(|one| one.num_served).min().unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(name: &str) -> Arc<str> {
        Arc::from(name)
    }

    #[test]
    fn a_newcomer_starts_level_with_the_one_furthest_behind() {
        let mut share = FairShare::default();
        share.enter(&name("a"));
        share.enter(&name("b"));
        share.charge("a", 100);
        share.charge("b", 40);
        share.enter(&name("c"));
        assert_eq!(share.served("c"), 40);
        share.enter(&name("a"));
        assert_eq!(share.served("a"), 100);
    }

    #[test]
    fn what_one_was_ahead_is_remembered_while_others_stay() {
        let mut share = FairShare::default();
        share.enter(&name("a"));
        share.enter(&name("b"));
        share.charge("a", 100);
        share.leave("a");
        share.enter(&name("a"));
        assert_eq!(share.served("a"), 100);
        share.leave("a");
        share.charge("b", 300);
        share.leave("b");
        assert!(share.tenants.is_empty());
        share.enter(&name("a"));
        assert_eq!(share.served("a"), 0);
    }

    #[test]
    fn tenants_that_saved_nothing_up_are_dropped() {
        let mut share = FairShare::default();
        share.enter(&name("a"));
        share.charge("a", 9);
        for index in 0..50 {
            let tenant = name(&index.to_string());
            share.enter(&tenant);
            share.leave(&tenant);
        }
        assert_eq!(share.tenants.len(), 1);
    }
}
