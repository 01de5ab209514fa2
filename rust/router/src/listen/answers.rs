//! Answers on their way out, and the end of those that nobody takes.
//!
//! HTTP/2 lets a client ask for much and take none of it, while its connection answers every ping. What it has
//! not taken is bounded in time, and in bytes over all of them: beyond that the tenant that holds most loses its
//! largest.

use std::cmp::Reverse;
use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, Weak};
use std::time::{Duration, Instant};

use tokio_util::sync::CancellationToken;

use super::turn::Turn;
use crate::sync::lock;

/// A client that takes something at least so often reads.
pub(super) const READS: Duration = Duration::from_secs(2);
/// How often answers are looked at.
const PERIOD: Duration = Duration::from_secs(1);

/// An answer that may lie unread.
pub(super) trait Unread: Send + Sync {
    /// Since when.
    fn turn(&self) -> &Turn;

    /// Whose it is.
    fn tenant(&self) -> Option<&Arc<str>>;

    /// What is known of its rest, and what was given and not taken, in bytes.
    fn num_bytes(&self) -> u64;

    /// Drops the rest, unless the client's turn that began at `begun` is over; whether it did.
    fn cut(&self, begun: u64) -> bool;
}

/// All answers of a router that are on their way. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Answers(Arc<Shared>);

struct Shared {
    patience: Duration,
    max_bytes: u64,
    table: Mutex<Table>,
}

#[derive(Default)]
struct Table {
    next_id: u64,
    open: HashMap<u64, Weak<dyn Unread>>,
}

impl Answers {
    /// None yet; an answer may lie unread for `patience`, all such together up to `max_bytes`.
    pub(crate) fn new(patience: Duration, max_bytes: u64) -> Self {
        Self(Arc::new(Shared {
            patience,
            max_bytes,
            table: Mutex::default(),
        }))
    }

    /// Drops what lies unread until `closing`.
    pub(crate) async fn follow(&self, closing: CancellationToken) {
        while closing
            .run_until_cancelled(tokio::time::sleep(PERIOD))
            .await
            .is_some()
        {
            self.sweep(Instant::now());
        }
    }

    pub(super) fn add(&self, answer: Weak<dyn Unread>) -> u64 {
        let mut table = lock(&self.0.table);
        table.next_id += 1;
        let id = table.next_id;
        table.open.insert(id, answer);
        id
    }

    pub(super) fn remove(&self, id: u64) {
        lock(&self.0.table).open.remove(&id);
    }

    /// Drops what has lain too long by `now`, then what is too much.
    pub(super) fn sweep(&self, now: Instant) {
        // Some are dropped here, so outside the lock.
        let open: Vec<_> = {
            let table = lock(&self.0.table);
            table.open.values().filter_map(Weak::upgrade).collect()
        };
        let unread = open.into_iter().filter_map(|one| {
            let begun = one.turn().begun()?;
            let time = one.turn().unread(now)?;
            (time >= READS).then_some((time, begun, one))
        });
        let (late, unread): (Vec<_>, Vec<_>) =
            unread.partition(|(time, ..)| *time >= self.0.patience);
        let late = late.into_iter().filter(|(_, begun, late)| late.cut(*begun));
        let num_late = late.count();
        let unread = unread.into_iter().map(|(_, begun, one)| (begun, one));
        let num_cut = num_late + self.cut_what_is_too_much(unread);
        if num_cut > 0 {
            tracing::debug!(answers = num_cut, "what nobody read was dropped");
        }
    }

    /// Drops answers, with when their turns began, until the rest may be held; how many.
    fn cut_what_is_too_much(&self, unread: impl Iterator<Item = (u64, Arc<dyn Unread>)>) -> usize {
        let mut tenants: HashMap<Option<Arc<str>>, (u64, Vec<_>)> = HashMap::new();
        let mut sum = 0;
        for (begun, one) in unread {
            let num_bytes = one.num_bytes();
            sum += num_bytes;
            let (of_tenant, answers) = tenants.entry(one.tenant().cloned()).or_default();
            *of_tenant += num_bytes;
            answers.push((num_bytes, begun, one));
        }
        if sum <= self.0.max_bytes {
            return 0;
        }
        for (_, answers) in tenants.values_mut() {
            answers.sort_unstable_by_key(|(num_bytes, begun, _)| (*num_bytes, Reverse(*begun)));
        }
        let mut num_cut = 0;
        while sum > self.0.max_bytes {
            let most = tenants.values_mut().max_by_key(|(of_tenant, _)| *of_tenant);
            let Some((of_tenant, answers)) = most else {
                break;
            };
            let Some((num_bytes, begun, largest)) = answers.pop() else {
                break;
            };
            num_cut += usize::from(largest.cut(begun));
            *of_tenant -= num_bytes;
            sum -= num_bytes;
        }
        num_cut
    }

    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        lock(&self.0.table).open.len()
    }
}

impl fmt::Debug for Answers {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let len = lock(&self.0.table).open.len();
        formatter
            .debug_struct("Answers")
            .field("len", &len)
            .finish()
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use http_body_util::Full;

    use super::super::answer::{Answer, Client};
    use super::*;

    #[test]
    fn the_tenant_that_holds_most_loses_its_largest() {
        let answers = Answers::new(Duration::from_secs(60), 100);
        let held = |name: &'static str, num_bytes: usize| {
            let body = Full::new(Bytes::from(vec![0; num_bytes]));
            let tenant = Some(Arc::from(name));
            let held = Arc::new(());
            let client = Client {
                tenant,
                ..Client::default()
            };
            let answer = Answer::new(&answers, body, held.clone(), client);
            std::thread::sleep(Duration::from_millis(1));
            (answer, held)
        };
        let all = [
            held("bob", 40),
            held("ann", 30),
            held("ann", 30),
            held("ann", 20),
        ];
        let left = || -> Vec<bool> {
            let held = all.iter().map(|(_, held)| Arc::strong_count(held) > 1);
            held.collect()
        };
        answers.sweep(Instant::now());
        assert_eq!(left(), [true; 4]);
        answers.sweep(Instant::now() + READS);
        assert_eq!(left(), [true, false, true, true]);
    }
}
