//! How much each tenant was served, so that none can crowd the others out.

use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap};
use std::ops::Bound;
use std::sync::Arc;

/// Most tenants without requests whose lead is remembered; the smallest lead is forgotten first.
pub(super) const MAX_REMEMBERED: usize = 4096;

/// The place of a tenant among others: less goes first.
///
/// No option of a request is part of it, so no request can pass those of other tenants.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Place {
    /// What the tenant ranks above others; 0 for everybody.
    rank: Reverse<i32>,
    served: u64,
    /// Its turn among those who were served as much.
    turn: u64,
}

impl Place {
    /// The place once `tokens` more were computed.
    pub(crate) fn after(self, tokens: u64) -> Self {
        Self {
            served: self.served + tokens,
            ..self
        }
    }

    /// What the tenant ranks above others.
    pub(crate) fn rank(self) -> i32 {
        self.rank.0
    }
}

/// Tokens computed for each tenant, in which those who are behind go first.
///
/// Tenants are compared while they compete: while a request of theirs waits to be admitted or for
/// prompt rows. `clock` is what one who always competes has received by now. It moves with what
/// competitors receive, each one's share of it, so it passes everybody's lead in time, however many
/// newcomers there are. Who begins to compete starts at the clock or at what it was served, whichever
/// is more: it saved nothing up, and a lead counts until the clock has passed it. Who is not ahead of
/// the clock is as one never seen, so only those who have requests or a lead are remembered.
///
/// Each change takes the logarithm of the number of tenants remembered.
#[derive(Debug)]
pub(crate) struct FairShare {
    bounds: Bounds,
    clock: u64,
    /// What competitors received and the clock does not show yet.
    carry: u64,
    /// The most that anybody was served.
    most_served: u64,
    num_turns: u64,
    tenants: HashMap<Arc<str>, Tenant>,
    competing: BTreeMap<Place, Arc<str>>,
    /// Tenants without requests that are ahead of the clock.
    ahead: BTreeMap<Place, Arc<str>>,
}

/// How far tenants may be apart, in tokens.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Bounds {
    /// Most that a tenant's lead on the clock counts.
    pub(crate) lead: u64,
    /// Most that the clock, where newcomers start, is ahead of the competitor who was served least.
    pub(crate) lag: u64,
}

#[derive(Debug)]
struct Tenant {
    place: Place,
    /// Requests that have not ended.
    num_held: usize,
    /// Those of them that wait to be admitted or for prompt rows.
    num_competing: usize,
}

impl FairShare {
    /// Nobody was served yet.
    pub(crate) fn new(bounds: Bounds) -> Self {
        Self {
            bounds,
            clock: 0,
            carry: 0,
            most_served: 0,
            num_turns: 0,
            tenants: HashMap::new(),
            competing: BTreeMap::new(),
            ahead: BTreeMap::new(),
        }
    }

    /// A request of `tenant` came in; it competes.
    pub(crate) fn enter(&mut self, tenant: &Arc<str>) {
        if let Some(one) = self.tenants.get_mut(tenant) {
            if one.num_held == 0 {
                self.ahead.remove(&one.place);
            }
            one.num_held += 1;
        } else {
            let place = Place {
                rank: Reverse(0),
                served: 0,
                turn: 0,
            };
            let one = Tenant {
                place,
                num_held: 1,
                num_competing: 0,
            };
            self.tenants.insert(Arc::clone(tenant), one);
        }
        self.compete(tenant);
    }

    /// A request of `tenant` that had all its prompt rows needs some again.
    pub(crate) fn compete(&mut self, tenant: &Arc<str>) {
        if self.competing.is_empty() {
            // What tenants got while nobody wanted it is no lead.
            self.move_clock(self.most_served);
        }
        let Some(one) = self.tenants.get_mut(tenant) else {
            return;
        };
        one.num_competing += 1;
        if one.num_competing == 1 {
            self.num_turns += 1;
            one.place.turn = self.num_turns;
            one.place.served = one.place.served.max(self.clock);
            self.competing.insert(one.place, Arc::clone(tenant));
        }
    }

