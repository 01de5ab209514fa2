//! Threads that run one forward together.
#![allow(unsafe_code)] // lends a borrowed closure to threads that outlive it

use std::any::Any;
use std::cell::UnsafeCell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{Builder, JoinHandle};

use crate::error::CpuError;
use crate::threads::barrier::Barrier;
use crate::threads::member::Member;
use crate::threads::park::Park;

type Work<'a> = dyn Fn(&Member<'_>) + Sync + 'a;

/// Threads that run one forward together, created once and asleep between forwards.
///
/// A run costs a few microseconds when the threads are still awake from the last one. Several teams
/// may exist; runs of one team follow each other. A run must not start another one of the same team.
pub struct Team {
    common: Arc<Common>,
    workers: Vec<JoinHandle<()>>,
    turn: Mutex<()>,
}

struct Common {
    barrier: Barrier,
    /// Runs begun so far.
    runs: AtomicUsize,
    /// What to do in the current run; written before `runs` grows.
    job: UnsafeCell<Option<Job>>,
    /// Workers that have not finished the current run.
    busy: AtomicUsize,
    stop: AtomicBool,
    /// Where workers wait for the next run.
    idle: Park,
    /// Where the caller waits for the workers.
    done: Park,
}

#[derive(Clone, Copy)]
struct Job {
    work: *const Work<'static>,
    threads: usize,
}

// SAFETY: `job` is written only between runs, when no worker reads it: `Team::run` writes it under
// `turn` before it releases the run by `runs`, and returns only when `busy` is 0 again.
unsafe impl Sync for Common {}
// SAFETY: the pointer in `job` is followed only during a run, while what it points to is borrowed.
unsafe impl Send for Common {}

impl Team {
    /// Creates a team of `threads`: the caller of [`Team::run`] and `threads - 1` of its own. Has at least
    /// one member, and fewer than asked for when the system refuses to start threads.
    pub fn new(threads: usize) -> Self {
        let common = Arc::new(Common {
            barrier: Barrier::default(),
            runs: AtomicUsize::new(0),
            job: UnsafeCell::new(None),
            busy: AtomicUsize::new(0),
            stop: AtomicBool::new(false),
            idle: Park::default(),
            done: Park::default(),
        });
        let workers = (1..threads).map_while(|index| {
            let common = Arc::clone(&common);
            Builder::new()
                .name(format!("spectrie-cpu-{index}"))
                .spawn(move || common.serve(index))
                .ok()
        });
        let workers = workers.collect();
        Self {
            common,
            workers,
            turn: Mutex::new(()),
        }
    }

    /// Number of threads of a run, the caller included.
    pub fn threads(&self) -> usize {
        self.workers.len() + 1
    }

