//! Threads that draft beside the one that runs steps.
//!
//! They are started when there is enough to do for the first time, and rest between two steps. Nobody waits
//! for one that has not begun: where the machine is busy, the thread that runs steps does it all. So work is
//! handed over and not lent: a drafter is its request's again when its draft is there.

use std::any::Any;
use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;

use spectrie_trie::{DraftTree, Drafter};

use crate::clock::Clock;

/// A draft to be made: at most `most` nodes and none below `min_value`.
#[derive(Debug)]
pub(crate) struct Job {
    /// Whose it is, for the one who asks.
    pub(crate) index: usize,
    pub(crate) drafter: Box<Drafter>,
    pub(crate) most: usize,
    pub(crate) min_value: f32,
}

/// A draft, and the drafter that made it.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) index: usize,
    pub(crate) drafter: Box<Drafter>,
    pub(crate) tree: DraftTree,
    /// What it took the thread.
    pub(crate) took_ms: f64,
}

/// An answer, or what its draft panicked with.
type Outcome = Result<Answer, Box<dyn Any + Send>>;

/// The threads. They end by themselves when this is dropped; a process that was forked has none of them and
/// needs none.
#[derive(Debug, Default)]
pub(crate) struct Helpers {
    table: Option<Arc<Table>>,
    num_started: usize,
}

/// What is to be done and was done.
#[derive(Debug)]
struct Table {
    state: Mutex<State>,
    asked: Condvar,
    answered: Condvar,
    clock: Arc<dyn Clock>,
}

#[derive(Debug, Default)]
struct State {
    jobs: VecDeque<Job>,
    /// How many of them there were.
    num_jobs: usize,
    outcomes: Vec<Outcome>,
    is_over: bool,
}

impl Helpers {
    /// Does all jobs on up to `threads` threads, this one included; the answers in any order.
    ///
    /// # Panics
    /// As a job does, once the others are done.
    pub(crate) fn answer(
        &mut self,
        jobs: Vec<Job>,
        threads: usize,
        clock: &Arc<dyn Clock>,
    ) -> Vec<Answer> {
        let num_jobs = jobs.len();
        let threads = threads.min(num_jobs);
        let table = self
            .table
            .get_or_insert_with(|| Arc::new(Table::new(clock)));
        let table = Arc::clone(table);
        let mut state = table.state();
        state.num_jobs = num_jobs;
        state.jobs.extend(jobs);
        drop(state);
        // Where no thread can be had, those that are there do it all.
        while self.num_started + 1 < threads && start(&table) {
            self.num_started += 1;
        }
        for _ in 1..threads {
            table.asked.notify_one();
        }
        let mut state = table.state();
        while state.outcomes.len() < num_jobs {
            state = match state.jobs.pop_front() {
                Some(job) => table.done(state, job),
                None => wait(&table.answered, state),
            };
        }
        let outcomes = std::mem::take(&mut state.outcomes);
        drop(state);
        let answer = |outcome: Outcome| outcome.unwrap_or_else(|panic| resume_unwind(panic));
        outcomes.into_iter().map(answer).collect()
    }
}

impl Drop for Helpers {
    fn drop(&mut self) {
        if let Some(table) = &self.table {
            table.state().is_over = true;
            table.asked.notify_all();
        }
    }
}

/// Starts a thread; false if there is none.
fn start(table: &Arc<Table>) -> bool {
    let table = Arc::clone(table);
    let named = thread::Builder::new().name("spectrie-drafts".into());
    named.spawn(move || table.help()).is_ok()
}

impl Table {
    fn new(clock: &Arc<dyn Clock>) -> Self {
        Self {
            state: Mutex::default(),
            asked: Condvar::new(),
            answered: Condvar::new(),
            clock: Arc::clone(clock),
        }
    }

    /// Does jobs until there is no one who asks.
    fn help(&self) {
        let mut state = self.state();
        while !state.is_over {
            state = match state.jobs.pop_front() {
                Some(job) => {
                    let state = self.done(state, job);
                    if state.outcomes.len() == state.num_jobs {
                        self.answered.notify_one();
                    }
                    state
                }
                None => wait(&self.asked, state),
            };
        }
    }

    /// Does a job that was taken out of `state`.
    fn done<'a>(&'a self, state: MutexGuard<'a, State>, job: Job) -> MutexGuard<'a, State> {
        drop(state);
        let outcome = catch_unwind(AssertUnwindSafe(|| job.answer(&*self.clock)));
        let mut state = self.state();
        state.outcomes.push(outcome);
        state
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // Nothing panics while it is held.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn wait<'a>(changed: &Condvar, state: MutexGuard<'a, State>) -> MutexGuard<'a, State> {
    changed.wait(state).unwrap_or_else(PoisonError::into_inner)
}

impl Job {
    fn answer(mut self, clock: &dyn Clock) -> Answer {
        let began_s = clock.now_s();
        let tree = self.drafter.draft(self.most, self.min_value);
        clock.drafted(self.drafter.visits());
        Answer {
            index: self.index,
            drafter: self.drafter,
            tree,
            took_ms: (clock.now_s() - began_s) * 1e3,
        }
    }
}
