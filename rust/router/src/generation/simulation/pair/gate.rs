//! What a router does, does not while it stands still, and never again once it is dead.

use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};

use futures_util::future::BoxFuture;

use crate::sync::lock;

/// What all futures of a router go through.
#[derive(Clone, Debug, Default)]
pub(super) struct Gate(Arc<Mutex<Inner>>);

#[derive(Default)]
struct Inner {
    state: State,
    /// Of those that were woken meanwhile.
    wakers: Vec<Waker>,
    /// What was given up meanwhile: a router that stands still does not notice.
    held: Vec<Box<dyn Held>>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum State {
    #[default]
    Open,
    Closed,
    Dead,
}

trait Held: Send {}

impl<T> Held for Pin<Box<dyn Future<Output = T> + Send>> {}

impl std::fmt::Debug for Inner {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Inner").finish_non_exhaustive()
    }
}

impl Gate {
    /// What the future gives; none if the router dies before.
    pub(super) fn pass<T: 'static>(
        &self,
        future: impl Future<Output = T> + Send + 'static,
    ) -> Passing<T> {
        Passing {
            gate: self.clone(),
            future: Some(Box::pin(future)),
        }
    }

    pub(super) fn is_open(&self) -> bool {
        lock(&self.0).state == State::Open
    }

    /// The router stands still.
    pub(super) fn close(&self) {
        lock(&self.0).state = State::Closed;
    }

    /// It goes on.
    pub(super) fn open(&self) {
        self.become_state(State::Open);
    }

    /// It is dead.
    pub(super) fn end(&self) {
        self.become_state(State::Dead);
    }

    fn become_state(&self, state: State) {
        let mut inner = lock(&self.0);
        inner.state = state;
        let (wakers, held) = (
            std::mem::take(&mut inner.wakers),
            std::mem::take(&mut inner.held),
        );
        drop(inner);
        drop(held);
        wakers.into_iter().for_each(Waker::wake);
    }
}

/// A future of a router.
pub(super) struct Passing<T: 'static> {
    gate: Gate,
    future: Option<BoxFuture<'static, T>>,
}

impl<T> Future for Passing<T> {
    type Output = Option<T>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<T>> {
        let state = {
            let mut inner = lock(&self.gate.0);
            // Who waits for something else hears of an end, too.
            if inner.state != State::Dead {
                let waker = context.waker();
                if !inner.wakers.iter().any(|one| one.will_wake(waker)) {
                    inner.wakers.push(waker.clone());
                }
            }
            inner.state
        };
        let Some(future) = &mut self.future else {
            return Poll::Ready(None);
        };
        match state {
            State::Open => future.as_mut().poll(context).map(Some),
            State::Closed => Poll::Pending,
            State::Dead => {
                self.future = None;
                Poll::Ready(None)
            }
        }
    }
}

impl<T> Drop for Passing<T> {
    fn drop(&mut self) {
        let mut inner = lock(&self.gate.0);
        if inner.state == State::Closed
            && let Some(future) = self.future.take()
        {
            inner.held.push(Box::new(future));
        }
    }
}
