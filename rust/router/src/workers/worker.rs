//! One worker that has dialled in, and the choices it runs.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use spectrie_proto::worker_v1::admin_call::Call;
use spectrie_proto::worker_v1::admin_reply::Reply;
use spectrie_proto::worker_v1::{
    AdminReply, Cancel, Hello, Learn, Load, RequestOutput, Start, router_message::Message,
};
use spectrie_types::Holdings;
use tokio::sync::oneshot;

use super::calls::Calls;
use super::mailbox::{Lesson, Mailbox};
use super::outgoing::Sender;
use super::routes::Routes;
use crate::failover::{Candidate, Health};
use crate::sync::pace;
use crate::sync::{lock, now};

/// Namespaces of which a worker's word is remembered that it forgot them; those forgotten longest ago go
/// first, and are asked for again.
const MAX_CONFIRMED: usize = 16_384;

/// A connected worker.
///
/// The choices it runs are its routes: the load that decides where a request goes is their number,
/// so it cannot drift from what runs.
#[derive(Debug)]
pub(crate) struct Worker {
    /// Unique in this router's life.
    pub(crate) id: String,
    pub(crate) hello: Hello,
    sender: Sender,
    /// `None` once the worker is lost, so that no choice is added after its end.
    routes: Mutex<Option<Routes>>,
    calls: Calls,
    load: Mutex<Load>,
    /// The generation up to which it forgot each namespace.
    confirmed: Mutex<BTreeMap<String, u64>>,
    is_draining: AtomicBool,
    health: Mutex<Health>,
    /// Choices that it held when it was lost.
    num_lost: AtomicUsize,
}

/// One choice to be sent to a worker.
#[derive(Debug)]
pub(crate) struct Dispatch {
    pub(crate) start: Start,
    pub(crate) mailbox: Arc<Mailbox>,
    /// The choice's place in its mailbox.
    pub(crate) index: usize,
    /// Whether nothing else may run on its worker until it has a token.
    pub(crate) is_alone: bool,
}

impl Worker {
    pub(crate) fn new(id: String, hello: Hello, sender: Sender) -> Self {
        let routes = Mutex::new(Some(Routes::default()));
        Self {
            id,
            hello,
            sender,
            routes,
            calls: Calls::default(),
            load: Mutex::default(),
            confirmed: Mutex::default(),
            is_draining: AtomicBool::new(false),
            health: Mutex::default(),
            num_lost: AtomicUsize::new(0),
        }
    }

    /// Whether it takes no new choices and ends with those it has.
    pub(crate) fn is_draining(&self) -> bool {
        self.is_draining.load(Ordering::Relaxed)
    }

    /// Notes that it takes no new choices; see `Registry::begin_drain`.
    pub(super) fn begin_drain(&self) {
        self.is_draining.store(true, Ordering::Relaxed);
    }

    /// Whether it is ejected: others are preferred to it, whatever they are asked.
    pub(super) fn is_ejected(&self, now: Instant) -> bool {
        lock(&self.health).is_out(now)
    }

    /// It failed a choice of that turn by its own fault; see [`Health::failed`].
    pub(super) fn failed(&self, turn: u64, now: Instant, may_eject: bool) -> Option<Duration> {
        lock(&self.health).failed(turn, now, may_eject)
    }

    /// It completed an answer of that turn; see [`Health::answered`].
    pub(super) fn answered(&self, turn: u64) -> bool {
        lock(&self.health).answered(turn)
    }

    /// Choices that it left when it was lost, or is about to leave.
    pub(crate) fn num_left(&self) -> usize {
        let routes = lock(&self.routes);
        let num_lost = || self.num_lost.load(Ordering::Relaxed);
        routes.as_ref().map_or_else(num_lost, Routes::len)
    }

    /// Choices that run or wait on this worker.
    pub(crate) fn num_choices(&self) -> usize {
        lock(&self.routes).as_ref().map_or(0, Routes::len)
    }

    /// Looks at what each tenant holds of those.
    pub(crate) fn with_held(&self, look: impl FnOnce(&Holdings)) {
        if let Some(routes) = lock(&self.routes).as_ref() {
            look(routes.held());
        }
    }

