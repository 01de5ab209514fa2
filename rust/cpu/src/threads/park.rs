//! Waiting for other threads: awake while it is short, asleep when it becomes long.

use std::sync::PoisonError;
use std::sync::atomic::Ordering;

use crate::threads::sync::{AtomicUsize, Condvar, Mutex, fence};

/// Looks at full speed before a thread sleeps: 25 to 70 microseconds, more than threads that all have a
/// core wait for each other.
///
/// A thread that waits longer waits for one whose core somebody else has. Giving its own core away by
/// `yield_now` would cost it a whole slice of the scheduler's, some milliseconds, at every barrier: beside
/// two busy processes on two cores a step took 170 to 260 ms instead of 6. One that slept comes back as
/// soon as it is woken: 15 ms.
const LOOKS: usize = if cfg!(miri) {
    4
} else if cfg!(all(test, loom)) {
    1
} else {
    1024
};

/// Where threads wait until something has happened.
#[derive(Debug, Default)]
pub(crate) struct Park {
    /// Threads that sleep, or are about to.
    num_asleep: AtomicUsize,
    lock: Mutex<()>,
    woken: Condvar,
}

impl Park {
    /// Waits until `is_ready`; the thread that makes it so calls [`Park::wake`] afterwards.
    #[inline]
    pub(crate) fn until(&self, is_ready: impl Fn() -> bool) {
        for _ in 0..LOOKS {
            if is_ready() {
                return;
            }
            std::hint::spin_loop();
        }
        self.sleep_until(&is_ready);
    }

    #[cold]
    fn sleep_until(&self, is_ready: &dyn Fn() -> bool) {
        self.num_asleep.fetch_add(1, Ordering::Relaxed);
        // With the fence in `wake`: either this thread sees what happened, or the other sees that it sleeps.
        fence(Ordering::SeqCst);
        let mut guard = self.lock.lock().unwrap_or_else(PoisonError::into_inner);
        while !is_ready() {
            let woken = self.woken.wait(guard);
            guard = woken.unwrap_or_else(PoisonError::into_inner);
        }
        drop(guard);
        self.num_asleep.fetch_sub(1, Ordering::Relaxed);
    }

    /// Wakes those that sleep, to look again.
    #[inline]
    pub(crate) fn wake(&self) {
        fence(Ordering::SeqCst);
        if self.num_asleep.load(Ordering::Relaxed) > 0 {
            // A thread that looked before and found nothing sleeps once the lock is free.
            drop(self.lock.lock().unwrap_or_else(PoisonError::into_inner));
            self.woken.notify_all();
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicBool;

    #[test]
    fn a_sleeper_wakes_when_it_is_told() {
        let park = Park::default();
        let happened = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let sleeper = scope.spawn(|| park.until(|| happened.load(Ordering::Acquire)));
            while park.num_asleep.load(Ordering::Relaxed) == 0 {
                std::thread::yield_now();
            }
            // Not yet what it waits for.
            park.wake();
            assert!(!sleeper.is_finished());
            happened.store(true, Ordering::Release);
            park.wake();
        });
        assert_eq!(park.num_asleep.load(Ordering::Relaxed), 0);
    }

    #[test]
    fn no_wake_is_lost_however_the_two_meet() {
        let rounds = if cfg!(miri) { 20 } else { 2000 };
        let (ping, pong) = (Park::default(), Park::default());
        let turn = AtomicUsize::new(0);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                for round in 0..rounds {
                    ping.sleep_until(&|| turn.load(Ordering::Acquire) == 2 * round + 1);
                    turn.fetch_add(1, Ordering::Release);
                    pong.wake();
                }
            });
            for round in 0..rounds {
                turn.fetch_add(1, Ordering::Release);
                ping.wake();
                pong.sleep_until(&|| turn.load(Ordering::Acquire) == 2 * round + 2);
            }
        });
        assert_eq!(turn.into_inner(), 2 * rounds);
    }
}
