//! The records that are kept, within a time and a number of bytes.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::time::{Duration, Instant};

use super::record::Record;
use super::resume_token::ResumeToken;

/// A tenant, none when everyone may call, and an id that it chose.
type Name = (Option<String>, String);

/// A record that was taken out, and may go back as it was.
#[derive(Debug)]
pub(crate) struct Taken {
    pub(crate) record: Record,
    /// Its place among all, the oldest first.
    age: u64,
    until: Instant,
}

#[derive(Debug)]
struct Kept {
    record: Record,
    num_bytes: usize,
    age: u64,
    until: Instant,
}

/// The order in which a tenant's records make room: those that only repeat what their clients most
/// probably have, then those that were cut, each the oldest first.
type Turn = (bool, u64);

impl Kept {
    fn turn(&self) -> Turn {
        (!self.record.has_ended(), self.age)
    }
}

#[derive(Debug, Default)]
struct Holder {
    num_bytes: usize,
    turns: BTreeSet<Turn>,
}

/// Records of all tenants.
///
/// Where they hold too many bytes, the tenant that holds most loses its oldest, first of those that
/// have ended: whoever holds no more than an equal part of the room loses nothing to others.
#[derive(Debug)]
pub(crate) struct Records {
    window: Duration,
    limit: usize,
    kept: HashMap<Name, Kept>,
    by_age: BTreeMap<u64, Name>,
    holders: HashMap<Option<String>, Holder>,
    /// Tenants by the bytes that they hold.
    by_size: BTreeSet<(usize, Option<String>)>,
    num_bytes: usize,
    next_age: u64,
}

impl Records {
    /// Keeps each for `window`, and up to `limit` bytes together.
    pub(crate) fn new(window: Duration, limit: usize) -> Self {
        Self {
            window,
            limit,
            kept: HashMap::new(),
            by_age: BTreeMap::new(),
            holders: HashMap::new(),
            by_size: BTreeSet::new(),
            num_bytes: 0,
            next_age: 0,
        }
    }

    /// Whether anything is ever kept.
    pub(crate) fn is_on(&self) -> bool {
        !self.window.is_zero() && self.limit > 0
    }

    /// How many there are.
    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        self.kept.len()
    }

    /// Keeps a record, in the place of one of the same name.
    pub(crate) fn keep(&mut self, record: Record, now: Instant) {
        let taken = self.taken(record, now);
        self.put_back(taken, now);
    }

    /// A record that comes from elsewhere, as if it had been kept here until now.
    pub(crate) fn taken(&mut self, record: Record, now: Instant) -> Taken {
        let age = self.next_age;
        self.next_age += 1;
        let until = now + self.window;
        Taken { record, age, until }
    }

    /// Keeps what was taken out for as long as it was to be kept.
    pub(crate) fn put_back(&mut self, taken: Taken, now: Instant) {
        let Taken { record, age, until } = taken;
        let name = (record.tenant.clone(), record.id().to_owned());
        self.remove(&name);
        self.expire(now);
        let num_bytes = record.num_bytes();
        if !self.is_on() || num_bytes > self.limit {
            return;
        }
        let kept = Kept {
            record,
            num_bytes,
            age,
            until,
        };
        self.resize(name.0.as_ref(), |holder| {
            holder.num_bytes += num_bytes;
            holder.turns.insert(kept.turn());
        });
        self.num_bytes += num_bytes;
        self.by_age.insert(age, name.clone());
        self.kept.insert(name, kept);
        while self.num_bytes > self.limit && self.evict() {}
    }

    /// Takes out the record of this name, if it is its client that asks.
    pub(crate) fn take(
        &mut self,
        tenant: Option<&str>,
        id: &str,
        token: &ResumeToken,
        now: Instant,
    ) -> Option<Taken> {
        self.expire(now);
        let name = (tenant.map(str::to_owned), id.to_owned());
        let kept = self.kept.get(&name)?;
        if !kept.record.token.is(token) {
            return None;
        }
        let Kept {
            record, age, until, ..
        } = self.remove(&name)?;
        Some(Taken { record, age, until })
    }

    /// The record of this name.
    pub(crate) fn find(&self, tenant: Option<&str>, id: &str) -> Option<&Record> {
        let name = (tenant.map(str::to_owned), id.to_owned());
        self.kept.get(&name).map(|kept| &kept.record)
    }

    /// Drops the record of this name; whether there was one.
    pub(crate) fn drop_one(&mut self, tenant: Option<&str>, id: &str) -> bool {
        let name = (tenant.map(str::to_owned), id.to_owned());
        self.remove(&name).is_some()
    }

    /// Drops all of a namespace.
    pub(crate) fn forget(&mut self, namespace: &str) {
        let of_it = |kept: &&Kept| kept.record.request.namespace == namespace;
        let names = self.kept.values().filter(of_it).map(|kept| kept.age);
        for age in names.collect::<Vec<_>>() {
            self.remove_at(age);
        }
    }

    /// Whose records they are and how they are named, of those with such an id.
    pub(crate) fn names(&self, is_meant: impl Fn(&str) -> bool) -> Vec<Name> {
        let names = self.kept.keys().filter(|(_, name)| is_meant(name));
        names.cloned().collect()
    }

    /// Drops those whose time is over.
    pub(crate) fn expire(&mut self, now: Instant) {
        while let Some((&age, name)) = self.by_age.first_key_value() {
            if self.kept.get(name).is_some_and(|kept| kept.until > now) {
                return;
            }
            self.remove_at(age);
        }
    }

    /// Drops the record of the tenant that holds most whose turn it is; false when there is none.
    fn evict(&mut self) -> bool {
        let Some((_, tenant)) = self.by_size.last() else {
            return false;
        };
        let holder = self.holders.get(tenant);
        let next = holder.and_then(|holder| holder.turns.first());
        let Some(&(_, age)) = next else { return false };
        self.remove_at(age);
        true
    }

    fn remove_at(&mut self, age: u64) {
        match self.by_age.get(&age).cloned() {
            Some(name) => drop(self.remove(&name)),
            None => debug_assert!(false, "no record of age {age}"),
        }
        self.by_age.remove(&age);
    }

    fn remove(&mut self, name: &Name) -> Option<Kept> {
        let kept = self.kept.remove(name)?;
        self.by_age.remove(&kept.age);
        self.num_bytes -= kept.num_bytes;
        self.resize(name.0.as_ref(), |holder| {
            holder.num_bytes -= kept.num_bytes;
            holder.turns.remove(&kept.turn());
        });
        Some(kept)
    }

    /// Changes what a tenant holds.
    fn resize(&mut self, tenant: Option<&String>, change: impl FnOnce(&mut Holder)) {
        let tenant = tenant.cloned();
        let holder = self.holders.entry(tenant.clone()).or_default();
        self.by_size.remove(&(holder.num_bytes, tenant.clone()));
        change(holder);
        if holder.turns.is_empty() {
            self.holders.remove(&tenant);
        } else {
            self.by_size.insert((holder.num_bytes, tenant));
        }
    }
}

#[cfg(test)]
pub(super) mod tests;
