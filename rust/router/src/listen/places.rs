//! Places for connections: bounded, and taken from who waits when all are in use.
//!
//! A connection is idle while no request of it runs. Where all places are taken, the one that has
//! been idle longest is closed for a new one; where none is idle, the one that has taken nothing of
//! its answers for longest. Else a new one gets a place of the
//! reserve, in which only probes are answered; the longest idle one of the reserve makes room in
//! turn. So peers that hold connections shut nobody out, and health answers at any load.

use std::collections::{BTreeSet, HashMap};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use super::answers::READS;
use super::turn::Turn;
use crate::sync::lock;

/// Connections that were asked to close and have not yet, at most: each holds a descriptor beside
/// the places.
const MAX_CLOSING: usize = 16;
/// Answers of a connection that may lie unread though their rest was dropped; one more closes it.
const MAX_STUCK: usize = 4;
/// How often it is asked who reads nothing, after nobody was found: that looks at every connection.
const ASK_EVERY: Duration = Duration::from_millis(100);

/// Places of one kind of listener. Cheap to clone.
#[derive(Clone, Debug)]
pub(crate) struct Places(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    limits: [usize; 2],
    silence: Duration,
    are_prompt: bool,
    table: Mutex<Table>,
    /// Rings when a connection that was asked to close has closed.
    closed: Notify,
}

#[derive(Debug, Default)]
struct Table {
    seats: HashMap<u64, Seat>,
    /// Seats by kind and by when they became idle.
    idle: [BTreeSet<(u64, u64)>; 2],
    taken: [usize; 2],
    num_closing: usize,
    clock: u64,
    /// When it was last asked who reads nothing.
    asked: Option<Instant>,
}

/// Kind of a place, and its index.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Ordinary = 0,
    Reserve = 1,
}

#[derive(Debug)]
struct Seat {
    kind: Kind,
    /// Requests that run, each with its turns.
    running: Vec<Turn>,
    /// When it became idle.
    since: u64,
    close: CancellationToken,
}

impl Places {
    /// `limit` places and `reserve` more for probes; a new connection may be silent for `silence`.
    pub(crate) fn new(limit: usize, reserve: usize, silence: Duration) -> Self {
        Self::begin([limit, reserve], silence, false)
    }

    /// Such places for peers that others wait for: they are read however many tasks wait.
    pub(crate) fn prompt(limit: usize, reserve: usize, silence: Duration) -> Self {
        Self::begin([limit, reserve], silence, true)
    }

    fn begin(limits: [usize; 2], silence: Duration, are_prompt: bool) -> Self {
        Self(Arc::new(Shared {
            limits,
            silence,
            are_prompt,
            table: Mutex::default(),
            closed: Notify::new(),
        }))
    }

    /// How long a new connection may be silent.
    pub(crate) fn silence(&self) -> Duration {
        self.0.silence
    }

    /// Waits while connections that must close still hold their descriptors.
    pub(crate) async fn settled(&self) {
        loop {
            let closed = self.0.closed.notified();
            if lock(&self.0.table).num_closing < MAX_CLOSING {
                return;
            }
            closed.await;
        }
    }

    /// A place for a new connection; none when every place is busy, those for probes too.
    pub(crate) fn take(&self) -> Option<Place> {
        let mut table = lock(&self.0.table);
        let kind = [Kind::Ordinary, Kind::Reserve];
        let kind = kind
            .into_iter()
            .find(|kind| table.make_room(*kind, self.0.limits))?;
        let close = CancellationToken::new();
        let id = table.seat(kind, close.clone());
        Some(Place(Arc::new(Held {
            places: self.clone(),
            id,
            close,
            bodies: Default::default(),
            num_stuck: AtomicUsize::new(0),
        })))
    }
}

impl Table {
    /// Makes room for one more of `kind`, if need be by closing the longest idle one.
    fn make_room(&mut self, kind: Kind, limits: [usize; 2]) -> bool {
        if self.taken[kind as usize] < limits[kind as usize] {
            return true;
        }
        let idle = self.idle[kind as usize].pop_first().map(|(_, id)| id);
        let Some(id) = idle.or_else(|| self.unread(kind, Instant::now())) else {
            return false;
        };
        if let Some(seat) = self.seats.remove(&id) {
            seat.close.cancel();
            self.taken[kind as usize] -= 1;
            self.num_closing += 1;
        }
        true
    }

