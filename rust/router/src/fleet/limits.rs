//! Limits of API keys over all routers: each draws a slice of a limit ahead, and spends from it.

use std::sync::Arc;
use std::time::{Duration, Instant};

use futures_util::future::join_all;

use super::handle::{Fleet, Link, Shared};
use super::slices::{Account, Verdict};
use super::wire::{Trouble, Wire};
use crate::sync::lock;

/// How often slices that are not used are looked for.
const PERIOD: Duration = Duration::from_secs(1);
/// Wait where Redis refuses.
const PAUSE: Duration = Duration::from_secs(1);

/// Draws what is due, until the connection is lost; gives why.
pub(super) async fn draw(shared: &Arc<Shared>, wire: Wire) -> Trouble {
    // What was held before is gone with the Redis that gave it, or soon comes back there.
    lock(&shared.slices).clear();
    loop {
        let due = lock(&shared.slices).due(Instant::now());
        if due.is_empty() {
            let _ = tokio::time::timeout(PERIOD, shared.has_spent.notified()).await;
            continue;
        }
        let asked = due.iter().map(|draw| {
            let mut wire = wire.clone();
            async move { wire.draw(draw).await }
        });
        let mut is_refused = false;
        for (draw, answer) in due.iter().zip(join_all(asked).await) {
            match answer {
                Ok((granted, wait)) => {
                    lock(&shared.slices).drawn(draw, granted, wait, Instant::now());
                }
                Err(Trouble::Refused(_)) => is_refused = true,
                Err(lost) => return lost,
            }
        }
        if is_refused {
            tokio::time::sleep(PAUSE).await;
        }
    }
}

impl Fleet {
    /// Whether a request may begin within a limit of a key. Never waits.
    pub(crate) fn verdict(&self, account: &Account, per_minute: u32, now: Instant) -> Verdict {
        let Some(shared) = self.0.as_ref().filter(|shared| shared.is_up()) else {
            return Verdict::Unknown;
        };
        lock(&shared.slices).verdict(account, per_minute, now)
    }

    /// Counts what a request spent.
    pub(crate) fn spend(&self, account: &Account, per_minute: u32, amount: f64, now: Instant) {
        let Some(shared) = self.0.as_ref().filter(|shared| shared.is_up()) else {
            return;
        };
        if lock(&shared.slices).spend(account, per_minute, amount, now) {
            shared.has_spent.notify_one();
        }
    }
}

impl Shared {
    fn is_up(&self) -> bool {
        matches!(*self.link.borrow(), Link::Up(_))
    }
}
