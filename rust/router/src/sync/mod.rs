//! What all rooms use: the lock, the clock, the pace at which things end, files read and written whole.

pub(crate) mod pace;
mod whole_file;

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

pub(crate) use whole_file::{read_whole, write_whole};

/// Locks, also after a panic elsewhere: every guarded value here is valid between any two
/// statements, so one failed request must not take the others down.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The time, by the clock of the runtime's timers: a simulation that drives them drives this too.
pub(crate) fn now() -> Instant {
    tokio::time::Instant::now().into_std()
}

/// Time since 1970, by the system's clock; 0 before it.
pub(crate) fn unix_time() -> Duration {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.unwrap_or_default()
}
