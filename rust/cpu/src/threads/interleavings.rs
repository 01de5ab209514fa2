//! Every interleaving of threads that wait for each other, within what loom can explore: `make test-loom`.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};

use loom::sync::Arc;
use loom::thread;

use crate::threads::barrier::Barrier;
use crate::threads::member::Member;
use crate::threads::park::Park;
use crate::threads::sync::AtomicUsize;

/// Switches between threads at other than waiting, per execution.
const PREEMPTIONS: usize = 3;

/// Runs `model` in every order of its threads' steps. A thread that sleeps for ever fails it.
fn explore(model: impl Fn() + Sync + Send + 'static) {
    let executions = std::sync::Arc::new(std::sync::atomic::AtomicUsize::new(0));
    let counted = std::sync::Arc::clone(&executions);
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(PREEMPTIONS);
    builder.check(move || {
        counted.fetch_add(1, Relaxed);
        model();
    });
    let executions = executions.load(Relaxed);
    assert!(executions > 10, "loom explores little: {executions}");
}

/// Runs `work` as two members of a run, on two threads.
fn both(work: fn(&Member<'_>, &[AtomicUsize; 2])) -> [usize; 2] {
    let common = Arc::new((
        Barrier::default(),
        [AtomicUsize::new(0), AtomicUsize::new(0)],
    ));
    let other = {
        let common = Arc::clone(&common);
        thread::spawn(move || work(&Member::new(1, 2, &common.0), &common.1))
    };
    work(&Member::new(0, 2, &common.0), &common.1);
    assert!(other.join().is_ok());
    [common.1[0].load(Relaxed), common.1[1].load(Relaxed)]
}

#[test]
fn no_wake_is_lost() {
    explore(|| {
        let common = Arc::new((Park::default(), AtomicUsize::new(0)));
        let sleeper = {
            let common = Arc::clone(&common);
            thread::spawn(move || common.0.until(|| common.1.load(Acquire) == 1))
        };
        common.1.store(1, Release);
        common.0.wake();
        assert!(sleeper.join().is_ok());
    });
}

#[test]
fn a_wake_for_something_else_ends_no_sleep() {
    explore(|| {
        let common = Arc::new((Park::default(), AtomicUsize::new(0)));
        let sleeper = {
            let common = Arc::clone(&common);
            thread::spawn(move || {
                common.0.until(|| common.1.load(Acquire) >= 2);
                assert_eq!(common.1.load(Relaxed), 2);
            })
        };
        for happened in 1..=2 {
            common.1.store(happened, Release);
            common.0.wake();
        }
        assert!(sleeper.join().is_ok());
    });
}

#[test]
fn all_sleepers_of_one_wake_go_on() {
    explore(|| {
        let common = Arc::new((Park::default(), AtomicUsize::new(0)));
        let sleepers = [(); 2].map(|()| {
            let common = Arc::clone(&common);
            thread::spawn(move || common.0.until(|| common.1.load(Acquire) == 1))
        });
        common.1.store(1, Release);
        common.0.wake();
        for sleeper in sleepers {
            assert!(sleeper.join().is_ok());
        }
    });
}

#[test]
fn what_is_written_before_a_barrier_is_read_behind_it() {
    explore(|| {
        let left = both(|member, cells| {
            let (own, other) = (&cells[member.index()], &cells[1 - member.index()]);
            own.store(1, Relaxed);
            member.barrier();
            assert!(other.load(Relaxed) >= 1);
            own.store(2, Relaxed);
            member.barrier();
            assert_eq!(other.load(Relaxed), 2);
        });
        assert_eq!(left, [2, 2]);
    });
}

#[test]
fn parts_of_shares_that_follow_each_other_run_once() {
    explore(|| {
        let ran = both(|member, counts| {
            for count in counts {
                member.share(2, |part| {
                    count.fetch_add(1 + 9 * part, Relaxed);
                });
            }
        });
        assert_eq!(ran, [11, 11]);
    });
}

#[test]
fn a_member_that_gives_up_frees_the_one_that_waits() {
    explore(|| {
        let barrier = Arc::new(Barrier::default());
        let waits = {
            let barrier = Arc::clone(&barrier);
            thread::spawn(move || {
                let member = Member::new(1, 2, &barrier);
                catch_unwind(AssertUnwindSafe(|| member.barrier())).is_err()
            })
        };
        barrier.give_up();
        assert!(matches!(waits.join(), Ok(true)));
        assert!(barrier.is_broken());
    });
}
