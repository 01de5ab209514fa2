//! One stream that is shared: what of it is to be written.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, OnceLock};
use std::time::Instant;

use tokio::sync::Notify;

use super::written::Piece;
use crate::failover::{Record, RecordedChoice};
use crate::sync::{lock, now};

/// Tokens that may wait to be written; a stream with more is written whole instead.
const MAX_WAITING: usize = 4096;
/// About what a piece takes beside what it adds.
const PIECE_BYTES: usize = 48;
/// Pieces in Redis; a stream with more is written whole again, which takes less there.
const MAX_PIECES: u64 = 256;

/// A stream that is, or was, this router's.
#[derive(Debug)]
pub(crate) struct Entry {
    pub(crate) key: String,
    /// As whose it is known: the router's life, and a number that no other stream has.
    pub(crate) owner: String,
    pub(crate) nonce: u64,
    pub(crate) tenant: Option<String>,
    pub(crate) id: String,
    /// Its namespace and the generation of that, once they are known.
    of: OnceLock<(String, u64)>,
    /// Digest of its resume token, once that is known.
    token_digest: OnceLock<String>,
    state: Mutex<State>,
    wants_whole: AtomicBool,
    /// Rings when the stream is to look whether it is to be written whole.
    bell: Notify,
    was_tried: AtomicBool,
    /// Whether its turn is under way.
    is_in_turn: AtomicBool,
    is_lost: AtomicBool,
    /// Whether Redis is being asked for it: until it answers, it may be another's rightly.
    is_asked_for: AtomicBool,
}

#[derive(Debug, Default)]
struct State {
    next: Next,
    /// Whether it waits for its turn to be written.
    is_queued: bool,
    /// Whether Redis has it.
    is_begun: bool,
    /// Nothing of it is written any more.
    is_over: bool,
    /// Pieces that were written.
    num_pieces: u64,
    /// What it takes in Redis and here, in bytes.
    num_bytes: usize,
    touched: Option<Instant>,
}

/// What is to be written.
#[derive(Debug, Default)]
pub(crate) struct Next {
    pub(crate) whole: Option<Box<Record>>,
    pub(crate) pieces: Vec<Piece>,
    num_tokens: usize,
    pub(crate) end: Option<End>,
}

/// How a stream's part here ends.
#[derive(Debug)]
pub(crate) enum End {
    /// Its client may go on with it at any router.
    Left(Box<Record>),
    /// It was not taken after all: others may.
    Free,
    /// No one may go on with it.
    Dropped,
}

/// What to write next.
#[derive(Debug)]
pub(crate) struct Turn {
    pub(crate) next: Next,
    pub(crate) is_begun: bool,
    pub(crate) num_pieces: u64,
}

/// Names of an entry.
#[derive(Debug)]
pub(crate) struct Names {
    pub(crate) key: String,
    pub(crate) tenant: Option<String>,
    pub(crate) id: String,
}

impl Entry {
    /// A stream of the router of this life, which is to be written whole first. One that `is_begun` is in
    /// Redis already.
    pub(crate) fn new(names: Names, life: &str, is_begun: bool) -> Self {
        let nonce = rand::random();
        let Names { key, tenant, id } = names;
        Self {
            key,
            owner: format!("{life}:{nonce:016x}"),
            nonce,
            tenant,
            id,
            of: OnceLock::new(),
            token_digest: OnceLock::new(),
            state: Mutex::new(State {
                is_begun,
                ..State::default()
            }),
            wants_whole: AtomicBool::new(true),
            bell: Notify::new(),
            was_tried: AtomicBool::new(is_begun),
            is_in_turn: AtomicBool::new(false),
            is_lost: AtomicBool::new(false),
            is_asked_for: AtomicBool::new(is_begun),
        }
    }

    /// Notes its namespace, and the generation of that.
    pub(crate) fn is_of(&self, namespace: &str, generation: u64) {
        let _ = self.of.set((namespace.to_owned(), generation));
    }

    /// Notes the digest of its resume token: that is the stream's at every router.
    pub(crate) fn is_known_by(&self, token_digest: &str) {
        let _ = self.token_digest.set(token_digest.to_owned());
    }

