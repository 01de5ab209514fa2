//! Work split over the OpenMP threads that the matrix library already keeps.
//!
//! Those threads spin for a while after each matrix product. A second pool would fight them for the
//! cores, so the operators run on the same one: `GOMP_parallel` is looked up in the OpenMP library that
//! the process has already loaded. Without it everything runs on the calling thread.
#![allow(unsafe_code)] // symbol look-up, and a call into the OpenMP library

use std::ffi::{CString, c_uint, c_void};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use crate::error::CpuError;

type Parallel = unsafe extern "C" fn(extern "C" fn(*mut c_void), *mut c_void, c_uint, c_uint);

/// Whether large operators can use several threads: an OpenMP library with `GOMP_parallel` is loaded.
/// The answer is found at the first call and kept, so load the matrix library before.
pub fn shares_openmp() -> bool {
    parallel().is_some()
}

fn parallel() -> Option<Parallel> {
    static FOUND: OnceLock<Option<Parallel>> = OnceLock::new();
    *FOUND.get_or_init(|| {
        let maps = std::fs::read_to_string("/proc/self/maps").ok()?;
        let path = maps
            .lines()
            .filter_map(|line| line.find('/').map(|at| &line[at..]))
            .find(|path| path.contains("libgomp") || path.contains("libiomp5"))?;
        let path = CString::new(path).ok()?;
        // SAFETY: a NUL-terminated path; NOLOAD only takes a reference to a library already loaded.
        let library = unsafe { libc::dlopen(path.as_ptr(), libc::RTLD_NOW | libc::RTLD_NOLOAD) };
        if library.is_null() {
            return None;
        }
        // SAFETY: a live handle and a NUL-terminated name.
        let symbol = unsafe { libc::dlsym(library, c"GOMP_parallel".as_ptr()) };
        if symbol.is_null() {
            return None;
        }
        // SAFETY: the OpenMP ABI of GCC fixes this signature for this name.
        Some(unsafe { std::mem::transmute::<*mut c_void, Parallel>(symbol) })
    })
}

struct Job<'a> {
    task: &'a (dyn Fn(usize) + Sync),
    next: AtomicUsize,
    num_tasks: usize,
    panicked: AtomicBool,
}

impl Job<'_> {
    fn work(&self) {
        loop {
            let index = self.next.fetch_add(1, Ordering::Relaxed);
            if index >= self.num_tasks {
                return;
            }
            // Unwinding must not cross the OpenMP frames.
            if catch_unwind(AssertUnwindSafe(|| (self.task)(index))).is_err() {
                self.panicked.store(true, Ordering::Relaxed);
                return;
            }
        }
    }
}

extern "C" fn enter(data: *mut c_void) {
    // SAFETY: `run` passes a `Job` that outlives the parallel region.
    let job = unsafe { &*data.cast::<Job<'_>>() };
    job.work();
}

/// Calls `task` once with each of `0..num_tasks`, on up to `threads` threads, and waits.
pub(crate) fn run(
    threads: usize,
    num_tasks: usize,
    task: &(dyn Fn(usize) + Sync),
) -> Result<(), CpuError> {
    let job = Job {
        task,
        next: AtomicUsize::new(0),
        num_tasks,
        panicked: AtomicBool::new(false),
    };
    match parallel() {
        Some(start) if threads > 1 && num_tasks > 1 => {
            let data = (&raw const job).cast_mut().cast::<c_void>();
            // SAFETY: `enter` reads `data` as the `Job` it is; the call returns when all threads left.
            unsafe { start(enter, data, threads as c_uint, 0) };
        }
        _ => job.work(),
    }
    if job.panicked.load(Ordering::Relaxed) {
        Err(CpuError::Panicked)
    } else {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_task_runs_once() {
        let counts: Vec<AtomicUsize> = (0..100).map(|_| AtomicUsize::new(0)).collect();
        let done = run(2, 100, &|i| {
            counts[i].fetch_add(1, Ordering::Relaxed);
        });
        assert_eq!(done, Ok(()));
        assert!(
            counts
                .iter()
                .all(|count| count.load(Ordering::Relaxed) == 1)
        );
    }

    #[test]
    fn a_panic_becomes_an_error() {
        assert_eq!(
            run(1, 3, &|i| assert!(i < 2, "on purpose")),
            Err(CpuError::Panicked)
        );
    }
}
