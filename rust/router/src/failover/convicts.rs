//! Requests that ended a worker on which they were alone: refused for a while.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

/// What names a tenant's request: equal for equal prompts and options, whatever its id and seed.
pub(crate) type Digest = [u8; 32];

/// Most digests that are kept; the oldest goes first.
const MAX_CONVICTS: usize = 1024;

/// The digests of these requests, oldest first.
#[derive(Debug)]
pub(crate) struct Convicts {
    held: VecDeque<(Digest, Instant)>,
    /// How long one is refused.
    time: Duration,
}

impl Convicts {
    /// None yet; each will be refused for `time`.
    pub(crate) fn new(time: Duration) -> Self {
        Self {
            held: VecDeque::new(),
            time,
        }
    }

    /// How many are refused.
    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        self.held.len()
    }

    /// Refuses `digest` from `now` on.
    pub(crate) fn add(&mut self, digest: Digest, now: Instant) {
        self.held.retain(|(other, _)| *other != digest);
        if self.held.len() >= MAX_CONVICTS {
            self.held.pop_front();
        }
        self.held.push_back((digest, now));
    }

    /// Whether nothing is refused, so that no digest need be computed.
    pub(crate) fn is_empty(&mut self, now: Instant) -> bool {
        while let Some((_, since)) = self.held.front()
            && now.saturating_duration_since(*since) >= self.time
        {
            self.held.pop_front();
        }
        self.held.is_empty()
    }

    /// How much longer `digest` is refused, if it is.
    pub(crate) fn time_left(&mut self, digest: &Digest, now: Instant) -> Option<Duration> {
        if self.is_empty(now) {
            return None;
        }
        let (_, since) = self.held.iter().find(|(other, _)| other == digest)?;
        let left = self
            .time
            .saturating_sub(now.saturating_duration_since(*since));
        (!left.is_zero()).then_some(left)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn digest(number: usize) -> Digest {
        let mut digest = [0; 32];
        digest[..8].copy_from_slice(&number.to_le_bytes());
        digest
    }

    #[test]
    fn digest_is_refused_for_its_time_alone() {
        let time = Duration::from_secs(10);
        let mut convicts = Convicts::new(time);
        let now = Instant::now();
        assert!(convicts.is_empty(now));
        convicts.add(digest(1), now);
        assert_eq!(convicts.time_left(&digest(2), now), None);
        let later = now + Duration::from_secs(4);
        let left = convicts.time_left(&digest(1), later);
        assert_eq!(left, Some(Duration::from_secs(6)));
        assert_eq!(convicts.time_left(&digest(1), now + time), None);
        assert!(convicts.is_empty(now + time));
    }

    #[test]
    fn table_is_bounded_and_drops_the_oldest() {
        let mut convicts = Convicts::new(Duration::from_secs(10));
        let now = Instant::now();
        for number in 0..=MAX_CONVICTS {
            convicts.add(digest(number), now);
        }
        assert_eq!(convicts.held.len(), MAX_CONVICTS);
        assert_eq!(convicts.time_left(&digest(0), now), None);
        assert!(convicts.time_left(&digest(MAX_CONVICTS), now).is_some());
    }
}