    pub(crate) fn token_digest(&self) -> Option<&str> {
        self.token_digest.get().map(String::as_str)
    }

    pub(crate) fn generation(&self) -> u64 {
        self.of.get().map_or(0, |(_, generation)| *generation)
    }

    /// Whether it is of this namespace.
    pub(crate) fn is_in(&self, namespace: &str) -> bool {
        self.of.get().is_some_and(|(name, _)| name == namespace)
    }

    /// Whether it is another router's now.
    pub(crate) fn is_lost(&self) -> bool {
        self.is_lost.load(Ordering::Relaxed)
    }

    /// Redis gave it to this router.
    pub(crate) fn note_taken(&self) {
        self.is_asked_for.store(false, Ordering::Relaxed);
    }

    /// Whether it is not known yet whose it is.
    pub(crate) fn is_asked_for(&self) -> bool {
        self.is_asked_for.load(Ordering::Relaxed)
    }

    /// What comes of it from now on is for whoever goes on with it to count and to teach.
    pub(crate) fn disown(&self) {
        self.is_lost.store(true, Ordering::Relaxed);
    }

    /// It is another router's; whether that is news.
    pub(crate) fn lose(&self) -> bool {
        self.stop();
        !self.is_lost.swap(true, Ordering::Relaxed)
    }

    /// Whether Redis may have something of it.
    pub(crate) fn was_tried(&self) -> bool {
        self.was_tried.load(Ordering::Relaxed)
    }

    /// Whether it is to be written whole.
    pub(crate) fn wants_whole(&self) -> bool {
        self.wants_whole.load(Ordering::Relaxed)
    }

    /// What was written may be gone: it is to be written whole again.
    pub(crate) fn want_whole(&self) {
        self.wants_whole.store(true, Ordering::Relaxed);
        let mut state = lock(&self.state);
        state.next.whole = None;
        state.next.pieces = Vec::new();
    }

    /// Redis had nothing to add to: it is to be written whole again, unless that waits for its turn already. Who
    /// gave it would hear only later that it is to do so again.
    pub(crate) fn was_gone(&self) {
        let mut state = lock(&self.state);
        if state.next.whole.is_none() {
            self.wants_whole.store(true, Ordering::Relaxed);
            state.next.pieces = Vec::new();
        }
    }

    /// Redis may take it now: the stream looks, though nothing comes of it.
    pub(crate) fn ring(&self) {
        self.bell.notify_one();
    }

    /// Waits until the stream is to look whether it is to be written whole. Has one reader.
    pub(crate) async fn rung(&self) {
        self.bell.notified().await;
    }

    /// Takes the whole record. Gives how many bytes more the entry holds now; whether its turn is to come.
    pub(crate) fn give_whole(&self, record: Record) -> (isize, bool) {
        self.wants_whole.store(false, Ordering::Relaxed);
        let num_bytes = record.num_bytes();
        let mut state = lock(&self.state);
        if state.is_over {
            return (0, false);
        }
        state.next.whole = Some(Box::new(record));
        state.next.pieces = Vec::new();
        state.next.num_tokens = 0;
        (state.resize(num_bytes), state.queue())
    }

    /// Takes what came since.
    pub(crate) fn give_piece(&self, piece: Piece) -> (isize, bool) {
        let mut state = lock(&self.state);
        if state.is_over {
            return (0, false);
        }
        state.next.num_tokens += piece.choice.emitted.len();
        if state.next.num_tokens > MAX_WAITING {
            drop(state);
            self.want_whole();
            return (0, false);
        }
        // The choice itself is held once, however many pieces add to it.
        let added = piece.choice.num_bytes() - size_of::<RecordedChoice>() + PIECE_BYTES;
        let num_bytes = state.num_bytes + added;
        state.next.pieces.push(piece);
        (state.resize(num_bytes), state.queue())
    }

    /// Takes its end; nothing comes after it.
    pub(crate) fn give_end(&self, end: End) -> (isize, bool) {
        let mut state = lock(&self.state);
        // What is withdrawn stays so.
        if state.is_over || matches!(state.next.end, Some(End::Dropped)) {
            return (0, false);
        }
        let num_bytes = match &end {
            End::Left(record) => record.num_bytes(),
            End::Free => state.num_bytes,
            End::Dropped => 0,
        };
        if matches!(end, End::Dropped) && !self.was_tried() && !state.is_queued {
            state.is_over = true;
            return (state.resize(0), false);
        }
        state.next = Next {
            end: Some(end),
            ..Next::default()
        };
        (state.resize(num_bytes), state.queue())
    }

