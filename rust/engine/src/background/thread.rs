//! The thread that does an engine's chores while a forward runs.
//!
//! Waking a thread costs the one that wakes it some ten microseconds, which would lie between two
//! forwards. So while there are steps it polls for work.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

/// Pause between two polls.
const REST: Duration = Duration::from_micros(250);

/// Empty polls after which the thread parks.
const MAX_VAIN: u32 = 400;

/// A thread that works while no thread waits for the scheduler.
#[derive(Debug)]
pub(crate) struct BackgroundThread {
    signal: Arc<Signal>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Debug, Default)]
struct Signal {
    state: Mutex<State>,
    changed: Condvar,
    /// Somebody waits for what the chores hold.
    is_wanted: AtomicBool,
    /// It polls for work.
    is_awake: AtomicBool,
}

#[derive(Debug, Default)]
struct State {
    has_work: bool,
    is_over: bool,
}

impl BackgroundThread {
    /// Starts the thread; `chore` does one piece of work and returns whether there may be more.
    ///
    /// # Errors
    /// The system's error if it gives no thread.
    pub(crate) fn start(chore: impl Fn() -> bool + Send + 'static) -> std::io::Result<Self> {
        let signal = Arc::new(Signal::default());
        let thread = std::thread::Builder::new()
            .name("spectrie-chores".into())
            .spawn({
                let signal = Arc::clone(&signal);
                move || signal.run(chore)
            })?;
        Ok(Self {
            signal,
            thread: Some(thread),
        })
    }

    /// No thread waits from now on; call `nudge` if there is work.
    pub(crate) fn resume(&self) {
        self.signal.is_wanted.store(false, Ordering::Relaxed);
    }

    /// There is work, to be done unless somebody waits.
    pub(crate) fn nudge(&self) {
        if self.signal.is_awake.load(Ordering::Acquire) {
            return;
        }
        let mut state = self.signal.lock();
        state.has_work = true;
        drop(state);
        self.signal.changed.notify_one();
    }

    /// Somebody waits: the thread pauses after the piece at hand.
    pub(crate) fn pause(&self) {
        self.signal.is_wanted.store(true, Ordering::Relaxed);
    }
}

impl Signal {
    fn run(&self, chore: impl Fn() -> bool) {
        let mut vain = 0;
        loop {
            let mut state = self.lock();
            if !state.has_work && !state.is_over {
                state = if self.is_awake.load(Ordering::Relaxed) {
                    let waited = self.changed.wait_timeout(state, REST);
                    waited.unwrap_or_else(PoisonError::into_inner).0
                } else {
                    let waited = self.changed.wait(state);
                    waited.unwrap_or_else(PoisonError::into_inner)
                };
            }
            if state.is_over {
                return;
            }
            if std::mem::take(&mut state.has_work) {
                vain = 0;
                self.is_awake.store(true, Ordering::Release);
            }
            drop(state);
            vain += 1;
            if vain == MAX_VAIN {
                // Before the last look: later work finds no thread awake and wakes one.
                self.is_awake.store(false, Ordering::Release);
            }
            while !self.is_wanted.load(Ordering::Relaxed) && chore() {
                vain = 0;
            }
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, State> {
        // Two flags are always whole.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for BackgroundThread {
    fn drop(&mut self) {
        self.pause();
        self.signal.lock().is_over = true;
        self.signal.changed.notify_one();
        if let Some(thread) = self.thread.take() {
            // It fails only if a chore panicked, which the engine already reports.
            let _ = thread.join();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc;
    use std::time::Duration;

    #[test]
    fn work_is_done_when_nudged_and_left_when_somebody_waits() {
        let (done, seen) = mpsc::channel();
        let (go, may_go) = mpsc::channel::<()>();
        let thread =
            BackgroundThread::start(move || done.send(()).is_ok() && may_go.recv().is_ok())
                .unwrap();
        assert!(seen.recv_timeout(Duration::from_millis(20)).is_err());
        thread.nudge();
        seen.recv().unwrap();
        go.send(()).unwrap();
        seen.recv().unwrap();
        thread.pause();
        go.send(()).unwrap();
        assert!(seen.recv_timeout(Duration::from_millis(20)).is_err());
        thread.nudge();
        assert!(seen.recv_timeout(Duration::from_millis(20)).is_err());
        thread.resume();
        thread.nudge();
        seen.recv().unwrap();
        drop(go);
        drop(thread);
    }
}