    /// Runs `work` on every thread, the caller being member 0, and waits for all.
    ///
    /// # Errors
    /// [`CpuError::Panicked`] when `work` panicked on any of them; the team stays usable.
    pub fn run(&self, work: &(dyn Fn(&Member<'_>) + Sync)) -> Result<(), CpuError> {
        let _turn = self.turn.lock().unwrap_or_else(PoisonError::into_inner);
        let common = &*self.common;
        let threads = self.threads();
        common.barrier.reset();
        if threads > 1 {
            // SAFETY: only the lifetime changes; no worker follows the pointer after this function
            // has seen `busy` at 0, which it does on every path.
            let work = unsafe { std::mem::transmute::<&Work<'_>, &'static Work<'static>>(work) };
            // SAFETY: all workers wait for the next run, see `Common`.
            unsafe { *common.job.get() = Some(Job { work, threads }) };
            common.busy.store(threads - 1, Ordering::Relaxed);
            common.runs.fetch_add(1, Ordering::Release);
            common.idle.wake();
        }
        common.take_part(0, threads, work);
        common
            .done
            .until(|| common.busy.load(Ordering::Acquire) == 0);
        if common.barrier.is_broken() {
            return Err(CpuError::Panicked);
        }
        Ok(())
    }
}

impl Drop for Team {
    fn drop(&mut self) {
        self.common.stop.store(true, Ordering::Release);
        self.common.idle.wake();
        for worker in self.workers.drain(..) {
            // Workers catch panics of the work, so there is no result to look at.
            let _: Result<(), Box<dyn Any + Send>> = worker.join();
        }
    }
}

impl Common {
    fn take_part(&self, index: usize, threads: usize, work: &Work<'_>) {
        let member = Member::new(index, threads, &self.barrier);
        if catch_unwind(AssertUnwindSafe(|| work(&member))).is_err() {
            self.barrier.give_up();
        }
    }

    /// A worker's life.
    fn serve(&self, index: usize) {
        for seen in 0.. {
            let begun = || self.runs.load(Ordering::Acquire) != seen;
            let stopped = || self.stop.load(Ordering::Acquire);
            // The pause between the forwards of a busy engine is shorter than the looks before a sleep.
            self.idle.until(|| begun() || stopped());
            if !begun() {
                return;
            }
            // SAFETY: written before the run was released, and not again until this worker is done.
            if let Some(job) = unsafe { *self.job.get() } {
                // SAFETY: `Team::run` keeps the borrow until `busy` is 0.
                self.take_part(index, job.threads, unsafe { &*job.work });
            }
            if self.busy.fetch_sub(1, Ordering::Release) == 1 {
                self.done.wake();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_part_of_every_share_runs_once() {
        for threads in 1..=4 {
            let team = Team::new(threads);
            assert_eq!(team.threads(), threads);
            let counts: Vec<AtomicUsize> = (0..60).map(|_| AtomicUsize::new(0)).collect();
            for _ in 0..20 {
                // Shares follow each other without barriers, so members are in different ones.
                let done = team.run(&|member| {
                    for share in 0..counts.len() / 3 {
                        member.share(3, |part| {
                            counts[share * 3 + part].fetch_add(1, Ordering::Relaxed);
                        });
                    }
                });
                assert_eq!(done, Ok(()));
            }
            assert!(counts.iter().all(|n| n.load(Ordering::Relaxed) == 20));
        }
    }

    #[test]
    fn a_barrier_separates_what_is_written_from_what_is_read() {
        let team = Team::new(3);
        let sums: Vec<AtomicUsize> = (0..50).map(|_| AtomicUsize::new(0)).collect();
        let done = team.run(&|member| {
            for sum in &sums {
                sum.fetch_add(member.index() + 1, Ordering::Relaxed);
                member.barrier();
                assert_eq!(sum.load(Ordering::Relaxed), 6);
            }
        });
        assert_eq!(done, Ok(()));
    }

    #[test]
    fn a_panic_frees_the_members_that_wait_and_leaves_the_team_usable() {
        for (threads, culprit) in [(1, 0), (3, 0), (3, 2)] {
            let team = Team::new(threads);
            let done = team.run(&|member| {
                assert!(member.index() != culprit, "on purpose");
                member.barrier();
            });
            assert_eq!(done, Err(CpuError::Panicked));
            let ran = AtomicUsize::new(0);
            let again = team.run(&|member| {
                member.barrier();
                ran.fetch_add(1, Ordering::Relaxed);
            });
            assert_eq!((again, ran.into_inner()), (Ok(()), threads));
        }
    }

    #[test]
    fn teams_run_side_by_side_and_wake_from_sleep() {
        let total = AtomicUsize::new(0);
        std::thread::scope(|scope| {
            for _ in 0..3 {
                scope.spawn(|| {
                    let team = Team::new(2);
                    for _ in 0..20 {
                        // Long enough that the worker sleeps in between now and then.
                        std::thread::sleep(std::time::Duration::from_micros(300));
                        let done = team.run(&|member| {
                            member.barrier();
                            total.fetch_add(1, Ordering::Relaxed);
                        });
                        assert_eq!(done, Ok(()));
                    }
                });
            }
        });
        assert_eq!(total.into_inner(), 3 * 20 * 2);
    }
}