    /// The seat of `kind` whose peer has taken nothing of any of its answers for longest.
    fn unread(&mut self, kind: Kind, now: Instant) -> Option<u64> {
        if self.asked.is_some_and(|asked| now < asked + ASK_EVERY) {
            return None;
        }
        let unread = self.seats.iter().filter_map(|(id, seat)| {
            let times = seat.running.iter().map(|turn| turn.unread(now));
            let shortest = times.min().flatten()?;
            (seat.kind == kind && shortest >= READS).then_some((shortest, *id))
        });
        let longest = unread.max();
        self.asked = longest.is_none().then_some(now);
        longest.map(|(_, id)| id)
    }

    fn tick(&mut self) -> u64 {
        self.clock += 1;
        self.clock
    }

    fn seat(&mut self, kind: Kind, close: CancellationToken) -> u64 {
        let id = self.tick();
        self.taken[kind as usize] += 1;
        self.idle[kind as usize].insert((id, id));
        let seat = Seat {
            kind,
            running: Vec::new(),
            since: id,
            close,
        };
        self.seats.insert(id, seat);
        id
    }
}

/// A connection's place, free again when the last copy is dropped.
#[derive(Clone, Debug)]
pub(crate) struct Place(Arc<Held>);

#[derive(Debug)]
struct Held {
    places: Places,
    id: u64,
    close: CancellationToken,
    /// Bytes of unfinished bodies, by [`Kept`].
    bodies: [Arc<AtomicUsize>; 3],
    /// Answers whose rest was dropped, and of which HTTP/2 still holds a piece.
    num_stuck: AtomicUsize,
}

/// What unfinished bodies are counted as, so that no kind keeps another out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kept {
    /// Of short calls that anyone may make.
    Open = 0,
    /// Of calls that anyone may make, and that last.
    Lasting = 1,
    /// Behind a key.
    Keyed = 2,
}

impl Place {
    /// Cancelled when the connection must close.
    pub(crate) fn close(&self) -> &CancellationToken {
        &self.0.close
    }

    /// Whether others wait for its peer.
    pub(super) fn is_prompt(&self) -> bool {
        self.0.places.0.are_prompt
    }

    /// What its unfinished bodies of a kind hold, in bytes.
    pub(crate) fn bodies(&self, kept: Kept) -> &Arc<AtomicUsize> {
        &self.0.bodies[kept as usize]
    }

    /// Notes that the rest of an answer was dropped, and closes the connection where there are many: HTTP/2 keeps
    /// what was given of each until its peer takes it.
    pub(super) fn stick(&self) {
        if self.0.num_stuck.fetch_add(1, Ordering::Relaxed) >= MAX_STUCK {
            self.0.close.cancel();
        }
    }

    /// Notes that such an answer ended.
    pub(super) fn unstick(&self) {
        self.0.num_stuck.fetch_sub(1, Ordering::Relaxed);
    }

    /// Marks a request as running; none when the place is one of the reserve and no other is free:
    /// then only probes may be answered.
    pub(crate) fn run(&self) -> Option<Running> {
        let places = &self.0.places.0;
        let turn = Turn::default();
        let mut table = lock(&places.table);
        let id = self.0.id;
        let is_reserve = |table: &Table| {
            let seat = table.seats.get(&id);
            seat.is_some_and(|seat| seat.kind == Kind::Reserve)
        };
        if is_reserve(&table) {
            if !table.make_room(Kind::Ordinary, places.limits) {
                return None;
            }
            table.taken[Kind::Reserve as usize] -= 1;
            table.taken[Kind::Ordinary as usize] += 1;
        }
        // A seat that is gone belongs to a connection that is closing: its request ends with it.
        if let Some(seat) = table.seats.get_mut(&id) {
            let (kind, since) = (seat.kind, seat.since);
            seat.kind = Kind::Ordinary;
            seat.running.push(turn.clone());
            table.idle[kind as usize].remove(&(since, id));
        }
        Some(Running {
            place: self.clone(),
            turn,
        })
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        let shared = &self.places.0;
        let mut table = lock(&shared.table);
        if let Some(seat) = table.seats.remove(&self.id) {
            table.taken[seat.kind as usize] -= 1;
            table.idle[seat.kind as usize].remove(&(seat.since, self.id));
        } else {
            table.num_closing -= 1;
            shared.closed.notify_waiters();
        }
    }
}

