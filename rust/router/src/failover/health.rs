//! Whether a worker answers, or fails what it is given.

use std::time::{Duration, Instant};

/// Faults in a row after which a worker is ejected: one or two happen to a good worker, and each
/// costs its choice only another try.
const MAX_FAULTS: u32 = 3;
/// How long it is out at first; each probe that fails doubles it.
const FIRST_PAUSE: Duration = Duration::from_secs(1);
/// The longest of these pauses.
const LONGEST_PAUSE: Duration = Duration::from_secs(60);

/// An ejection.
#[derive(Clone, Copy, Debug)]
struct Out {
    pause: Duration,
    /// When it may be tried again.
    until: Instant,
    /// A request was sent to it since, to see whether it answers.
    is_probed: bool,
}

/// What is known of one worker. Only faults of its own count: failures, and nonsense, of a choice
/// that another worker then went on with.
///
/// Choices have turns, by which those that began before the last fault, or before a probe, are known:
/// one step that fails ends many choices at once, and they say no more than one.
#[derive(Debug, Default)]
pub(crate) struct Health {
    faults: u32,
    out: Option<Out>,
    /// The turn of choices that begin now.
    turn: u64,
    /// The first turn whose choices say something new.
    since: u64,
}

impl Health {
    /// Whether it gets nothing now: it is ejected and not due for a probe.
    pub(crate) fn is_out(&self, now: Instant) -> bool {
        self.out.is_some_and(|out| now < out.until)
    }

    /// A request is sent to it. Where that is a probe, no other follows for a pause. Gives the turn of
    /// its choice.
    pub(crate) fn begin(&mut self, now: Instant) -> u64 {
        if let Some(out) = &mut self.out
            && now >= out.until
        {
            self.turn += 1;
            if !std::mem::replace(&mut out.is_probed, true) {
                self.since = self.turn;
            }
            out.until = now + out.pause;
        }
        self.turn
    }

    /// It failed a choice of that turn. Gives how long it is ejected for, if it is from now on;
    /// `may_eject` says that others are there.
    pub(crate) fn failed(&mut self, turn: u64, now: Instant, may_eject: bool) -> Option<Duration> {
        if turn < self.since {
            return None;
        }
        self.turn += 1;
        self.since = self.turn;
        self.faults = self.faults.saturating_add(1);
        let pause = match self.out {
            // Sent there though it is out: nothing else took it.
            Some(out) if !out.is_probed => return None,
            Some(out) => LONGEST_PAUSE.min(out.pause * 2),
            None if may_eject && self.faults >= MAX_FAULTS => FIRST_PAUSE,
            None => return None,
        };
        self.out = Some(Out {
            pause,
            until: now + pause,
            is_probed: false,
        });
        Some(pause)
    }

    /// It completed an answer of that turn. Gives whether that ends its ejection.
    pub(crate) fn answered(&mut self, turn: u64) -> bool {
        if turn < self.since || self.out.is_some_and(|out| !out.is_probed) {
            return false;
        }
        self.faults = 0;
        self.out.take().is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A choice that begins now and fails.
    fn fails(health: &mut Health, now: Instant, may_eject: bool) -> Option<Duration> {
        let turn = health.begin(now);
        health.failed(turn, now, may_eject)
    }

    /// A worker that was ejected a moment ago.
    fn ejected(now: Instant) -> Health {
        let mut health = Health::default();
        assert_eq!(fails(&mut health, now, true), None);
        assert_eq!(fails(&mut health, now, true), None);
        assert_eq!(fails(&mut health, now, true), Some(FIRST_PAUSE));
        assert!(health.is_out(now));
        health
    }

    #[test]
    fn answers_between_faults_keep_a_worker_in() {
        let (mut health, now) = (Health::default(), Instant::now());
        for _ in 0..10 {
            assert_eq!(fails(&mut health, now, true), None);
            assert_eq!(fails(&mut health, now, true), None);
            let turn = health.begin(now);
            assert!(!health.answered(turn) && !health.is_out(now));
        }
    }

    #[test]
    fn choices_that_one_step_failed_are_one_fault() {
        let (mut health, now) = (Health::default(), Instant::now());
        for _ in 0..2 {
            let turns: Vec<_> = (0..8).map(|_| health.begin(now)).collect();
            let faults = turns.iter().map(|turn| health.failed(*turn, now, true));
            assert!(faults.flatten().next().is_none());
        }
        assert_eq!(fails(&mut health, now, true), Some(FIRST_PAUSE));
    }

    #[test]
    fn last_worker_is_never_ejected() {
        let (mut health, now) = (Health::default(), Instant::now());
        assert!((0..10).all(|_| fails(&mut health, now, false).is_none()));
        assert!(!health.is_out(now));
        let another_came = fails(&mut health, now, true);
        assert_eq!(another_came, Some(FIRST_PAUSE));
    }

    #[test]
    fn one_probe_a_pause_and_each_that_fails_doubles_it_within_bounds() {
        let mut now = Instant::now();
        let mut health = ejected(now);
        let mut pause = FIRST_PAUSE;
        for _ in 0..10 {
            now += pause;
            assert!(!health.is_out(now), "due for a probe");
            let probe = health.begin(now);
            assert!(health.is_out(now), "no second probe");
            let longer = LONGEST_PAUSE.min(pause * 2);
            assert_eq!(health.failed(probe, now, false), Some(longer));
            assert_eq!(health.failed(probe, now, true), None, "of the same probe");
            pause = longer;
        }
        assert_eq!(pause, LONGEST_PAUSE);
    }

    #[test]
    fn what_began_before_a_probe_neither_brings_it_back_nor_keeps_it_out() {
        let now = Instant::now();
        let mut health = Health::default();
        let early = health.begin(now);
        for _ in 0..3 {
            fails(&mut health, now, true);
        }
        let later = now + FIRST_PAUSE;
        assert!(!health.answered(early) && health.is_out(now));
        let probe = health.begin(later);
        assert!(!health.answered(early) && health.is_out(later));
        assert_eq!(health.failed(early, later, true), None);
        // A slow probe is followed by another; either answer counts.
        health.begin(later + FIRST_PAUSE);
        assert!(health.answered(probe) && !health.is_out(later));
        assert_eq!(fails(&mut health, later, true), None, "it begins anew");
    }

    #[test]
    fn probe_that_nothing_comes_of_is_followed_by_another() {
        let now = Instant::now();
        let mut health = ejected(now);
        health.begin(now + FIRST_PAUSE);
        assert!(health.is_out(now + FIRST_PAUSE));
        assert!(!health.is_out(now + 2 * FIRST_PAUSE));
    }
}
