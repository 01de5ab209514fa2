//! The streams of a router that others may take over, within a number of bytes.

use std::collections::{BTreeMap, VecDeque};
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use tokio::sync::Notify;

use super::entry::{End, Entry};
use super::pulse::Pulse;
use crate::config::LimitsConfig;
use crate::sync::{lock, now};

/// What a record stays in Redis longer than it can be asked for: clocks differ, and so do turns.
const SLACK: Duration = Duration::from_secs(10);

/// Streams that may wait to be written.
const MAX_DUE: usize = 65_536;

/// Attempts that each stream which comes here has numbers for. A router that lost a stream has forgotten which numbers
/// it gave, and outputs of these may be on their way: it gives no number twice.
const ATTEMPTS: u32 = 64;

/// Streams that are shared.
#[derive(Debug)]
pub(crate) struct Streams {
    /// How long a record stays in Redis after it was last written.
    pub(crate) lifetime: Duration,
    /// Bytes that all records may take.
    pub(crate) limit: usize,
    num_bytes: AtomicUsize,
    /// Which numbers of attempts were given, in parts of [`ATTEMPTS`].
    num_parts: AtomicU32,
    table: Mutex<Table>,
    /// Rings when a stream begins or ends here.
    pub(crate) has_come: Notify,
    pub(crate) pulse: Pulse,
}

#[derive(Debug, Default)]
struct Table {
    /// By their keys.
    running: BTreeMap<String, Arc<Entry>>,
    /// Those that are to be written, in order.
    due: VecDeque<Arc<Entry>>,
    /// Those that are just being written.
    turn: Vec<Arc<Entry>>,
    /// Those that were left, until they are gone in Redis.
    left: VecDeque<(Instant, Arc<Entry>)>,
    /// Those that were left while Redis was away, which has nothing of them. They hold nothing.
    unsaid: VecDeque<Arc<Entry>>,
}

impl Streams {
    pub(crate) fn new(limits: &LimitsConfig) -> Self {
        let window = Duration::from_secs_f64(limits.resume_window_s);
        Self {
            lifetime: window + SLACK,
            // Where none is kept here, none is elsewhere.
            limit: if window.is_zero() {
                0
            } else {
                limits.max_resume_bytes
            },
            num_bytes: AtomicUsize::new(0),
            num_parts: AtomicU32::new(0),
            table: Mutex::default(),
            has_come: Notify::new(),
            pulse: Pulse::default(),
        }
    }

