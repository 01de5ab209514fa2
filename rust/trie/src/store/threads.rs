//! Work that several threads do together.

use std::sync::{Mutex, PoisonError};
use std::thread;

/// Lets as many threads as there are cores, this one included and at most `most`, do `work` side by
/// side. Where the system gives no thread, this one does all. A panic in any of them comes here.
pub(crate) fn side_by_side(most: usize, work: impl Fn() + Sync) {
    let cores = thread::available_parallelism().map_or(1, usize::from);
    thread::scope(|scope| {
        for _ in 1..cores.min(most) {
            let _ = thread::Builder::new().spawn_scoped(scope, &work);
        }
        work();
    });
}

/// Lets at most `most` threads, as above, do `work` on each of `items`; gives the results in the order
/// of the items.
pub(crate) fn each_side_by_side<I: Send, T: Send>(
    most: usize,
    items: Vec<I>,
    work: impl Fn(I) -> T + Sync,
) -> Vec<T> {
    let most = most.min(items.len());
    let left = Mutex::new(items.into_iter().enumerate());
    let done = Mutex::new(Vec::new());
    side_by_side(most, || {
        let next = || left.lock().unwrap_or_else(PoisonError::into_inner).next();
        while let Some((index, item)) = next() {
            let result = work(item);
            let mut done = done.lock().unwrap_or_else(PoisonError::into_inner);
            done.push((index, result));
        }
    });
    let mut done = done.into_inner().unwrap_or_else(PoisonError::into_inner);
    done.sort_unstable_by_key(|(index, _)| *index);
    done.into_iter().map(|(_, result)| result).collect()
}
