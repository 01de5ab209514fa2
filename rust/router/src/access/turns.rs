//! Whose work is next where a few seats do the work of all tenants.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex};
use std::time::Instant;

use tokio::sync::oneshot;
use tokio::time::timeout_at;

use crate::error::{ErrorKind, RequestError};
use crate::sync::lock;

/// Seats, and the lines before them: one for each tenant. Cheap to clone.
///
/// The lines have turns by what their work costs, so one tenant's ten long texts come before no short one
/// of another but those that have begun. Within a line the first to come is the first to go.
#[derive(Clone, Debug)]
pub(crate) struct Turns(Arc<Mutex<State>>);

#[derive(Debug)]
struct State {
    free: usize,
    lines: HashMap<Arc<str>, Line>,
    /// What the line had spent whose turn it was last. One that comes later begins there: it gets nothing
    /// for the time when it had no work.
    spent: u64,
    next_id: u64,
}

/// The waiting work of one tenant.
#[derive(Debug, Default)]
struct Line {
    /// What its turns have cost.
    spent: u64,
    /// In the order they came.
    waiters: BTreeMap<u64, Waiter>,
}

#[derive(Debug)]
struct Waiter {
    cost: u64,
    seat: oneshot::Sender<Seat>,
}

/// What waits, and leaves its line when dropped.
struct Waiting<'a> {
    turns: &'a Turns,
    tenant: &'a str,
    id: u64,
}

impl Turns {
    /// So many seats, all free.
    pub(crate) fn new(num_seats: usize) -> Self {
        Self(Arc::new(Mutex::new(State {
            free: num_seats,
            lines: HashMap::new(),
            spent: 0,
            next_id: 0,
        })))
    }

    /// Waits for a seat until `deadline`; `what` says in the error what was waited for. Where no keys are
    /// set, all are one tenant.
    ///
    /// # Errors
    /// [`ErrorKind::DeadlineExceeded`] when the deadline comes first.
    pub(crate) async fn seat(
        &self,
        tenant: Option<&str>,
        cost: usize,
        deadline: Instant,
        what: &str,
    ) -> Result<Seat, RequestError> {
        let tenant = tenant.unwrap_or_default();
        let (_waiting, seat) = {
            let mut state = lock(&self.0);
            if state.free > 0 {
                state.free -= 1;
                state.begin(tenant, cost as u64);
                return Ok(Seat::of(self));
            }
            let (sender, seat) = oneshot::channel();
            let id = state.enter(tenant, cost as u64, sender);
            let turns = self;
            (Waiting { turns, tenant, id }, seat)
        };
        let seat = timeout_at(deadline.into(), seat).await.map_err(|_| {
            let message = format!(
                "the deadline passed before {what}: the server was busy with others. Send less at once, or \
                 allow more time"
            );
            RequestError::new(ErrorKind::DeadlineExceeded, message)
        })?;
        seat.map_err(|_| RequestError::new(ErrorKind::Internal, "a seat was lost"))
    }

    /// Gives a seat to the next in line.
    fn hand_on(&self) {
        loop {
            let Some(next) = lock(&self.0).next() else {
                return;
            };
            match next.send(Seat::of(self)) {
                Ok(()) => return,
                // Who waited has just gone.
                Err(seat) => seat.forget(),
            }
        }
    }

    /// How many wait.
    #[cfg(test)]
    pub(crate) fn num_waiting(&self) -> usize {
        let state = lock(&self.0);
        state.lines.values().map(|line| line.waiters.len()).sum()
    }
}

impl State {
    fn line(&mut self, tenant: &str) -> &mut Line {
        let spent = self.spent;
        let known = self.lines.get_key_value(tenant);
        let name = known.map_or_else(|| tenant.into(), |(name, _)| Arc::clone(name));
        let line = self.lines.entry(name).or_default();
        line.spent = line.spent.max(spent);
        line
    }

    /// Begins a turn.
    fn begin(&mut self, tenant: &str, cost: u64) {
        let line = self.line(tenant);
        let spent = line.spent;
        line.spent = spent.saturating_add(cost.max(1));
        self.spent = self.spent.max(spent);
        // A line that is not ahead of the others is as one that was never here.
        let spent = self.spent;
        self.lines
            .retain(|_, line| line.spent > spent || !line.waiters.is_empty());
    }

    fn enter(&mut self, tenant: &str, cost: u64, seat: oneshot::Sender<Seat>) -> u64 {
        let id = self.next_id;
        self.next_id += 1;
        let line = self.line(tenant);
        line.waiters.insert(id, Waiter { cost, seat });
        id
    }

    /// Whoever has the next turn; none waits, and a seat is free, when there is none.
    fn next(&mut self) -> Option<oneshot::Sender<Seat>> {
        let first = |line: &Line| Some((line.spent, *line.waiters.first_key_value()?.0));
        let waiting = self.lines.iter();
        let waiting = waiting.filter_map(|(tenant, line)| Some((first(line)?, tenant)));
        let next = waiting.min().map(|(_, tenant)| Arc::clone(tenant));
        let next = next.and_then(|tenant| {
            let (_, waiter) = self.lines.get_mut(&tenant)?.waiters.pop_first()?;
            self.begin(&tenant, waiter.cost);
            Some(waiter.seat)
        });
        if next.is_none() {
            self.free += 1;
        }
        next
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        let mut state = lock(&self.turns.0);
        if let Some(line) = state.lines.get_mut(self.tenant) {
            line.waiters.remove(&self.id);
        }
    }
}

