//! The thread that reads blocks of corpora in the background, so that no draft waits for them.

use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, Weak};
use std::thread::{self, JoinHandle};

/// Most requests that wait; beyond it the oldest are dropped.
const MAX_WAITING: usize = 256;

/// What a draft looked for and did not find in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Wanted {
    /// The block of a word.
    Word(u64),
    /// The block of a word that leads to a chain, and what its walk visits next.
    Chain { order: usize, word: u64 },
}

/// A corpus that reads its own blocks.
pub(super) trait Fetch: Send + Sync {
    /// Reads what a draft did not find.
    fn fetch(&self, wanted: Wanted);
    /// Reads some blocks from `first` on while there is room; gives the next one to read, or `None`
    /// at the end.
    fn preload(&self, first: usize) -> Option<usize>;
}

/// A queue of requests and the thread that works it off.
#[derive(Debug)]
pub(super) struct Loader {
    queue: Arc<Queue>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Default)]
struct Queue {
    work: Mutex<Work>,
    changed: Condvar,
}

#[derive(Default)]
struct Work {
    /// Newest last, and served first.
    wanted: VecDeque<(Weak<dyn Fetch>, Wanted)>,
    /// Corpora to load whole, and the block to go on with.
    preloads: VecDeque<(Weak<dyn Fetch>, usize)>,
    is_busy: bool,
    is_stopped: bool,
}

impl std::fmt::Debug for Queue {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Queue").finish_non_exhaustive()
    }
}

impl Queue {
    fn work(&self) -> MutexGuard<'_, Work> {
        self.work.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wait<'a>(&self, work: MutexGuard<'a, Work>) -> MutexGuard<'a, Work> {
        let waited = self.changed.wait(work);
        waited.unwrap_or_else(PoisonError::into_inner)
    }

    fn run(&self) {
        let mut work = self.work();
        while !work.is_stopped {
            let wanted = work.wanted.pop_back();
            let preload = if wanted.is_none() {
                work.preloads.pop_front()
            } else {
                None
            };
            if wanted.is_none() && preload.is_none() {
                work = self.wait(work);
                continue;
            }
            work.is_busy = true;
            drop(work);
            if let Some((corpus, wanted)) = wanted
                && let Some(corpus) = corpus.upgrade()
            {
                corpus.fetch(wanted);
            }
            let next = preload.and_then(|(weak, first)| {
                let next = weak.upgrade()?.preload(first)?;
                Some((weak, next))
            });
            work = self.work();
            work.preloads.extend(next);
            work.is_busy = false;
            self.changed.notify_all();
        }
    }
}

impl Loader {
    /// Starts the thread. Where the system refuses one, drafts read what their bound allows.
    pub(super) fn start() -> Self {
        let queue = Arc::new(Queue::default());
        let worker = Arc::clone(&queue);
        let thread = thread::Builder::new()
            .name("spectrie-corpora".into())
            .spawn(move || worker.run());
        Self {
            queue,
            thread: thread.ok(),
        }
    }

    /// Asks for what a draft did not find.
    pub(super) fn want(&self, corpus: Weak<dyn Fetch>, wanted: Wanted) {
        if self.thread.is_none() {
            return;
        }
        let mut work = self.queue.work();
        if work.wanted.len() >= MAX_WAITING {
            work.wanted.pop_front();
        }
        work.wanted.push_back((corpus, wanted));
        drop(work);
        self.queue.changed.notify_all();
    }

    /// Asks for a whole corpus, after all that drafts want.
    pub(super) fn preload(&self, corpus: Weak<dyn Fetch>) {
        if self.thread.is_none() {
            return;
        }
        self.queue.work().preloads.push_back((corpus, 0));
        self.queue.changed.notify_all();
    }

    /// Waits until nothing is asked for any more.
    pub(super) fn wait(&self) {
        let mut work = self.queue.work();
        while work.is_busy || !work.wanted.is_empty() || !work.preloads.is_empty() {
            work = self.queue.wait(work);
        }
    }
}

impl Drop for Loader {
    fn drop(&mut self) {
        self.queue.work().is_stopped = true;
        self.queue.changed.notify_all();
        // The thread itself drops the loader if it held the last corpus; it ends on its own then.
        if let Some(thread) = self.thread.take()
            && thread.thread().id() != thread::current().id()
        {
            // Its panic, if any, was reported when it happened.
            let _ = thread.join();
        }
    }
}
