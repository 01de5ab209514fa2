//! The list of calls.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex};

use super::context::TraceContext;
use super::line;
use super::noted::Noted;
use super::report::Report;
use crate::metrics::otlp::{Exporter, Span};
use crate::sync::lock;

/// Calls that are remembered after their end.
pub(super) const NUM_ENDED: usize = 512;

/// Calls that run, and the last that ended.
#[derive(Debug)]
pub(super) struct Table {
    logs: bool,
    exporter: Option<(Exporter, f64)>,
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
    /// An empty list. `exporter` takes the spans of traces that are recorded, with the share of calls
    /// to record whose clients say nothing of it.
    pub(super) fn new(logs: bool, exporter: Option<(Exporter, f64)>) -> Self {
        Self {
            logs,
            exporter,
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

    /// Whether a call that comes with this trace is recorded: as its client says, else by chance.
    pub(super) fn records(&self, client: Option<TraceContext>) -> bool {
        let Some((_, ratio)) = &self.exporter else {
            return false;
        };
        client.map_or_else(
            || rand::random::<f64>() < *ratio,
            |client| client.is_sampled,
        )
    }

    /// Call `number` has ended.
    pub(super) fn end(&self, number: u64, report: Report, spans: Option<Vec<Span>>) {
        if self.logs {
            line::log(&report);
        }
        if let Some((exporter, _)) = &self.exporter {
            if let Some(measured) = report.measured() {
                exporter.measure(measured);
            }
            if let Some(spans) = spans {
                exporter.offer(spans);
            }
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