/// A turn that has begun; the next one's begins when it is dropped.
#[derive(Debug)]
pub(crate) struct Seat(Option<Turns>);

impl Seat {
    fn of(turns: &Turns) -> Self {
        Self(Some(turns.clone()))
    }

    fn forget(mut self) {
        self.0 = None;
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        if let Some(turns) = self.0.take() {
            turns.hand_on();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::task::JoinHandle;

    use super::*;
    use crate::sync::now;

    fn later() -> Instant {
        now() + Duration::from_secs(600)
    }

    /// The order in which seats were given.
    type Given = Arc<Mutex<Vec<&'static str>>>;

    /// Waits in line and gives the seat on at once; returns when it waits.
    async fn wait(
        turns: &Turns,
        tenant: &'static str,
        cost: usize,
        given: &Given,
    ) -> JoinHandle<()> {
        let before = turns.num_waiting();
        let task = tokio::spawn({
            let (turns, given) = (turns.clone(), given.clone());
            async move {
                let seat = turns.seat(Some(tenant), cost, later(), "").await;
                lock(&given).push(tenant);
                drop(seat);
            }
        });
        while turns.num_waiting() == before {
            tokio::task::yield_now().await;
        }
        task
    }

    /// The order in which these have a seat that is busy with `first` while they come.
    async fn order(first: (&str, usize), others: &[(&'static str, usize)]) -> Vec<&'static str> {
        let (turns, given) = (Turns::new(1), Given::default());
        let (tenant, cost) = first;
        let busy = turns.seat(Some(tenant), cost, later(), "").await;
        let mut tasks = Vec::new();
        for (tenant, cost) in others {
            tasks.push(wait(&turns, tenant, *cost, &given).await);
        }
        drop(busy);
        for task in tasks {
            task.await.unwrap();
        }
        let state = lock(&turns.0);
        assert_eq!(state.free, 1);
        assert!(state.lines.values().all(|line| line.waiters.is_empty()));
        drop(state);
        let given = lock(&given);
        given.clone()
    }

    #[tokio::test]
    async fn tenants_have_turns_however_many_wait_of_one() {
        let waiting = [("ann", 9), ("ann", 9), ("ann", 9), ("bob", 9), ("bob", 9)];
        let given = order(("ann", 9), &waiting).await;
        assert_eq!(given, ["bob", "ann", "bob", "ann", "ann"]);
    }

    #[tokio::test]
    async fn short_work_of_one_tenant_comes_before_the_next_long_one_of_another() {
        let waiting = [("ann", 100), ("bob", 1), ("bob", 1), ("bob", 1)];
        let given = order(("ann", 100), &waiting).await;
        assert_eq!(given, ["bob", "bob", "bob", "ann"]);
    }

    #[tokio::test]
    async fn a_tenant_saves_no_turns_while_it_has_no_work() {
        let (turns, given) = (Turns::new(1), Given::default());
        for _ in 0..5 {
            drop(turns.seat(Some("ann"), 10, later(), "").await);
        }
        let busy = turns.seat(Some("ann"), 10, later(), "").await;
        let mut tasks = Vec::new();
        for tenant in ["bob", "bob", "bob", "ann"] {
            tasks.push(wait(&turns, tenant, 10, &given).await);
        }
        drop(busy);
        for task in tasks {
            task.await.unwrap();
        }
        assert_eq!(*lock(&given), ["bob", "bob", "ann", "bob"]);
    }

    #[tokio::test]
    async fn who_goes_leaves_its_line_and_its_seat_to_the_next() {
        let (turns, given) = (Turns::new(1), Given::default());
        let busy = turns.seat(Some("ann"), 1, later(), "").await;
        let gone = wait(&turns, "bob", 1, &given).await;
        let next = wait(&turns, "cat", 1, &given).await;
        gone.abort();
        assert!(gone.await.is_err());
        assert_eq!(turns.num_waiting(), 1);
        drop(busy);
        next.await.unwrap();
        assert_eq!(*lock(&given), ["cat"]);
        // One that goes with a seat which it has not seen.
        let busy = turns.seat(Some("ann"), 1, later(), "").await;
        let mut waiting = Box::pin(turns.seat(Some("bob"), 1, later(), ""));
        assert!(futures_util::poll!(&mut waiting).is_pending());
        drop(busy);
        drop(waiting);
        assert_eq!(lock(&turns.0).free, 1);
    }

    #[tokio::test]
    async fn wait_ends_with_the_deadline() {
        let turns = Turns::new(1);
        let _busy = turns.seat(None, 1, later(), "").await;
        let late = turns.seat(None, 1, now(), "the text was tokenized").await;
        let error = late.unwrap_err();
        assert_eq!(error.kind, ErrorKind::DeadlineExceeded);
        let begin = "the deadline passed before the text was tokenized: the server was busy";
        assert!(error.message.starts_with(begin), "{error}");
        assert_eq!(turns.num_waiting(), 0);
    }
}