    /// Choices that end in a second, as far as it can be known.
    pub(crate) fn pace(&self, now: Instant) -> f64 {
        let routes = lock(&self.routes);
        routes.as_ref().map_or(0.0, |routes| routes.pace(now))
    }

    /// After what time it will have ended another choice.
    pub(crate) fn next_end(&self) -> Duration {
        pace::time_for(1, self.pace(now()))
    }

    /// Choices that this worker runs at once, at least 1.
    pub(crate) fn max_running(&self) -> usize {
        self.hello
            .capacity
            .map_or(1, |capacity| capacity.max_running.max(1) as usize)
    }

    /// Longest prompt plus answer that fits this worker, in tokens.
    pub(crate) fn max_context(&self) -> u32 {
        self.hello.capacity.map_or(0, |capacity| {
            capacity
                .max_context
                .min(capacity.num_pages.saturating_mul(capacity.page_size))
        })
    }

    /// Tokens that its prefix cache holds at most.
    pub(crate) fn cache_tokens(&self) -> usize {
        self.hello.capacity.map_or(0, |capacity| {
            capacity.num_pages.saturating_mul(capacity.page_size) as usize
        })
    }

    /// What placing a choice needs to know of this worker.
    pub(crate) fn candidate(&self) -> Candidate<'_> {
        let routes = lock(&self.routes);
        let routes = routes.as_ref();
        Candidate {
            id: &self.id,
            fingerprint: &self.hello.numeric_fingerprint,
            max_context: self.max_context(),
            num_choices: routes.map_or(0, Routes::len),
            is_idle: routes.is_some_and(Routes::is_idle),
            max_running: self.max_running(),
            is_reserved: routes.is_some_and(Routes::is_reserved),
            is_draining: self.is_draining(),
            is_ejected: self.is_ejected(now()),
        }
    }

    /// Sends a choice.
    ///
    /// # Errors
    /// Gives it back when the worker is lost.
    pub(crate) fn dispatch(
        self: &Arc<Self>,
        dispatch: Box<Dispatch>,
    ) -> Result<ChoiceGuard, Box<Dispatch>> {
        let mut routes = lock(&self.routes);
        let Some(routes) = routes.as_mut() else {
            return Err(dispatch);
        };
        let Dispatch {
            start,
            mailbox,
            index,
            is_alone,
        } = *dispatch;
        let guard = ChoiceGuard {
            worker: self.clone(),
            wire_id: start.request_id.clone(),
            attempt: start.attempt,
            turn: lock(&self.health).begin(now()),
        };
        mailbox.reset(index);
        routes.insert(&start, mailbox, index, is_alone);
        // A queue without reader means that the session is ending; it will lose this route.
        self.sender.order(Message::Start(start));
        Ok(guard)
    }

    /// Hands a step's outputs to their streams; those of unknown or older attempts are dropped.
    /// Gives whether a choice that had to be alone no longer must: others may run here again.
    pub(crate) fn deliver(&self, outputs: Vec<RequestOutput>) -> bool {
        let mut routes = lock(&self.routes);
        let Some(routes) = routes.as_mut() else {
            return false;
        };
        let mut was_freed = false;
        for output in outputs {
            let Some((mailbox, index, lesson)) = routes.take(&output, &mut was_freed) else {
                continue;
            };
            mailbox.deliver(index, output, lesson);
        }
        was_freed
    }

    /// The lesson of an attempt from which it learned, if the router took its end; see [`Routes::learned`].
    pub(super) fn learned(&self, wire_id: &str, attempt: Option<u32>) -> Option<Arc<Lesson>> {
        lock(&self.routes).as_mut()?.learned(wire_id, attempt)
    }

    /// Ends the worker: notifies every choice it held and accepts no more.
    pub(crate) fn lose(&self, status: tonic::Status) {
        let mut routes = lock(&self.routes);
        let num_lost = routes.as_ref().map_or(0, Routes::len);
        self.num_lost.fetch_add(num_lost, Ordering::Relaxed);
        // Sent under the lock: a request without a route may reset its inbox and try elsewhere.
        for route in routes.take().into_iter().flat_map(Routes::into_routes) {
            route.mailbox.lose(route.index);
        }
        drop(routes);
        self.calls.lose();
        self.sender.end(status);
    }

    /// Passes on text that another worker learned.
    pub(crate) fn learn(&self, learn: Learn) -> bool {
        self.sender.learn(learn)
    }

    /// The same, as soon as there is room for it.
    pub(crate) async fn learn_when_room(&self, learn: Learn) {
        let learn = Message::Learn(learn);
        self.sender.order_after_learnt(learn).await;
    }

    /// Asks about draft memory; the answer's channel is closed when the worker is lost.
    pub(crate) fn ask(&self, call: Call) -> oneshot::Receiver<Reply> {
        let (call, answer) = self.calls.open(call);
        self.order(Message::AdminCall(call));
        answer
    }

    /// Asks the same once all waiting learned text has been sent to the worker.
    pub(crate) async fn ask_after_learnt(&self, call: Call) -> oneshot::Receiver<Reply> {
        let (call, answer) = self.calls.open(call);
        let order = Message::AdminCall(call);
        self.sender.order_after_learnt(order).await;
        answer
    }

    /// Whether it said that it forgot this generation of a namespace.
    pub(crate) fn has_confirmed(&self, namespace: &str, generation: u64) -> bool {
        let confirmed = lock(&self.confirmed);
        confirmed
            .get(namespace)
            .is_some_and(|one| *one >= generation)
    }

    /// Notes that it forgot this generation of a namespace.
    pub(crate) fn confirm(&self, namespace: &str, generation: u64) {
        let mut confirmed = lock(&self.confirmed);
        let known = confirmed.entry(namespace.to_owned()).or_default();
        *known = generation.max(*known);
        if confirmed.len() > MAX_CONFIRMED {
            let oldest = confirmed.iter().min_by_key(|(_, generation)| **generation);
            if let Some(name) = oldest.map(|(name, _)| name.clone()) {
                confirmed.remove(&name);
            }
        }
    }

    /// Notes that it may have been taught text of a namespace since.
    pub(crate) fn retract(&self, namespace: &str) {
        lock(&self.confirmed).remove(namespace);
    }

    /// Takes the answer to a question.
    pub(crate) fn answer(&self, reply: AdminReply) {
        self.calls.answer(reply);
    }

    /// Keeps the worker's latest load.
    pub(crate) fn set_load(&self, load: Load) {
        *lock(&self.load) = load;
    }

    /// Its latest load and totals; zeros before the first.
    pub(crate) fn load(&self) -> Load {
        lock(&self.load).clone()
    }

    pub(crate) fn order(&self, message: Message) -> bool {
        self.sender.order(message)
    }
}

