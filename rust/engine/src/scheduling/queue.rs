//! Waiting requests, in one line per tenant and priority.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::sync::Arc;

use super::priority::clamped;
use crate::request_key::RequestKey;
use crate::sequence::Sequence;

/// Whose line it is: tenant and priority.
type LineKey = (Arc<str>, i32);

#[derive(Debug, Default)]
struct Line {
    /// By when they are due, then by arrival.
    members: BTreeSet<(i64, RequestKey)>,
    /// When one of them last left to run.
    left_s: f64,
}

/// The first of a line.
#[derive(Debug)]
pub(crate) struct Head<'a> {
    pub(crate) key: RequestKey,
    pub(crate) sequence: &'a Sequence,
    /// Since when neither it nor anybody before it in the line was admitted.
    pub(crate) waiting_since_s: f64,
}

/// Requests that hold no pages.
#[derive(Debug, Default)]
pub(crate) struct Queue {
    sequences: BTreeMap<RequestKey, Box<Sequence>>,
    lines: BTreeMap<LineKey, Line>,
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

    pub(crate) fn iter(&self) -> impl Iterator<Item = (&RequestKey, &Sequence)> {
        self.sequences.iter().map(|(key, one)| (key, &**one))
    }

    pub(crate) fn get(&self, key: &RequestKey) -> Option<&Sequence> {
        self.sequences.get(key).map(|one| &**one)
    }

    /// For changes that leave its line and its place there alone.
    pub(crate) fn get_mut(&mut self, key: &RequestKey) -> Option<&mut Sequence> {
        self.sequences.get_mut(key).map(|one| &mut **one)
    }

    /// Lets nobody find the pages of those of a namespace.
    pub(crate) fn forget(&mut self, namespace: &str) {
        let members = self.sequences.values_mut();
        for sequence in members.filter(|one| **one.table.namespace() == *namespace) {
            sequence.table.forget();
        }
    }

    pub(crate) fn insert(&mut self, key: RequestKey, sequence: Box<Sequence>) {
        let line = self.lines.entry(line_of(&sequence)).or_default();
        line.members.insert((sequence.due_us(), key));
        self.bytes += sequence.id_bytes();
        self.sequences.insert(key, sequence);
    }

    pub(crate) fn remove(&mut self, key: &RequestKey) -> Option<Box<Sequence>> {
        let sequence = self.sequences.remove(key)?;
        self.bytes -= sequence.id_bytes();
        let name = line_of(&sequence);
        if let Some(line) = self.lines.get_mut(&name) {
            line.members.remove(&(sequence.due_us(), *key));
            // The next request of an empty line arrived after the last one left it.
            if line.members.is_empty() {
                self.lines.remove(&name);
            }
        }
        Some(sequence)
    }

    /// Takes out a request that is admitted.
    pub(crate) fn admit(&mut self, key: &RequestKey, now_s: f64) -> Option<Box<Sequence>> {
        let name = line_of(self.sequences.get(key)?);
        if let Some(line) = self.lines.get_mut(&name) {
            line.left_s = now_s;
        }
        self.remove(key)
    }

    /// The first of each line who is not passed over.
    pub(crate) fn heads<'a, 'b>(
        &'a self,
        passed_over: &'b HashSet<RequestKey>,
    ) -> impl Iterator<Item = Head<'a>> + use<'a, 'b> {
        self.lines.values().filter_map(|line| {
            let mut members = line.members.iter();
            let &(_, key) = members.find(|(_, key)| !passed_over.contains(key))?;
            let sequence = self.sequences.get(&key)?;
            Some(Head {
                key,
                sequence,
                waiting_since_s: sequence.timeline.waiting_since_s().max(line.left_s),
            })
        })
    }
}

fn line_of(sequence: &Sequence) -> LineKey {
    let priority = clamped(sequence.request.priority);
    (Arc::clone(&sequence.tenant), priority)
}
