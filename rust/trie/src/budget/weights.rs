//! How much of the budget each live namespace weighs, kept up as namespaces come, are used and go.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

/// The weight of a namespace in use. One that is idle has half of it for each time that the
/// others were given as many bytes as the budget has, down to 1.
pub(super) const FULL_WEIGHT: u64 = 64;

/// Halvings that leave a weight of 1.
const MOST_HALVINGS: usize = FULL_WEIGHT.ilog2() as usize;

/// A namespace among those that have weights; no number is used again.
pub(crate) type MemberId = u64;

/// What is known of a namespace at one moment.
#[derive(Clone, Debug)]
pub(super) struct Standing {
    /// Whose it is: the namespaces of one tenant have one share together.
    pub(super) tenant: Arc<str>,
    /// Bytes given out, to anybody else, since its last use.
    pub(super) idle_bytes: u64,
    /// Grows with each use of any namespace.
    pub(super) last_used: u64,
}

/// The weights of all live namespaces and of their tenants. A change costs the logarithm of the
/// number of namespaces; beside it, each use of one pays for the halvings that follow it.
#[derive(Debug)]
pub(super) struct Weights {
    budget_bytes: u64,
    /// Bytes given out, to any namespace.
    given_bytes: u64,
    num_uses: u64,
    num_joined: MemberId,
    members: HashMap<MemberId, Member>,
    tenants: HashMap<Arc<str>, Weighed>,
    /// Of all tenants.
    total: u64,
    /// Which weights halve next: the count of given bytes at which they do.
    due: BTreeSet<(u64, MemberId)>,
    #[cfg(test)]
    looked_at: std::cell::Cell<u64>,
}

#[derive(Debug)]
struct Member {
    tenant: Arc<str>,
    last_used: u64,
    /// Bytes given out before its last use, to any namespace, and since then to this one.
    since_bytes: u64,
    halvings: usize,
}

/// The namespaces of one tenant, by how often their weights halved.
#[derive(Debug, Default)]
struct Weighed([u64; MOST_HALVINGS + 1]);

impl Weighed {
    /// That of its namespace used last: more of them weigh no more.
    fn weight(&self) -> u64 {
        let newest = self.0.iter().position(|&count| count > 0);
        newest.map_or(0, |halvings| FULL_WEIGHT >> halvings)
    }

    /// The sum of the weights of its namespaces, by which they divide its share.
    fn parts(&self) -> u64 {
        let weights = (0..).map(|halvings| FULL_WEIGHT >> halvings);
        self.0
            .iter()
            .zip(weights)
            .map(|(&n, weight)| n * weight)
            .sum()
    }
}

impl Weights {
    /// For namespaces that have `budget_bytes` together.
    pub(super) fn new(budget_bytes: usize) -> Self {
        Self {
            budget_bytes: budget_bytes as u64,
            given_bytes: 0,
            num_uses: 0,
            num_joined: 0,
            members: HashMap::new(),
            tenants: HashMap::new(),
            total: 0,
            due: BTreeSet::new(),
            #[cfg(test)]
            looked_at: std::cell::Cell::default(),
        }
    }

    /// Adds a namespace of `tenant`, used now.
    pub(super) fn join(&mut self, tenant: &str) -> MemberId {
        let id = self.num_joined;
        self.num_joined += 1;
        self.num_uses += 1;
        let member = Member {
            tenant: Arc::from(tenant),
            last_used: self.num_uses,
            since_bytes: self.given_bytes,
            halvings: 0,
        };
        self.add(id, member);
        id
    }

    /// Removes a namespace.
    pub(super) fn leave(&mut self, id: MemberId) {
        self.take(id);
    }

    /// Notes a use of a namespace.
    pub(super) fn touch(&mut self, id: MemberId) {
        if let Some(mut member) = self.take(id) {
            self.num_uses += 1;
            member.last_used = self.num_uses;
            member.since_bytes = self.given_bytes;
            self.add(id, member);
        }
    }

    /// Puts a namespace within another tenant's share.
    pub(super) fn move_to(&mut self, id: MemberId, tenant: &str) {
        if let Some(mut member) = self.take(id) {
            member.tenant = Arc::from(tenant);
            self.add(id, member);
        }
    }

