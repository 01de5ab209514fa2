//! Work that several threads do together.

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
