//! Work that a step leaves over and the next plan does not need: learning from what the model gave,
//! inserting text in shared memory, and releasing finished requests.
//!
//! Where the engine overlaps, it is put off until the next forward runs. It changes what is drafted
//! at most, never a token.

use std::collections::VecDeque;

use super::feedback::{Feedback, Share};
use crate::request_key::RequestKey;

/// Pieces that may wait for each request that may run. Where the thread gets no time, the rest is
/// done before the next plan.
const MAX_WAITING: usize = 4;

/// A request as background work sees it.
pub(crate) trait Learner {
    /// Takes its share of what a step gave, and inserts what is now certain in shared memory.
    fn learn(&mut self, feedback: &Feedback, share: &Share);

    /// Inserts its first `num_kept` tokens in shared memory, if any, and drops it; gives it back while
    /// tokens are left to insert.
    fn end(self: Box<Self>, num_kept: Option<usize>) -> Option<Box<Self>>;
}

/// Work to be done, in pieces of some microseconds; of a millisecond where much text is inserted.
#[derive(Debug)]
pub(crate) enum Chore<L> {
    /// Let running requests learn from a step: a piece for each.
    Learn(Feedback),
    /// Let a finished request learn its first tokens if any are to be kept, and drop it.
    End(Box<L>, Option<usize>),
}

/// What was put off, the oldest first.
#[derive(Debug)]
pub(crate) struct ChoreQueue<L> {
    waiting: VecDeque<Chore<L>>,
    num_pieces: usize,
    /// Most pieces that may wait when a step is planned; 0 puts nothing off.
    max_pieces: usize,
}

impl<L: Learner> ChoreQueue<L> {
    /// A queue that puts work off if there is something to `overlap` it with.
    pub(crate) fn new(overlap: bool, max_running: usize) -> Self {
        Self {
            waiting: VecDeque::new(),
            num_pieces: 0,
            max_pieces: if overlap {
                MAX_WAITING * max_running
            } else {
                0
            },
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// Whether work may wait for the next forward.
    pub(crate) fn puts_off(&self) -> bool {
        self.max_pieces > 0
    }

    /// Pieces that have to be done before the next forward. What one of them leaves over, as the end
    /// of a long request does, is a piece of the next time.
    pub(crate) fn num_overdue(&self) -> usize {
        self.num_pieces.saturating_sub(self.max_pieces)
    }

    pub(crate) fn push(&mut self, chore: Chore<L>) {
        self.num_pieces += match &chore {
            Chore::Learn(feedback) => feedback.len(),
            Chore::End(..) => 1,
        };
        self.waiting.push_back(chore);
    }

    /// Does the oldest piece of work; false when there was none. `running` finds a request that
    /// still runs.
    pub(crate) fn do_one<'a>(
        &mut self,
        running: impl FnOnce(RequestKey) -> Option<&'a mut L>,
    ) -> bool
    where
        L: 'a,
    {
        while let Some(chore) = self.waiting.front_mut() {
            if let Chore::Learn(feedback) = chore {
                let Some(share) = feedback.pop() else {
                    self.waiting.pop_front();
                    continue;
                };
                self.num_pieces -= 1;
                // One that was preempted or ended meanwhile learns when it goes on, or has learned.
                if let Some(learner) = running(share.key) {
                    learner.learn(feedback, &share);
                }
                return true;
            }
            if let Some(Chore::End(learner, num_kept)) = self.waiting.pop_front() {
                match learner.end(num_kept) {
                    Some(learner) => self.waiting.push_back(Chore::End(learner, num_kept)),
                    None => self.num_pieces -= 1,
                }
            }
            return true;
        }
        false
    }
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;
    use std::rc::Rc;

    use super::*;

    type Log = Rc<RefCell<Vec<(usize, Option<usize>)>>>;

    /// Notes the numbers of those that learned, and of those that ended with what was kept.
    struct Pupil {
        number: usize,
        /// Pieces that its end takes beyond the first.
        num_more: usize,
        log: Log,
    }

    impl Learner for Pupil {
        fn learn(&mut self, _: &Feedback, _: &Share) {
            self.log.borrow_mut().push((self.number, None));
        }

        fn end(mut self: Box<Self>, num_kept: Option<usize>) -> Option<Box<Self>> {
            self.log.borrow_mut().push((self.number, num_kept));
            self.num_more.checked_sub(1).map(|num_more| {
                self.num_more = num_more;
                self
            })
        }
    }

    #[test]
    fn the_oldest_work_is_done_first_a_request_at_a_time() {
        let log = Log::default();
        let pupil = |number| Pupil {
            number,
            num_more: usize::from(number == 6),
            log: Rc::clone(&log),
        };
        let keys = [0, 1].map(RequestKey::new);
        let mut running = [pupil(0), pupil(1)];
        let mut queue = ChoreQueue::new(true, 1);
        let mut feedback = Feedback::new(None);
        for key in keys {
            let share = feedback.of_chunk(key, &[7], 0..0);
            feedback.push(share);
        }
        queue.push(Chore::Learn(feedback));
        for number in [5, 6, 7] {
            queue.push(Chore::End(Box::new(pupil(number)), Some(9)));
        }
        assert_eq!((queue.puts_off(), queue.num_overdue()), (true, 1));
        let mut rounds = 0;
        while queue.do_one(|key| running.get_mut(key.arrival() as usize)) {
            rounds += 1;
        }
        assert_eq!(
            (rounds, queue.is_empty(), queue.num_overdue()),
            (6, true, 0)
        );
        let expected = [
            (1, None),
            (0, None),
            (5, Some(9)),
            (6, Some(9)),
            (7, Some(9)),
            (6, Some(9)),
        ];
        assert_eq!(*log.borrow(), expected);
    }
}
