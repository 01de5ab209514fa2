//! Clients that go on with their streams at whichever router they find.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use tokio::task::JoinHandle;

use super::super::client::{Ask, Seen, read, start};
use super::super::dice::Dice;
use super::gate::Gate;
use crate::error::{ErrorKind, RequestError};
use crate::generation::{Caller, Generation};
use crate::sync::{lock, now};

/// How long a client asks for a stream that no router knows.
const PATIENCE: Duration = Duration::from_secs(4);

/// A router, as clients find it.
#[derive(Clone, Debug)]
pub(super) struct Door {
    pub(super) site: usize,
    pub(super) generation: Generation,
    pub(super) gate: Gate,
}

/// The routers that live.
pub(super) type Doors = Arc<Mutex<Vec<Door>>>;

/// What became of a client beside what it has.
#[derive(Clone, Debug, Default)]
pub(super) struct Trail {
    /// Where its stream ran, and since when.
    pub(super) visits: Vec<(usize, Instant)>,
    /// Its router died, or drained, before it had begun.
    pub(super) is_unbegun: bool,
    /// No router knew its stream any more.
    pub(super) is_forsaken: bool,
}

/// A client at work.
#[derive(Debug)]
pub(super) struct Roamer {
    pub(super) ask: Ask,
    pub(super) seen: Arc<Mutex<Seen>>,
    pub(super) trail: Arc<Mutex<Trail>>,
    pub(super) reading: JoinHandle<Result<(), String>>,
    doors: Doors,
    dice: Dice,
}

impl Roamer {
    pub(super) fn start(ask: Ask, doors: &Doors, first: Door, seed: u64) -> Self {
        let seen = Arc::new(Mutex::new(Seen::nothing(&ask)));
        let trail = Arc::default();
        let mut roamer = Self {
            ask,
            seen,
            trail,
            reading: tokio::spawn(async { Ok(()) }),
            doors: doors.clone(),
            dice: Dice::new(seed),
        };
        roamer.read(Some(first), Duration::ZERO);
        roamer
    }

    /// Reads its stream to the end, beginning at this router.
    fn read(&mut self, first: Option<Door>, pause: Duration) {
        let journey = Journey {
            connection: lock(&self.seen).connection,
            ask: self.ask.clone(),
            seen: self.seen.clone(),
            trail: self.trail.clone(),
            doors: self.doors.clone(),
            dice: Dice::new(self.dice.next()),
        };
        self.reading = tokio::spawn(journey.go(first, pause));
    }

    /// Whether it can go on when it is cut.
    pub(super) fn can_be_cut(&self) -> bool {
        !self.reading.is_finished() && lock(&self.seen).token.is_some()
    }

    /// Its connection ends, and after a while it goes on at another; a router that does not notice goes on
    /// with the first one meanwhile.
    pub(super) fn cut(&mut self, pause: Duration, is_noticed: bool) {
        lock(&self.seen).connection += 1;
        if is_noticed {
            self.reading.abort();
        }
        self.read(None, pause);
    }
}

/// A client on its way.
struct Journey {
    connection: u64,
    ask: Ask,
    seen: Arc<Mutex<Seen>>,
    trail: Arc<Mutex<Trail>>,
    doors: Doors,
    dice: Dice,
}

impl Journey {
    async fn go(mut self, mut door: Option<Door>, pause: Duration) -> Result<(), String> {
        tokio::time::sleep(pause).await;
        let mut unknown_since: Option<Instant> = None;
        let mut last = None;
        loop {
            let Some(here) = door.take().or_else(|| self.pick(last)) else {
                self.wait().await;
                continue;
            };
            last = Some(here.site);
            let visit = visit(
                here.generation,
                here.site,
                self.ask.clone(),
                (self.seen.clone(), self.trail.clone()),
                self.connection,
            );
            let came = here.gate.pass(visit).await;
            if lock(&self.seen).connection != self.connection {
                return Ok(());
            }
            tracing::debug!(client = self.ask.name, site = here.site, ?came, "visited");
            if lock(&self.seen).has_all() {
                return Ok(());
            }
            let kind = match came {
                // One that drains refuses. Where several wait for a first worker, they wake in an order that
                // the seed does not decide, so no other router is asked.
                None
                | Some(Err(RequestError {
                    kind: ErrorKind::Unavailable,
                    ..
                })) if lock(&self.seen).token.is_none() => {
                    lock(&self.trail).is_unbegun = true;
                    return Ok(());
                }
                None => None,
                Some(Ok(kind)) => kind,
                Some(Err(error)) => Some(error.kind),
            };
            match kind {
                Some(ErrorKind::NotFound) => {
                    let since = *unknown_since.get_or_insert_with(now);
                    if now() - since > PATIENCE {
                        if self.ask.poison_at.is_some() {
                            // What failed leaves nothing to go on from.
                            lock(&self.seen).error = Some(ErrorKind::EndsWorkers);
                        } else {
                            lock(&self.trail).is_forsaken = true;
                        }
                        return Ok(());
                    }
                }
                None
                | Some(
                    ErrorKind::Cancelled
                    | ErrorKind::Unavailable
                    | ErrorKind::DuplicateRequest
                    | ErrorKind::QueueFull,
                ) => unknown_since = None,
                Some(ErrorKind::EndsWorkers) if self.ask.poison_at.is_some() => {
                    lock(&self.seen).error = kind;
                    return Ok(());
                }
                Some(other) => return Err(format!("{} ended with {other}", self.ask.name)),
            }
            self.wait().await;
        }
    }

    /// A router that lives, rather another than the last.
    fn pick(&mut self, last: Option<usize>) -> Option<Door> {
        let mut doors = lock(&self.doors).clone();
        if doors.len() > 1 && self.dice.chance(70) {
            doors.retain(|door| Some(door.site) != last);
        }
        (!doors.is_empty()).then(|| doors.swap_remove(self.dice.below(doors.len())))
    }

    async fn wait(&mut self) {
        let milliseconds = 10 + self.dice.below(100);
        tokio::time::sleep(Duration::from_millis(milliseconds as u64)).await;
    }
}

/// What one router gives: how the stream ended there.
async fn visit(
    generation: Generation,
    site: usize,
    ask: Ask,
    (seen, trail): (Arc<Mutex<Seen>>, Arc<Mutex<Trail>>),
    connection: u64,
) -> Result<Option<ErrorKind>, RequestError> {
    let resume = {
        let seen = lock(&seen);
        seen.token.is_some().then(|| seen.resume(&ask.name))
    };
    let stream = match resume {
        Some(resume) => generation.resume(&resume, &Caller::default()).await?.stream,
        None => start(&generation, &ask).await?,
    };
    lock(&trail).visits.push((site, now()));
    Ok(read(stream, ask.slowness, &seen, connection).await)
}

impl Trail {
    /// The routers that its stream ran at.
    pub(super) fn sites(&self) -> BTreeSet<usize> {
        self.visits.iter().map(|(site, _)| *site).collect()
    }
}