    /// A request of `tenant` has all its prompt rows.
    pub(crate) fn rest(&mut self, tenant: &str) {
        let Some(one) = self.tenants.get_mut(tenant) else {
            return;
        };
        one.num_competing -= 1;
        if one.num_competing == 0 {
            self.competing.remove(&one.place);
            self.move_clock(self.clock);
        }
    }

    /// A request of `tenant` that does not compete ended.
    pub(crate) fn leave(&mut self, tenant: &str) {
        let Some((name, _)) = self.tenants.get_key_value(tenant) else {
            return;
        };
        let name = Arc::clone(name);
        let Some(one) = self.tenants.get_mut(tenant) else {
            return;
        };
        one.num_held -= 1;
        if one.num_held > 0 {
            return;
        }
        if one.place.served <= self.clock {
            self.tenants.remove(tenant);
            return;
        }
        self.ahead.insert(one.place, name);
        if self.ahead.len() > MAX_REMEMBERED {
            self.forget_least();
        }
    }

    /// `tokens` were computed for `tenant`.
    pub(crate) fn charge(&mut self, tenant: &str, tokens: usize) {
        let Some(one) = self.tenants.get_mut(tenant) else {
            return;
        };
        let (before, tokens) = (one.place, tokens as u64);
        let most = before.served.max(self.clock + self.bounds.lead);
        one.place.served = most.min(before.served + tokens);
        let place = one.place;
        self.most_served = self.most_served.max(place.served);
        if let Some(name) = self.competing.remove(&before) {
            self.competing.insert(place, name);
            let num_competing = self.competing.len() as u64;
            self.carry += tokens;
            let share = self.carry / num_competing;
            self.carry %= num_competing;
            self.move_clock(self.clock + share);
        }
    }

    /// The tenants that compete, those who are behind first.
    pub(crate) fn in_order(&self) -> impl Iterator<Item = (Place, &Arc<str>)> {
        self.competing.iter().map(|(&place, name)| (place, name))
    }

    /// The same, from the first one behind `last` on and around to it.
    pub(crate) fn in_order_after(
        &self,
        last: Option<Place>,
    ) -> impl Iterator<Item = (Place, &Arc<str>)> {
        let behind = last.map_or(Bound::Unbounded, Bound::Excluded);
        let before = last.map(|last| self.competing.range(..=last));
        let around = before.into_iter().flatten();
        let all = self
            .competing
            .range((behind, Bound::Unbounded))
            .chain(around);
        all.map(|(&place, name)| (place, name))
    }

    /// The place of a tenant that competes.
    pub(crate) fn place(&self, tenant: &str) -> Option<Place> {
        self.tenants.get(tenant).map(|one| one.place)
    }

    /// Moves the clock on towards `wanted`, as far as those who are behind allow, and at least to the
    /// first of them; forgets who is not ahead any more.
    fn move_clock(&mut self, wanted: u64) {
        let least = self.competing.first_key_value().map(|(one, _)| one.served);
        let wanted = least.map_or(wanted, |least| {
            wanted.min(least + self.bounds.lag).max(least)
        });
        self.clock = self.clock.max(wanted);
        while self
            .ahead
            .first_key_value()
            .is_some_and(|(one, _)| one.served <= self.clock)
        {
            self.forget_least();
        }
    }

    /// Forgets the least lead.
    fn forget_least(&mut self) {
        if let Some((_, name)) = self.ahead.pop_first() {
            self.tenants.remove(&name);
        }
    }
}

#[cfg(test)]
impl FairShare {
    /// Tenants remembered.
    pub(crate) fn len(&self) -> usize {
        self.tenants.len()
    }

    pub(crate) fn served(&self, tenant: &str) -> Option<u64> {
        self.tenants.get(tenant).map(|one| one.place.served)
    }

    /// What one who always competes has received.
    pub(crate) fn clock(&self) -> u64 {
        self.clock
    }
}