    /// The attempt before the first that this router makes of a stream that comes from elsewhere, or may, and had this
    /// one.
    pub(crate) fn behind_all(&self, attempt: u32) -> u32 {
        let next = |part: u32| part.max(attempt / ATTEMPTS).saturating_add(1);
        let before = self
            .num_parts
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |part| {
                Some(next(part))
            });
        let part = before.map_or_else(next, next);
        part.saturating_mul(ATTEMPTS).saturating_sub(1)
    }

    /// Adds a stream that runs here.
    pub(crate) fn add(&self, entry: &Arc<Entry>) {
        lock(&self.table)
            .running
            .insert(entry.key.clone(), entry.clone());
    }

    /// A stream runs here no more.
    pub(crate) fn remove(&self, entry: &Arc<Entry>) {
        let mut table = lock(&self.table);
        let found = table.running.get(&entry.key);
        if found.is_some_and(|found| Arc::ptr_eq(found, entry)) {
            table.running.remove(&entry.key);
        }
    }

    /// The stream of this key, if it runs here.
    pub(crate) fn find(&self, key: &str) -> Option<Arc<Entry>> {
        lock(&self.table).running.get(key).cloned()
    }

    /// Whether something is still to be written of the stream of this key.
    pub(crate) fn is_due(&self, key: &str) -> bool {
        lock(&self.table).due.iter().any(|entry| entry.key == key)
    }

    /// The streams that run here.
    pub(crate) fn running(&self) -> Vec<Arc<Entry>> {
        lock(&self.table).running.values().cloned().collect()
    }

    /// Those of them that are this router's as far as it knows: not one that is just being taken over, which is
    /// another's until it is, nor one of which nothing was written yet: what Redis has by its name is another
    /// stream, or what this one was before.
    pub(crate) fn owned(&self) -> Vec<Arc<Entry>> {
        let mut all = self.running();
        all.retain(|entry| !entry.is_asked_for() && entry.was_tried());
        all
    }

    /// Those of which Redis has not all, nor is it on its way there.
    pub(crate) fn unwritten(&self) -> VecDeque<Arc<Entry>> {
        let mut all = self.running();
        all.retain(|entry| entry.wants_whole());
        all.into()
    }

    /// Notes what a change of an entry means: how many bytes more it holds, and whether its turn is to
    /// come, at once if it is `urgent`. False if there is no room for it.
    pub(crate) fn changed(
        &self,
        entry: &Arc<Entry>,
        (more, is_due): (isize, bool),
        urgent: bool,
    ) -> bool {
        let fits = self.resize(more) <= self.limit || self.make_room();
        if !is_due {
            return fits;
        }
        let mut table = lock(&self.table);
        if table.due.len() >= MAX_DUE {
            drop(table);
            self.forget(entry);
            return false;
        }
        if urgent {
            table.due.push_front(entry.clone());
            drop(table);
            self.has_come.notify_one();
        } else {
            table.due.push_back(entry.clone());
        }
        fits
    }

    fn resize(&self, more: isize) -> usize {
        let less = more.min(0).unsigned_abs();
        let before = if more > 0 {
            self.num_bytes
                .fetch_add(more.unsigned_abs(), Ordering::Relaxed)
        } else {
            self.num_bytes.fetch_sub(less, Ordering::Relaxed)
        };
        before.saturating_add_signed(more)
    }

    /// Bytes that all records take.
    #[cfg(test)]
    pub(crate) fn num_bytes(&self) -> usize {
        self.num_bytes.load(Ordering::Relaxed)
    }

    /// Drops those that were left, the oldest first, until the others fit; whether they do.
    fn make_room(&self) -> bool {
        while self.num_bytes.load(Ordering::Relaxed) > self.limit {
            let Some((_, entry)) = lock(&self.table).left.pop_front() else {
                return false;
            };
            self.withdraw(&entry);
        }
        true
    }

    /// Streams that wait for their turn.
    #[cfg(test)]
    pub(crate) fn num_due(&self) -> usize {
        lock(&self.table).due.len()
    }

    /// The record of a stream is to go.
    pub(crate) fn withdraw(&self, entry: &Arc<Entry>) {
        let change = entry.give_end(End::Dropped);
        self.changed(entry, change, false);
    }

    /// Redis is gone: of what waits for it only what it is to let go or drop stays.
    pub(crate) fn cut(&self) {
        self.end_turn();
        let mut waiting = lock(&self.table).due.clone();
        for entry in waiting.drain(..) {
            if entry.cut() {
                self.leave_unsaid(&entry);
            }
        }
    }

    /// A stream was left of which Redis has nothing, and which cannot be written now: no text waits, only its name.
    pub(crate) fn leave_unsaid(&self, entry: &Arc<Entry>) {
        let Some(held) = entry.empty() else { return };
        self.resize(-held.cast_signed());
        let mut table = lock(&self.table);
        table.unsaid.push_back(entry.clone());
        if table.unsaid.len() > MAX_DUE {
            table.unsaid.pop_front();
        }
    }

    /// Up to `count` of those.
    pub(crate) fn unsaid(&self, count: usize) -> Vec<Arc<Entry>> {
        let mut table = lock(&self.table);
        let count = count.min(table.unsaid.len());
        table.unsaid.drain(..count).collect()
    }

    /// Up to `count` streams whose turn it is.
    pub(crate) fn due(&self, count: usize) -> Vec<Arc<Entry>> {
        let mut table = lock(&self.table);
        let count = count.min(table.due.len());
        table.turn = table.due.drain(..count).collect();
        table.turn.clone()
    }

    /// None of them is being written any more.
    pub(crate) fn end_turn(&self) {
        lock(&self.table).turn.clear();
    }

    /// Waits until the last words of the stream that was this owner's are written, or given up, for `patience` at
    /// most.
    pub(crate) async fn said(&self, owner: &str, patience: Duration) {
        if let Some(entry) = self.ending(owner) {
            let _ = tokio::time::timeout(patience, entry.said()).await;
        }
    }

    /// What was this owner's, if something may still be to be written of it.
    fn ending(&self, owner: &str) -> Option<Arc<Entry>> {
        let table = lock(&self.table);
        let mut all = table.due.iter().chain(&table.turn);
        all.find(|entry| entry.owner == owner).cloned()
    }

    /// A stream's last words are written.
    pub(crate) fn was_left(&self, entry: &Arc<Entry>) {
        let until = now() + self.lifetime;
        lock(&self.table).left.push_back((until, entry.clone()));
    }

    /// Nothing of a stream is held or written any more.
    pub(crate) fn forget(&self, entry: &Entry) {
        let held = entry.stop();
        self.resize(-held.cast_signed());
    }

    /// Those that were left and are gone in Redis count no more; those that run stay there.
    pub(crate) fn sweep(&self, now: Instant) {
        loop {
            let mut table = lock(&self.table);
            if table.left.front().is_none_or(|(until, _)| *until > now) {
                break;
            }
            let entry = table.left.pop_front();
            drop(table);
            if let Some((_, entry)) = entry {
                self.forget(&entry);
            }
        }
        let Some(before) = now.checked_sub(self.lifetime / 4) else {
            return;
        };
        for entry in self.running() {
            let is_due = entry.touch(before);
            self.changed(&entry, (0, is_due), false);
        }
    }

    /// The records of all streams that are meant are to go, whether they run or were left.
    pub(crate) fn withdraw_all(&self, is_meant: impl Fn(&Entry) -> bool) {
        let table = lock(&self.table);
        let left = table.left.iter().map(|(_, entry)| entry);
        let all = table.running.values().chain(&table.due).chain(left);
        let meant: Vec<_> = all.filter(|entry| is_meant(entry)).cloned().collect();
        drop(table);
        for entry in meant {
            self.withdraw(&entry);
        }
    }
}