    /// Notes that a namespace was given `bytes`, which makes all others idle for longer.
    pub(super) fn give(&mut self, id: MemberId, bytes: usize) {
        let receiver = self.take(id);
        self.given_bytes += bytes as u64;
        if let Some(mut member) = receiver {
            member.since_bytes += bytes as u64;
            self.add(id, member);
        }
        while let Some(&(at, next)) = self.due.first()
            && at <= self.given_bytes
        {
            self.due.pop_first();
            if let Some(member) = self.take(next) {
                self.add(next, member);
            }
        }
    }

    /// Bytes that nobody takes from a namespace.
    pub(super) fn share(&self, id: MemberId) -> usize {
        let Some(member) = self.look(id) else {
            return 0;
        };
        let tenant = self.tenants.get(&member.tenant);
        let (of_tenant, parts) = tenant.map_or((0, 0), |one| (one.weight(), one.parts()));
        let weight = FULL_WEIGHT >> member.halvings;
        part_of(self.budget_bytes, of_tenant, weight, parts, self.total)
    }

    pub(super) fn last_used(&self, id: MemberId) -> u64 {
        self.look(id).map_or(0, |member| member.last_used)
    }

    pub(super) fn standing(&self, id: MemberId) -> Option<Standing> {
        let member = self.look(id)?;
        Some(Standing {
            tenant: Arc::clone(&member.tenant),
            idle_bytes: self.given_bytes - member.since_bytes,
            last_used: member.last_used,
        })
    }

    /// Adds one whose weight follows from when it was used.
    fn add(&mut self, id: MemberId, mut member: Member) {
        let idle_bytes = self.given_bytes - member.since_bytes;
        member.halvings = halvings(idle_bytes, self.budget_bytes);
        self.weigh(&member.tenant, |weighed| weighed.0[member.halvings] += 1);
        self.due.extend(self.due_at(&member).map(|at| (at, id)));
        self.members.insert(id, member);
    }

    fn take(&mut self, id: MemberId) -> Option<Member> {
        self.look(id)?;
        let member = self.members.remove(&id)?;
        if let Some(at) = self.due_at(&member) {
            self.due.remove(&(at, id));
        }
        self.weigh(&member.tenant, |weighed| weighed.0[member.halvings] -= 1);
        Some(member)
    }

    /// The count of given bytes at which its weight halves, if it does.
    fn due_at(&self, member: &Member) -> Option<u64> {
        let times = (member.halvings < MOST_HALVINGS).then_some(member.halvings as u64 + 1)?;
        Some(member.since_bytes + times * self.budget_bytes.max(1))
    }

    /// Changes what a tenant has, and the sum over all.
    fn weigh(&mut self, tenant: &Arc<str>, change: impl FnOnce(&mut Weighed)) {
        let weighed = self.tenants.entry(Arc::clone(tenant)).or_default();
        let before = weighed.weight();
        change(weighed);
        let after = weighed.weight();
        self.total = self.total + after - before;
        if after == 0 {
            self.tenants.remove(tenant);
        }
    }

    fn look(&self, id: MemberId) -> Option<&Member> {
        #[cfg(test)]
        self.looked_at.set(self.looked_at.get() + 1);
        self.members.get(&id)
    }

    /// How often one namespace was looked at.
    #[cfg(test)]
    pub(super) fn looked_at(&self) -> u64 {
        self.looked_at.get()
    }

    /// How many namespaces, tenants and halvings to come are held.
    #[cfg(test)]
    pub(super) fn sizes(&self) -> [usize; 3] {
        [self.members.len(), self.tenants.len(), self.due.len()]
    }
}

/// How often the weight of one that is idle for `idle_bytes` halved.
fn halvings(idle_bytes: u64, budget_bytes: u64) -> usize {
    (idle_bytes / budget_bytes.max(1)).min(MOST_HALVINGS as u64) as usize
}

/// The weight of one that is idle for `idle_bytes`.
pub(super) fn weight(idle_bytes: u64, budget_bytes: u64) -> u64 {
    FULL_WEIGHT >> halvings(idle_bytes, budget_bytes)
}

/// Bytes of a namespace that has `weight` of the `parts` of its tenant, which has `of_tenant` of the
/// `total` of all.
pub(super) fn part_of(
    budget_bytes: u64,
    of_tenant: u64,
    weight: u64,
    parts: u64,
    total: u64,
) -> usize {
    let scaled = u128::from(budget_bytes) * u128::from(of_tenant);
    (scaled * u128::from(weight) / u128::from(parts.max(1)) / u128::from(total.max(1))) as usize
}
