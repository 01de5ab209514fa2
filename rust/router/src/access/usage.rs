//! What a key used of its limits.

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use super::key_entry::KeyEntry;
use crate::error::{ErrorKind, RequestError};
use crate::fleet::{Account, Counted, Fleet, Verdict};
use crate::sync::lock;
use crate::sync::pace::{self, Pace};

/// Something that fills up evenly within a minute and is spent; it may be overspent.
#[derive(Clone, Copy, Debug)]
struct Bucket {
    /// What was spent and has not come back.
    spent: f64,
    at: Instant,
}

impl Bucket {
    fn new(now: Instant) -> Self {
        Self {
            spent: 0.0,
            at: now,
        }
    }

    fn refill(&mut self, per_minute: u32, now: Instant) {
        let seconds = now.saturating_duration_since(self.at).as_secs_f64();
        self.spent = (self.spent - seconds * f64::from(per_minute) / 60.0).max(0.0);
        self.at = now;
    }

    /// How long it takes until `amount` is there.
    fn wait_for(&self, amount: f64, per_minute: u32) -> Option<Duration> {
        let lacking = self.spent + amount - f64::from(per_minute);
        if lacking <= 0.0 {
            return None;
        }
        let seconds = lacking * 60.0 / f64::from(per_minute.max(1));
        Some(Duration::try_from_secs_f64(seconds).unwrap_or(Duration::MAX))
    }
}

/// What a key used. It outlives a change of its limits.
#[derive(Debug)]
pub(super) struct Usage(Mutex<Counts>);

#[derive(Debug)]
struct Counts {
    requests: Bucket,
    tokens: Bucket,
    running: u32,
    pace: Pace,
}

impl Default for Usage {
    fn default() -> Self {
        let now = Instant::now();
        Self(Mutex::new(Counts {
            requests: Bucket::new(now),
            tokens: Bucket::new(now),
            running: 0,
            pace: Pace::default(),
        }))
    }
}

impl Usage {
    /// Counts a request that begins, within the limits of `entry`.
    ///
    /// # Errors
    /// [`ErrorKind::RateLimited`] with the time after which the limit allows another one.
    pub(super) fn begin(
        self: &Arc<Self>,
        entry: &KeyEntry,
        fleet: &Fleet,
        now: Instant,
    ) -> Result<Pass, RequestError> {
        let mut counts = lock(&self.0);
        counts.check_at_once(entry, now)?;
        if entry.tokens_per_minute.is_none() {
            // A limit that is set later counts from then on.
            counts.tokens = Bucket::new(now);
        }
        if let Some(limit) = entry.tokens_per_minute {
            counts.tokens.refill(limit, now);
            // What an answer will take is not known: a request may begin while anything is left.
            let own = counts.tokens.wait_for(1.0, limit);
            let account = Account::new(&entry.digest, Counted::Tokens);
            if let Some(wait) = wait(fleet.verdict(&account, limit, now), own) {
                return Err(used_up("tokens", limit, wait));
            }
        }
        if let Some(limit) = entry.requests_per_minute {
            counts.requests.refill(limit, now);
            let own = counts.requests.wait_for(1.0, limit);
            let account = Account::new(&entry.digest, Counted::Requests);
            if let Some(wait) = wait(fleet.verdict(&account, limit, now), own) {
                return Err(used_up("requests", limit, wait));
            }
            counts.requests.spent += 1.0;
            fleet.spend(&account, limit, 1.0, now);
        }
        counts.enter(now);
        drop(counts);
        Ok(self.pass(entry, fleet))
    }

    /// Counts a request that goes on: what it takes by the minute was counted when it began.
    ///
    /// # Errors
    /// [`ErrorKind::RateLimited`] when as many run as may at once.
    pub(super) fn go_on(
        self: &Arc<Self>,
        entry: &KeyEntry,
        fleet: &Fleet,
        now: Instant,
    ) -> Result<Pass, RequestError> {
        let mut counts = lock(&self.0);
        counts.check_at_once(entry, now)?;
        counts.enter(now);
        drop(counts);
        Ok(self.pass(entry, fleet))
    }

    fn pass(self: &Arc<Self>, entry: &KeyEntry, fleet: &Fleet) -> Pass {
        let tokens = entry.tokens_per_minute.map(|limit| {
            let account = Account::new(&entry.digest, Counted::Tokens);
            (fleet.clone(), account, limit)
        });
        Pass {
            usage: self.clone(),
            tokens,
        }
    }
}

