//! Slices of limits of API keys: what a router drew ahead of each, and spends.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use sha2::{Digest as _, Sha256};

/// A slice is this part of what a minute allows, at least 1.
const PARTS: u32 = 20;
/// A slice that is not used for so long goes back.
const IDLE: Duration = Duration::from_secs(5);
/// Shortest time between attempts to draw from a limit that is used up.
const MIN_WAIT: Duration = Duration::from_millis(100);

/// What is counted of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Counted {
    Requests,
    Tokens,
}

/// One limit of one key.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Account {
    name: [u8; 16],
    counted: Counted,
}

impl Account {
    /// That of the key with this digest.
    pub(crate) fn new(key: &[u8; 32], counted: Counted) -> Self {
        // Its digest is what a keys file holds: the bus has a digest of that.
        let digest: [u8; 32] = Sha256::digest(key).into();
        let mut name = [0; 16];
        name.copy_from_slice(&digest[..16]);
        Self { name, counted }
    }

    /// Where Redis has it.
    pub(super) fn key(&self) -> String {
        let what = match self.counted {
            Counted::Requests => "requests",
            Counted::Tokens => "tokens",
        };
        format!(
            "spectrie:1:limit:{:032x}:{what}",
            u128::from_be_bytes(self.name)
        )
    }
}

/// What the fleet says of a request that is to begin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// It may.
    Granted,
    /// The limit is used up; it allows one again after this time.
    Refused(Duration),
    /// Nothing is known now: this router's own count decides.
    Unknown,
}

/// What a router has of a limit.
#[derive(Debug)]
struct Slice {
    per_minute: u32,
    /// Drawn and not spent; negative for what was spent and not drawn yet.
    held: f64,
    /// Until when there is nothing to draw.
    dry_until: Option<Instant>,
    used_at: Instant,
}

impl Slice {
    fn size(&self) -> f64 {
        f64::from(self.per_minute.div_ceil(PARTS).max(1))
    }

    fn is_dry(&self, now: Instant) -> bool {
        self.dry_until.is_some_and(|until| now < until)
    }

    fn is_low(&self) -> bool {
        self.held < self.size() / 2.0
    }
}

/// What is to be asked of Redis for one limit.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Draw {
    pub(super) account: Account,
    pub(super) per_minute: u32,
    /// Spent without having been drawn; negative for what goes back.
    pub(super) used: i64,
    pub(super) wanted: u32,
}

/// All slices of a router.
#[derive(Debug, Default)]
pub(super) struct Slices(BTreeMap<Account, Slice>);

impl Slices {
    fn slice(&mut self, account: &Account, per_minute: u32, now: Instant) -> &mut Slice {
        let slice = self.0.entry(account.clone()).or_insert(Slice {
            per_minute,
            held: 0.0,
            dry_until: None,
            used_at: now,
        });
        slice.per_minute = per_minute;
        slice.used_at = now;
        slice
    }

    pub(super) fn verdict(&mut self, account: &Account, per_minute: u32, now: Instant) -> Verdict {
        let slice = self.slice(account, per_minute, now);
        match slice.dry_until {
            _ if slice.held >= 1.0 => Verdict::Granted,
            Some(until) if now < until => Verdict::Refused(until - now),
            _ => Verdict::Unknown,
        }
    }

    /// Counts what was spent; whether more is to be drawn.
    pub(super) fn spend(
        &mut self,
        account: &Account,
        per_minute: u32,
        amount: f64,
        now: Instant,
    ) -> bool {
        let slice = self.slice(account, per_minute, now);
        slice.held -= amount;
        slice.is_low()
    }

