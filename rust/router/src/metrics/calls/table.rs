//! The list of calls.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex};

use super::line;
use super::noted::Noted;
use super::report::Report;
use crate::sync::lock;

/// Calls that are remembered after their end.
pub(super) const NUM_ENDED: usize = 512;

/// Calls that run, and the last that ended.
#[derive(Debug)]
pub(super) struct Table {
    logs: bool,
    rows: Mutex<Rows>,
}

#[derive(Debug, Default)]
struct Rows {
    next: u64,
    running: BTreeMap<u64, Arc<Noted>>,
    /// The latest last.
    ended: VecDeque<Report>,
}

impl Table {
    pub(super) fn new(logs: bool) -> Self {
        Self {
            logs,
            rows: Mutex::default(),
        }
    }

    /// Adds a call that runs; gives its number.
    pub(super) fn add(&self, noted: Arc<Noted>) -> u64 {
        let mut rows = lock(&self.rows);
        let number = rows.next;
        rows.next += 1;
        rows.running.insert(number, noted);
        number
    }

    /// Call `number` has ended.
    pub(super) fn end(&self, number: u64, report: Report) {
        if self.logs {
            line::log(&report);
        }
        let mut rows = lock(&self.rows);
        rows.running.remove(&number);
        if rows.ended.len() == NUM_ENDED {
            rows.ended.pop_front();
        }
        rows.ended.push_back(report);
    }

    pub(super) fn running(&self) -> Vec<Report> {
        let running: Vec<_> = lock(&self.rows).running.values().cloned().collect();
        running.iter().map(|noted| noted.report()).collect()
    }

    pub(super) fn ended(&self) -> Vec<Report> {
        lock(&self.rows).ended.iter().rev().cloned().collect()
    }
}