/// How long a request has to wait by what all routers know, or by this one's `own` count.
fn wait(verdict: Verdict, own: Option<Duration>) -> Option<Duration> {
    match verdict {
        Verdict::Granted => None,
        Verdict::Refused(wait) => Some(wait),
        Verdict::Unknown => own,
    }
}

impl Counts {
    fn check_at_once(&self, entry: &KeyEntry, now: Instant) -> Result<(), RequestError> {
        let Some(limit) = entry
            .requests_at_once
            .filter(|limit| self.running >= *limit)
        else {
            return Ok(());
        };
        let wait = pace::time_for(1, self.pace.rate(now));
        let message = format!(
            "{} requests of this key are running or waiting; allowed: up to {limit} at once",
            self.running
        );
        Err(RequestError::retry(ErrorKind::RateLimited, message, wait))
    }

    fn enter(&mut self, now: Instant) {
        if self.running == 0 {
            self.pace.begin(now);
        }
        self.running += 1;
    }
}

fn used_up(what: &str, limit: u32, wait: Duration) -> RequestError {
    let message = format!("the {what} of this key are used up; allowed: {limit} a minute");
    RequestError::retry(ErrorKind::RateLimited, message, wait)
}

/// A request of a key, until it is dropped.
#[derive(Debug)]
pub(crate) struct Pass {
    usage: Arc<Usage>,
    /// Where its tokens count with those of other routers.
    tokens: Option<(Fleet, Account, u32)>,
}

impl Pass {
    /// Counts tokens of its prompt or its answer.
    pub(crate) fn charge(&self, tokens: usize) {
        lock(&self.usage.0).tokens.spent += tokens as f64;
        if let Some((fleet, account, limit)) = &self.tokens {
            fleet.spend(account, *limit, tokens as f64, Instant::now());
        }
    }
}

impl Drop for Pass {
    fn drop(&mut self) {
        let mut counts = lock(&self.usage.0);
        counts.running -= 1;
        counts.pace.ended(Instant::now());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn begin(usage: &Arc<Usage>, entry: &KeyEntry, now: Instant) -> Result<Pass, Duration> {
        usage.begin(entry, &Fleet::default(), now).map_err(|error| {
            assert_eq!(error.kind, ErrorKind::RateLimited);
            error.retry_after.unwrap()
        })
    }

    #[test]
    fn requests_of_a_minute_come_back_evenly() {
        let (usage, now) = (Arc::new(Usage::default()), Instant::now());
        let entry = KeyEntry {
            requests_per_minute: Some(6),
            ..KeyEntry::default()
        };
        for _ in 0..6 {
            assert!(begin(&usage, &entry, now).is_ok());
        }
        let wait = begin(&usage, &entry, now).unwrap_err();
        assert!((wait.as_secs_f64() - 10.0).abs() < 0.01, "{wait:?}");
        let later = now + wait + Duration::from_millis(1);
        assert!(begin(&usage, &entry, later).is_ok());
        assert!(begin(&usage, &entry, later).is_err());
    }

    #[test]
    fn tokens_may_be_overspent_by_what_runs_and_are_waited_for_then() {
        let (usage, now) = (Arc::new(Usage::default()), Instant::now());
        let entry = KeyEntry {
            tokens_per_minute: Some(600),
            ..KeyEntry::default()
        };
        let running = begin(&usage, &entry, now).unwrap();
        running.charge(500);
        assert!(begin(&usage, &entry, now).is_ok());
        running.charge(200);
        let wait = begin(&usage, &entry, now).unwrap_err();
        assert!((wait.as_secs_f64() - 10.1).abs() < 0.01, "{wait:?}");
        assert!(begin(&usage, &entry, now + Duration::from_secs(11)).is_ok());
    }

    #[test]
    fn limit_of_tokens_that_is_set_later_counts_from_then_on() {
        let (usage, now) = (Arc::new(Usage::default()), Instant::now());
        let unlimited = KeyEntry::default();
        begin(&usage, &unlimited, now).unwrap().charge(1_000_000);
        drop(begin(&usage, &unlimited, now).unwrap());
        let limited = KeyEntry {
            tokens_per_minute: Some(600),
            ..KeyEntry::default()
        };
        assert!(begin(&usage, &limited, now).is_ok());
    }

    #[test]
    fn only_so_many_run_at_once() {
        let (usage, now) = (Arc::new(Usage::default()), Instant::now());
        let entry = KeyEntry {
            requests_at_once: Some(2),
            ..KeyEntry::default()
        };
        let held = [begin(&usage, &entry, now), begin(&usage, &entry, now)];
        assert!(held.iter().all(Result::is_ok) && begin(&usage, &entry, now).is_err());
        drop(held);
        assert!(begin(&usage, &entry, now).is_ok());
    }
}
