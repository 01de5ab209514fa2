//! Who holds how much of something bounded, and whether somebody may have more of it.
//!
//! A tenant alone may have everything. Beside others it gets no more than an equal part, but for
//! what would lie idle; and whoever asks for no more than an equal part gets it, whatever the others
//! took before. What `k` tenants hold together is therefore at most `limit / 1 + limit / 2 + … +
//! limit / k`: the `j`-th largest holding is an equal part among `j` at most, since its last piece
//! was given when at least `j` tenants held or asked, or out of what lay idle. A tenant that holds
//! nothing gets one piece of any size, which adds at most that piece; and no more tenants hold
//! something at once than [`Standing::most_tenants`] says, so `k` is bounded too.

use std::collections::HashMap;
use std::sync::Arc;

/// What each tenant holds.
#[derive(Clone, Debug, Default)]
pub struct Holdings {
    by_tenant: HashMap<Arc<str>, usize>,
    total: usize,
}

impl Holdings {
    /// What all hold together.
    pub fn total(&self) -> usize {
        self.total
    }

    /// What one tenant holds.
    pub fn of(&self, tenant: &str) -> usize {
        self.by_tenant.get(tenant).copied().unwrap_or(0)
    }

    /// The tenants that hold something.
    pub fn tenants(&self) -> impl Iterator<Item = &Arc<str>> {
        self.by_tenant.keys()
    }

    /// Gives a tenant `amount` more; gives its name back, to be kept with what it is for.
    pub fn add(&mut self, tenant: &str, amount: usize) -> Arc<str> {
        let known = self.by_tenant.get_key_value(tenant);
        let name = known.map_or_else(|| tenant.into(), |(name, _)| Arc::clone(name));
        if amount > 0 {
            *self.by_tenant.entry(Arc::clone(&name)).or_default() += amount;
            self.total += amount;
        }
        name
    }

    /// Takes `amount` back from a tenant, which holds as much.
    pub fn take(&mut self, tenant: &str, amount: usize) {
        let Some(held) = self.by_tenant.get_mut(tenant) else {
            return;
        };
        let taken = amount.min(*held);
        *held -= taken;
        self.total -= taken;
        if *held == 0 {
            self.by_tenant.remove(tenant);
        }
    }

    /// How a tenant stands among those who hold something.
    pub fn standing(&self, tenant: &str) -> Standing {
        let own = self.of(tenant);
        Standing {
            own,
            total: self.total,
            num_tenants: self.by_tenant.len() + usize::from(own == 0),
        }
    }
}

/// Tenants that may hold something at once, however little there is.
const LEAST_TENANTS: usize = 64;

/// How somebody who asks for more stands among the others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Standing {
    /// What it holds.
    pub own: usize,
    /// What all hold together.
    pub total: usize,
    /// Tenants that hold something, and the one that asks.
    pub num_tenants: usize,
}

impl Standing {
    /// An equal part of `limit`, at least 1.
    pub fn share(self, limit: usize) -> usize {
        (limit / self.num_tenants.max(1)).max(1)
    }

    /// Tenants that may hold something of `limit` at once: as many as there are pieces of it, or 64
    /// of less.
    pub fn most_tenants(limit: usize) -> usize {
        limit.max(LEAST_TENANTS)
    }

    /// By how much `asked` more are too many: 0 when they are granted. Up to `idle` of the `limit`
    /// lie idle where nobody takes them, so everyone may have them. Who holds nothing is granted them
    /// unless too many tenants hold something; then it waits for one of them: 1.
    pub fn excess(self, asked: usize, limit: usize, idle: usize) -> usize {
        if self.total + asked <= idle {
            return 0;
        }
        if self.own == 0 {
            return usize::from(self.num_tenants > Self::most_tenants(limit));
        }
        (self.own + asked).saturating_sub(self.share(limit))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Asks for one tenant and grants what the rule grants.
    fn ask(holdings: &mut Holdings, tenant: &str, asked: usize) -> bool {
        let granted = holdings.standing(tenant).excess(asked, 40, 8) == 0;
        if granted {
            holdings.add(tenant, asked);
        }
        granted
    }

    #[test]
    fn tenant_alone_may_have_everything_and_keeps_no_other_out() {
        let mut holdings = Holdings::default();
        assert!((0..40).all(|_| ask(&mut holdings, "a", 1)));
        assert!(!ask(&mut holdings, "a", 1));
        assert!((0..20).all(|_| ask(&mut holdings, "b", 1)));
        assert!(!ask(&mut holdings, "b", 1) && !ask(&mut holdings, "a", 1));
        holdings.take("a", 20);
        assert!(!ask(&mut holdings, "a", 1), "no new place above its share");
        holdings.take("a", 1);
        assert!(ask(&mut holdings, "a", 1));
        holdings.take("b", 20);
        assert_eq!(holdings.tenants().count(), 1);
        assert!(ask(&mut holdings, "a", 20), "alone again");
    }

    #[test]
    fn what_lies_idle_is_anyones() {
        let mut holdings = Holdings::default();
        for tenant in 0..20 {
            holdings.add(&tenant.to_string(), 0);
            assert!(ask(&mut holdings, &tenant.to_string(), 1));
        }
        // A part of 20 is 2 places; 8 run at once, and 20 are in flight.
        assert!(ask(&mut holdings, "0", 1) && !ask(&mut holdings, "0", 1));
        for tenant in 1..20 {
            holdings.take(&tenant.to_string(), 1);
        }
        holdings.add("1", 1);
        assert!(ask(&mut holdings, "0", 5), "up to what runs at once");
    }

    #[test]
    fn tenants_beyond_the_most_that_may_hold_something_wait_for_one_to_end() {
        let mut holdings = Holdings::default();
        for tenant in 0..64 {
            assert!(ask(&mut holdings, &tenant.to_string(), 1));
        }
        assert!(!ask(&mut holdings, "more", 1));
        holdings.take("7", 1);
        assert!(ask(&mut holdings, "more", 1) && !ask(&mut holdings, "7", 1));
        assert_eq!(holdings.total(), 64);
        let standing = holdings.standing("another");
        assert_eq!(standing.excess(1, 65, 0), 0, "a larger limit has more");
    }

    #[test]
    fn one_piece_is_granted_to_whoever_holds_nothing() {
        let mut holdings = Holdings::default();
        assert!(ask(&mut holdings, "a", 64) && ask(&mut holdings, "b", 64));
        assert!(!ask(&mut holdings, "a", 1));
    }
}