/// A request that runs, until dropped.
#[derive(Debug)]
pub(crate) struct Running {
    place: Place,
    turn: Turn,
}

impl Running {
    /// Whose turn it is: a peer that reads nothing keeps its place only while nobody needs it.
    pub(crate) fn turn(&self) -> Turn {
        self.turn.clone()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let held = &self.place.0;
        let mut table = lock(&held.places.0.table);
        let now = table.tick();
        let Some(seat) = table.seats.get_mut(&held.id) else {
            return;
        };
        if let Some(index) = seat.running.iter().position(|turn| turn.is(&self.turn)) {
            seat.running.swap_remove(index);
        }
        if seat.running.is_empty() {
            seat.since = now;
            let kind = seat.kind;
            table.idle[kind as usize].insert((now, held.id));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn places(limit: usize, reserve: usize) -> Places {
        Places::new(limit, reserve, Duration::from_secs(1))
    }

    #[test]
    fn longest_idle_connection_makes_room() {
        let places = places(2, 1);
        let first = places.take().unwrap();
        let second = places.take().unwrap();
        // A request makes the first one the younger of the two.
        drop(first.run());
        let third = places.take().unwrap();
        assert!(second.close().is_cancelled() && !first.close().is_cancelled());
        assert!(third.run().is_some());
    }

    #[test]
    fn busy_connections_are_kept_and_probes_have_a_reserve() {
        let places = places(1, 1);
        let busy = places.take().unwrap();
        let running = busy.run().unwrap();
        let probe = places.take().unwrap();
        assert!(probe.run().is_none());
        let next = places.take().unwrap();
        assert!(probe.close().is_cancelled() && !busy.close().is_cancelled());
        drop((running, busy));
        assert!(next.run().is_some(), "a place became free");
    }

    #[test]
    fn a_connection_that_reads_nothing_makes_room_where_none_is_idle() {
        let places = places(3, 0);
        let all = [(); 3].map(|()| places.take().unwrap());
        let running = [&all[0], &all[0], &all[1], &all[2]].map(|place| place.run().unwrap());
        let unread = |seconds| {
            let now = Instant::now() + Duration::from_secs(seconds);
            lock(&places.0.table).unread(Kind::Ordinary, now)
        };
        running[0].turn().set_clients();
        running[3].turn().set_clients();
        assert_eq!(unread(0), None, "each may still be read");
        assert_eq!(
            unread(60),
            Some(all[2].0.id),
            "the first one has another call"
        );
        running[1].turn().set_clients();
        assert_eq!(unread(60), Some(all[2].0.id), "it is the longest");
        running[3].turn().set_ours();
        assert_eq!(unread(60), Some(all[0].0.id));
    }

    #[tokio::test]
    async fn connections_that_close_are_waited_for() {
        let places = places(1, 0);
        let mut closing = Vec::new();
        for _ in 0..=MAX_CLOSING {
            closing.push(places.take().unwrap());
        }
        let settled = places.settled();
        tokio::pin!(settled);
        let waits = futures_util::poll!(settled.as_mut());
        assert!(waits.is_pending());
        closing.remove(0);
        settled.await;
    }

    #[test]
    fn everything_is_given_back() {
        let places = places(2, 1);
        let all: Vec<_> = (0..9).map(|_| places.take().unwrap()).collect();
        let running: Vec<_> = all.iter().map(Place::run).collect();
        drop((all, running));
        let table = lock(&places.0.table);
        assert_eq!((table.taken, table.num_closing), ([0, 0], 0));
        assert!(table.seats.is_empty() && table.idle.iter().all(BTreeSet::is_empty));
    }
}
