//! Choices of one model that lost their worker, and wait for another.
//!
//! A waiting choice is sent in the moment that a worker joins or is free for it: no new request
//! comes before it, and no slow client delays it.

use std::sync::Arc;

use tokio::sync::oneshot;

use super::routes::tenant_of;
use super::worker::{ChoiceGuard, Dispatch, Worker};
use crate::failover::{Need, Queue};

/// A choice that waits, and who hears where it went.
#[derive(Debug)]
struct Waiter {
    dispatch: Box<Dispatch>,
    placed: oneshot::Sender<ChoiceGuard>,
}

/// The choices that wait, in order.
#[derive(Debug, Default)]
pub(super) struct Parked(Queue<Waiter>);

impl Parked {
    /// Adds a choice; the guard comes through what this gives.
    pub(super) fn push(
        &mut self,
        need: Need,
        dispatch: Dispatch,
    ) -> oneshot::Receiver<ChoiceGuard> {
        let (placed, receiver) = oneshot::channel();
        let dispatch = Box::new(dispatch);
        self.0.push(need, Waiter { dispatch, placed });
        receiver
    }

    /// The worker that is kept free of new choices.
    pub(super) fn cleared(&self) -> Option<&str> {
        self.0.cleared()
    }

    /// The tenant of each choice that waits.
    pub(super) fn tenants(&self) -> impl Iterator<Item = &str> {
        let awaited = self.0.iter().filter(|waiter| !waiter.placed.is_closed());
        awaited.map(|waiter| tenant_of(&waiter.dispatch.start))
    }

    /// Sends every choice that one of `workers` may take.
    pub(super) fn settle(&mut self, workers: &[Arc<Worker>]) {
        self.0.retain(|waiter| !waiter.placed.is_closed());
        let mut lost = Vec::new();
        loop {
            let is_here = |worker: &&Arc<Worker>| !lost.contains(&worker.id);
            let workers: Vec<_> = workers.iter().filter(is_here).collect();
            let candidates: Vec<_> = workers.iter().map(|worker| worker.candidate()).collect();
            let Some((place, need, waiter)) = self.0.next(&candidates) else {
                return;
            };
            let Waiter { dispatch, placed } = waiter;
            match workers[place].dispatch(dispatch) {
                // A receiver that went a moment ago: the guard cancels the choice.
                Ok(guard) => drop(placed.send(guard)),
                // It is about to leave the registry.
                Err(dispatch) => {
                    lost.push(workers[place].id.clone());
                    self.0.push_front(need, Waiter { dispatch, placed });
                }
            }
        }
    }

    /// Ends every wait: other weights are served under the model's name now.
    pub(super) fn abandon(&mut self) {
        for (_, Waiter { dispatch, placed }) in self.0.take() {
            drop(placed);
            dispatch.mailbox.lose(dispatch.index);
        }
    }

    /// How many wait.
    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.0.len()
    }
}