    /// What is to be drawn, or goes back.
    pub(super) fn due(&mut self, now: Instant) -> Vec<Draw> {
        let mut due = Vec::new();
        self.0.retain(|account, slice| {
            let is_idle = now.saturating_duration_since(slice.used_at) >= IDLE;
            let surplus = if is_idle {
                slice.held.floor()
            } else {
                slice.held.floor().min(0.0)
            };
            let wanted = if is_idle || slice.is_dry(now) || !slice.is_low() {
                0.0
            } else {
                slice.size()
            };
            if surplus != 0.0 || wanted > 0.0 {
                slice.held -= surplus;
                due.push(Draw {
                    account: account.clone(),
                    per_minute: slice.per_minute,
                    used: -surplus as i64,
                    wanted: wanted as u32,
                });
            }
            // What is dry is not forgotten: other routers may have spent it.
            !is_idle || slice.is_dry(now)
        });
        due
    }

    /// Takes what was drawn; `wait` is how long it takes until there is more, if there is nothing.
    pub(super) fn drawn(&mut self, draw: &Draw, granted: u32, wait: Duration, now: Instant) {
        let Some(slice) = self.0.get_mut(&draw.account) else {
            return;
        };
        slice.held += f64::from(granted);
        if draw.wanted > 0 {
            slice.dry_until = (granted == 0).then(|| now + wait.max(MIN_WAIT));
        }
    }

    pub(super) fn clear(&mut self) {
        self.0.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn account() -> Account {
        Account::new(&[7; 32], Counted::Requests)
    }

    fn draw(used: i64, wanted: u32) -> Vec<Draw> {
        vec![Draw {
            account: account(),
            per_minute: 100,
            used,
            wanted,
        }]
    }

    #[test]
    fn slices_are_drawn_ahead_and_spent_and_what_is_dry_refuses_until_there_is_more() {
        let (mut slices, now) = (Slices::default(), Instant::now());
        let verdict = |slices: &mut Slices, now| slices.verdict(&account(), 100, now);
        assert_eq!(verdict(&mut slices, now), Verdict::Unknown);
        assert!(slices.spend(&account(), 100, 1.0, now));
        // What was spent before anything was known counts.
        assert_eq!(slices.due(now), draw(1, 5));
        assert_eq!(slices.due(now), draw(0, 5));
        slices.drawn(&draw(1, 5)[0], 5, Duration::ZERO, now);
        for left in [4.0, 3.0] {
            assert_eq!(verdict(&mut slices, now), Verdict::Granted);
            assert!(!slices.spend(&account(), 100, 1.0, now), "{left}");
        }
        assert_eq!(slices.due(now), []);
        assert!(slices.spend(&account(), 100, 1.0, now));
        assert_eq!(slices.due(now), draw(0, 5));
        slices.drawn(&draw(0, 5)[0], 0, Duration::from_secs(3), now);
        assert_eq!(verdict(&mut slices, now), Verdict::Granted);
        slices.spend(&account(), 100, 2.0, now);
        assert_eq!(
            verdict(&mut slices, now),
            Verdict::Refused(Duration::from_secs(3))
        );
        assert_eq!(slices.due(now), []);
        let later = now + Duration::from_secs(3);
        assert_eq!(verdict(&mut slices, later), Verdict::Unknown);
        assert_eq!(slices.due(later), draw(0, 5));
    }

    #[test]
    fn overspent_tokens_are_said_and_idle_slices_go_back() {
        let (mut slices, now) = (Slices::default(), Instant::now());
        slices.verdict(&account(), 100, now);
        slices.drawn(&draw(0, 5)[0], 5, Duration::ZERO, now);
        slices.spend(&account(), 100, 40.0, now);
        assert_eq!(slices.due(now), draw(35, 5));
        slices.drawn(&draw(35, 5)[0], 5, Duration::ZERO, now);
        let later = now + IDLE;
        assert_eq!(slices.due(later), draw(-5, 0));
        assert_eq!(slices.due(later), []);
    }

    #[test]
    fn accounts_do_not_name_their_keys() {
        let key = account().key();
        assert!(
            key.ends_with(":requests") && !key.contains(&"07".repeat(8)),
            "{key}"
        );
        assert_ne!(account(), Account::new(&[7; 32], Counted::Tokens));
        assert_ne!(account(), Account::new(&[8; 32], Counted::Requests));
    }
}
