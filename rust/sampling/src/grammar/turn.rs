//! Whose compilation may begin: first come, first served, a few at once.

use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Compilations at once, those given up on included; others wait for their turn.
pub(super) const MAX_COMPILING: usize = 4;

/// How often those who wait are asked whether they still do.
pub(super) const ASK_EVERY: Duration = Duration::from_millis(50);

/// The compilations that run, and the line of those that wait.
#[derive(Default)]
pub(super) struct Turns {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    num_compiling: usize,
    num_tickets: u64,
    line: VecDeque<u64>,
}

/// One of the compilations that may run at once; ends when dropped, by a panic too.
pub(super) struct Turn(Arc<Turns>);

impl Turn {
    /// Waits in line until fewer than [`MAX_COMPILING`] others compile; None if `goes_on` says no
    /// before.
    pub(super) fn await_one(turns: &Arc<Turns>, goes_on: &dyn Fn() -> bool) -> Option<Self> {
        let ticket = Ticket::take(turns);
        let mut state = turns.state();
        loop {
            if state.num_compiling < MAX_COMPILING && state.line.front() == Some(&ticket.number) {
                state.num_compiling += 1;
                return Some(Self(Arc::clone(turns)));
            }
            let waited = turns.changed.wait_timeout(state, ASK_EVERY);
            // It may take locks of its own.
            drop(waited.unwrap_or_else(PoisonError::into_inner));
            if !goes_on() {
                return None;
            }
            state = turns.state();
        }
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        self.0.state().num_compiling -= 1;
        self.0.changed.notify_all();
    }
}

/// A place in the line; given up when dropped, by a panic of the one who waits too.
struct Ticket<'a> {
    turns: &'a Turns,
    number: u64,
}

impl<'a> Ticket<'a> {
    fn take(turns: &'a Turns) -> Self {
        let mut state = turns.state();
        let number = state.num_tickets;
        state.num_tickets += 1;
        state.line.push_back(number);
        Self { turns, number }
    }
}

impl Drop for Ticket<'_> {
    fn drop(&mut self) {
        let mut state = self.turns.state();
        state.line.retain(|other| *other != self.number);
        // There may be room for the next one.
        self.turns.changed.notify_all();
    }
}

impl Turns {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::thread;

    use super::*;

    fn take(turns: &Arc<Turns>) -> Turn {
        Turn::await_one(turns, &|| true).unwrap()
    }

    #[test]
    fn those_who_wait_get_their_turn_in_the_order_they_came() {
        let turns = Arc::new(Turns::default());
        let mut running: Vec<Turn> = (0..MAX_COMPILING).map(|_| take(&turns)).collect();
        let order = Arc::new(Mutex::new(Vec::new()));
        let waiting: Vec<_> = (0..5)
            .map(|asker| {
                let (theirs, order) = (Arc::clone(&turns), Arc::clone(&order));
                let thread = thread::spawn(move || {
                    let turn = take(&theirs);
                    order.lock().unwrap().push(asker);
                    drop(turn);
                });
                while turns.state().line.len() <= asker {
                    thread::yield_now();
                }
                thread
            })
            .collect();
        assert!(order.lock().unwrap().is_empty());
        // One at a time, so that the order in which they note it is that of their turns.
        drop(running.pop());
        for thread in waiting {
            thread.join().unwrap();
        }
        assert_eq!(*order.lock().unwrap(), [0, 1, 2, 3, 4]);
    }

    #[test]
    fn who_no_longer_waits_leaves_the_line_and_takes_no_turn() {
        let turns = Arc::new(Turns::default());
        let running: Vec<Turn> = (0..MAX_COMPILING).map(|_| take(&turns)).collect();
        let num_asked = AtomicUsize::new(0);
        let turn = Turn::await_one(&turns, &|| num_asked.fetch_add(1, Ordering::Relaxed) < 3);
        assert!(turn.is_none());
        assert_eq!(num_asked.into_inner(), 4);
        assert!(turns.state().line.is_empty());
        drop(running);
        assert_eq!(turns.state().num_compiling, 0);
    }

    #[test]
    fn who_panics_while_it_waits_leaves_the_line_to_the_others() {
        let turns = Arc::new(Turns::default());
        let running: Vec<Turn> = (0..MAX_COMPILING).map(|_| take(&turns)).collect();
        let theirs = Arc::clone(&turns);
        let thread =
            thread::spawn(move || Turn::await_one(&theirs, &|| panic!("a caller")).is_some());
        assert!(thread.join().is_err());
        assert!(turns.state().line.is_empty());
        drop(running);
        let turn = Turn::await_one(&turns, &|| false);
        assert!(turn.is_some());
        drop(turn);
        assert_eq!(turns.state().num_compiling, 0);
    }
}