    /// Says again that it is in use, if nothing did since `before`; whether its turn is to come.
    pub(crate) fn touch(&self, before: Instant) -> bool {
        let mut state = lock(&self.state);
        let is_old = state.touched.is_some_and(|touched| touched < before);
        is_old && !state.is_over && state.queue()
    }

    /// Its turn: what to write; none if nothing is written any more.
    pub(crate) fn turn(&self) -> Option<Turn> {
        let mut state = lock(&self.state);
        state.is_queued = false;
        state.touched = Some(now());
        if state.is_over {
            return None;
        }
        self.is_in_turn.store(true, Ordering::Relaxed);
        self.was_tried.store(true, Ordering::Relaxed);
        Some(Turn {
            next: std::mem::take(&mut state.next),
            is_begun: state.is_begun,
            num_pieces: state.num_pieces,
        })
    }

    /// Its turn is over, and what was not written is given back.
    pub(crate) fn end_turn(&self) {
        self.is_in_turn.store(false, Ordering::Relaxed);
    }

    /// Waits until its end is written, or given up.
    pub(crate) async fn said(&self) {
        while self.is_ending() {
            self.rung().await;
        }
    }

    fn is_ending(&self) -> bool {
        let state = lock(&self.state);
        let is_in_turn = self.is_in_turn.load(Ordering::Relaxed);
        !state.is_over && (is_in_turn || state.next.end.is_some())
    }

    /// What a turn gave is in Redis, and with it so many pieces.
    pub(crate) fn wrote(&self, num_pieces: u64) {
        let mut state = lock(&self.state);
        state.is_begun = true;
        state.num_pieces = num_pieces;
        drop(state);
        if num_pieces >= MAX_PIECES {
            self.want_whole();
        }
    }

    /// An end could not be written now: whether it is to be tried again.
    pub(crate) fn give_back(&self, end: End) -> bool {
        let mut state = lock(&self.state);
        let is_last = state.next.end.is_none() || matches!(end, End::Dropped);
        if state.is_over || !is_last {
            return false;
        }
        state.next.end = Some(end);
        state.queue()
    }

    /// Redis is gone, and no text waits for it: of one that has ended Redis is to let go what it has, and one
    /// that runs is asked for again. Whether it has ended and Redis has nothing of it.
    pub(crate) fn cut(&self) -> bool {
        let mut state = lock(&self.state);
        let is_left = matches!(state.next.end, Some(End::Left(_)));
        let is_unwritten = is_left && !state.is_begun;
        if is_left {
            state.next.end = (!is_unwritten).then_some(End::Free);
        }
        drop(state);
        self.want_whole();
        is_unwritten
    }

    /// Whether Redis has something of it, as far as is known.
    pub(crate) fn is_begun(&self) -> bool {
        lock(&self.state).is_begun
    }

    /// Holds nothing until its end is known again; gives the bytes that it held. None if it is withdrawn.
    pub(crate) fn empty(&self) -> Option<usize> {
        let mut state = lock(&self.state);
        if state.is_over || matches!(state.next.end, Some(End::Dropped)) {
            return None;
        }
        state.next = Next::default();
        Some(std::mem::take(&mut state.num_bytes))
    }

    /// Nothing of it is written any more; gives the bytes that it held.
    pub(crate) fn stop(&self) -> usize {
        let mut state = lock(&self.state);
        state.is_over = true;
        state.next = Next::default();
        std::mem::take(&mut state.num_bytes)
    }
}

impl State {
    fn resize(&mut self, num_bytes: usize) -> isize {
        let before = std::mem::replace(&mut self.num_bytes, num_bytes);
        num_bytes.cast_signed() - before.cast_signed()
    }

    /// Whether its turn is to come that was not before.
    fn queue(&mut self) -> bool {
        !std::mem::replace(&mut self.is_queued, true)
    }
}
