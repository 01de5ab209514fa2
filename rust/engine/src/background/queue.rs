//! Work that a step leaves over and the next plan does not need: learning from what the model gave,
//! teaching shared memory, and taking finished requests apart.
//!
//! With `overlap` it is put off until the next forward runs. It changes what is drafted at most,
//! never a token.

use std::collections::VecDeque;

use crate::background::feedback::Lessons;
use crate::scheduling::scheduler::Scheduler;
use crate::sequence::sequence::Sequence;

/// Pieces that may wait for each request that may run. Where a helper gets no time, the rest is
/// done before the next plan.
const MAX_WAITING: usize = 4;

/// Work to be done, in pieces of some microseconds.
#[derive(Debug)]
pub(crate) enum Chore {
    /// Teach running requests, and their namespaces, what a step computed: a piece for each.
    Learn(Lessons),
    /// Teach the first tokens of a finished request if any are to be kept, and drop it.
    End(Box<Sequence>, Option<usize>),
}

/// What was put off, the oldest first.
#[derive(Debug, Default)]
pub(crate) struct Chores {
    waiting: VecDeque<Chore>,
    num_pieces: usize,
}

impl Chores {
    pub(crate) fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }
}

impl Scheduler {
    /// Does a chore later if there is an overlap to do it in, else now.
    pub(crate) fn put_off(&mut self, chore: Chore) {
        self.chores.num_pieces += match &chore {
            Chore::Learn(lessons) => lessons.len(),
            Chore::End(..) => 1,
        };
        self.chores.waiting.push_back(chore);
        if !self.config.overlap {
            while self.do_chore() {}
        }
    }

    /// Does the oldest piece of work; false when there was none.
    pub(crate) fn do_chore(&mut self) -> bool {
        while let Some(chore) = self.chores.waiting.front_mut() {
            if let Chore::Learn(lessons) = chore {
                let Some(lesson) = lessons.pop() else {
                    self.chores.waiting.pop_front();
                    continue;
                };
                self.chores.num_pieces -= 1;
                // One that was preempted or ended meanwhile teaches when it goes on, or has taught.
                if let Some(sequence) = self.running.get_mut(&lesson.key) {
                    sequence.feed();
                    lessons.learn(&lesson, sequence);
                    sequence.teach_running();
                }
                return true;
            }
            if let Some(Chore::End(mut sequence, kept)) = self.chores.waiting.pop_front() {
                self.chores.num_pieces -= 1;
                if let Some(kept) = kept {
                    sequence.drafting.teach_rest(&sequence.tokens[..kept]);
                }
            }
            return true;
        }
        false
    }

    /// Does what nobody came to do, so that no more than some steps' chores ever wait.
    pub(crate) fn catch_up(&mut self) {
        while self.chores.num_pieces > MAX_WAITING * self.config.max_running {
            self.do_chore();
        }
    }
}