/// Owns one running choice: dropping it cancels the choice, unless it has ended.
#[derive(Debug)]
pub(crate) struct ChoiceGuard {
    worker: Arc<Worker>,
    wire_id: String,
    attempt: u32,
    turn: u64,
}

impl ChoiceGuard {
    /// Its turn at the worker; see [`Health::begin`].
    pub(crate) fn turn(&self) -> u64 {
        self.turn
    }

    /// The worker that runs the choice.
    pub(crate) fn worker(&self) -> &Arc<Worker> {
        &self.worker
    }

    /// Ends a choice that a stop text ended; its last output is still awaited.
    pub(crate) fn stop(&self, keep_tokens: u32) {
        if self.is_routed() {
            self.cancel(Some(keep_tokens), true);
        }
    }

    fn is_routed(&self) -> bool {
        let routes = lock(&self.worker.routes);
        let routes = routes.as_ref();
        routes.is_some_and(|routes| routes.has(&self.wire_id, self.attempt))
    }

    fn cancel(&self, keep_tokens: Option<u32>, finished: bool) {
        self.worker.order(Message::Cancel(Cancel {
            request_id: self.wire_id.clone(),
            attempt: self.attempt,
            keep_tokens,
            finished,
        }));
    }
}

impl Drop for ChoiceGuard {
    fn drop(&mut self) {
        let mut routes = lock(&self.worker.routes);
        let Some(routes) = routes.as_mut() else {
            return;
        };
        if routes.leave(&self.wire_id, self.attempt) {
            self.cancel(None, false);
        }
    }
}
