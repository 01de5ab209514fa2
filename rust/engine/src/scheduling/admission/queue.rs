//! Waiting requests, by tenant, each tenant's in one line per priority.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::sync::Arc;

use crate::request_key::RequestKey;
use crate::scheduling::priority::{Claim, clamped};
use crate::sequence::Sequence;

#[derive(Debug, Default)]
struct Line {
    /// By when they are due, then by arrival.
    members: BTreeSet<(i64, RequestKey)>,
    /// When one of them last left to run.
    left_s: f64,
}

/// Who is not considered any more in this step.
#[derive(Debug, Default)]
pub(crate) struct Skipped {
    /// Those that wait for the prompt another one computes.
    pub(crate) requests: HashSet<RequestKey>,
    /// Those whose first request does not fit.
    pub(crate) tenants: HashSet<Arc<str>>,
}

impl Skipped {
    pub(crate) fn len(&self) -> usize {
        self.requests.len() + self.tenants.len()
    }
}

/// Requests that hold no pages.
#[derive(Debug, Default)]
pub(crate) struct Queue {
    sequences: BTreeMap<RequestKey, Box<Sequence>>,
    /// The lines of a tenant, by priority.
    lines: HashMap<Arc<str>, BTreeMap<i32, Line>>,
    /// Those with a deadline, by when they are due.
    deadlines: BTreeSet<(i64, RequestKey)>,
    bytes: usize,
}

impl Queue {
    /// Bytes of the token ids of those that wait.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    pub(crate) fn len(&self) -> usize {
        self.sequences.len()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.sequences.is_empty()
    }

    /// Those whose deadline is over, to the microsecond, the earliest first. No others are looked at.
    pub(crate) fn due(&self, now_s: f64) -> impl Iterator<Item = (RequestKey, &Sequence)> {
        let now_us = (now_s * 1e6) as i64;
        let due = self.deadlines.iter();
        let due = due.take_while(move |(due_us, _)| *due_us <= now_us);
        due.filter_map(|&(_, key)| Some((key, self.get(key)?)))
    }

    pub(crate) fn get(&self, key: RequestKey) -> Option<&Sequence> {
        self.sequences.get(&key).map(|one| &**one)
    }

    /// For changes that leave its line and its place there alone.
    pub(crate) fn get_mut(&mut self, key: RequestKey) -> Option<&mut Sequence> {
        self.sequences.get_mut(&key).map(|one| &mut **one)
    }

    /// Lets nobody find the pages of those of a namespace.
    pub(crate) fn forget(&mut self, namespace: &str) {
        let members = self.sequences.values_mut();
        for sequence in members.filter(|one| **one.table.namespace() == *namespace) {
            sequence.table.forget();
        }
    }

    pub(crate) fn insert(&mut self, key: RequestKey, sequence: Box<Sequence>) {
        let lines = self.lines.entry(Arc::clone(&sequence.tenant)).or_default();
        let line = lines.entry(priority_of(&sequence)).or_default();
        line.members.insert((sequence.due_us(), key));
        if sequence.request.deadline_s.is_some() {
            self.deadlines.insert((sequence.due_us(), key));
        }
        self.bytes += sequence.id_bytes();
        self.sequences.insert(key, sequence);
    }

    pub(crate) fn remove(&mut self, key: RequestKey) -> Option<Box<Sequence>> {
        let sequence = self.sequences.remove(&key)?;
        self.bytes -= sequence.id_bytes();
        self.deadlines.remove(&(sequence.due_us(), key));
        if let Some(lines) = self.lines.get_mut(&sequence.tenant) {
            let priority = priority_of(&sequence);
            if let Some(line) = lines.get_mut(&priority) {
                line.members.remove(&(sequence.due_us(), key));
                // The next request of an empty line arrived after the last one left it.
                if line.members.is_empty() {
                    lines.remove(&priority);
                }
            }
            if lines.is_empty() {
                self.lines.remove(&sequence.tenant);
            }
        }
        Some(sequence)
    }

    /// Takes out a request that is admitted.
    pub(crate) fn admit(&mut self, key: RequestKey, now_s: f64) -> Option<Box<Sequence>> {
        let sequence = self.sequences.get(&key)?;
        let lines = self.lines.get_mut(&sequence.tenant);
        if let Some(line) = lines.and_then(|lines| lines.get_mut(&priority_of(sequence))) {
            line.left_s = now_s;
        }
        self.remove(key)
    }

    /// The request of `tenant` that goes first, if it is not skipped. It is the first of its line, and
    /// has waited since neither it nor anybody before it there was admitted.
    pub(crate) fn first_of(
        &self,
        tenant: &str,
        skipped: &Skipped,
        now_s: f64,
        age_s: f64,
    ) -> Option<Claim> {
        if skipped.tenants.contains(tenant) {
            return None;
        }
        let heads = self.lines.get(tenant)?.values().filter_map(|line| {
            let mut members = line.members.iter();
            let &(_, key) = members.find(|(_, key)| !skipped.requests.contains(key))?;
            let sequence = self.sequences.get(&key)?;
            let since_s = sequence.timeline.waiting_since_s().max(line.left_s);
            Some(Claim::new(key, sequence, now_s - since_s, age_s))
        });
        heads.min()
    }
}

fn priority_of(sequence: &Sequence) -> i32 {
    clamped(sequence.request.priority)
}

#[cfg(test)]
impl Queue {
    pub(crate) fn iter(&self) -> impl Iterator<Item = (RequestKey, &Sequence)> {
        self.sequences.iter().map(|(&key, one)| (key, &**one))
    }
}
