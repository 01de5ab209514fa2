//! Limits of API keys over all routers: each draws a slice of a limit ahead, and spends from it.

use std::sync::Arc;
use std::time::{Duration, Instant};

use futures_util::future::join_all;
use redis::{Value, cmd};

use super::handle::{Fleet, Link, Shared};
use super::slices::{Account, Draw, Verdict};
use super::wire::{Trouble, Wire, items};
use crate::sync::lock;

/// How often slices that are not used are looked for.
const PERIOD: Duration = Duration::from_secs(1);
/// Wait where Redis refuses.
const PAUSE: Duration = Duration::from_secs(1);
/// Longest time that a limit is held to be used up.
const MAX_WAIT_MS: u64 = 600_000;

/// Draws from a limit that fills up evenly within a minute and may be overspent; a tenth of an hour
/// of it is the most that counts. Gives what was granted, and milliseconds until 1 is there.
const DRAW: &str = "
local now = redis.call('TIME')
local t = now[1] * 1000 + math.floor(now[2] / 1000)
local limit, used, wanted = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3])
local found = redis.call('HMGET', KEYS[1], 's', 't')
local spent, at = tonumber(found[1]) or 0, tonumber(found[2]) or t
if spent ~= spent then spent = 0 end
if at ~= at then at = t end
spent = math.max(0, spent - math.max(0, t - at) * limit / 60000)
spent = math.min(math.max(0, spent + used), 6 * limit)
local granted = math.max(0, math.min(wanted, math.floor(limit - spent)))
spent = spent + granted
redis.call('HSET', KEYS[1], 's', tostring(spent), 't', t)
redis.call('PEXPIRE', KEYS[1], 600000)
return {granted, math.ceil(math.max(0, spent + 1 - limit) * 60000 / math.max(1, limit))}
";

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

impl Wire {
    /// Draws a slice of a limit; gives what was granted, and the time until there is 1 more.
    async fn draw(&mut self, draw: &Draw) -> Result<(u32, Duration), Trouble> {
        let key = draw.account.key();
        let mut eval = cmd("EVAL");
        eval.arg(DRAW).arg(1).arg(&key);
        eval.arg(draw.per_minute).arg(draw.used).arg(draw.wanted);
        let answer = items(self.ask(&eval, &key, "hash").await?);
        match answer[..] {
            [Value::Int(granted), Value::Int(wait_ms)] => {
                let granted = u32::try_from(granted).unwrap_or(0).min(draw.wanted);
                let wait_ms = u64::try_from(wait_ms).unwrap_or(0).min(MAX_WAIT_MS);
                Ok((granted, Duration::from_millis(wait_ms)))
            }
            _ => Err(Trouble::Refused("Redis gives no numbers".into())),
        }
    }
}

impl Shared {
    fn is_up(&self) -> bool {
        matches!(*self.link.borrow(), Link::Up(_))
    }
}
