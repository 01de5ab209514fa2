//! Writes what is shared of streams, and keeps the lease on them.

use std::sync::Arc;
use std::time::{Duration, Instant};

use futures_util::future::join_all;

use super::commands::{LEASE, Mode, Place, Written};
use super::unwritten::Unwritten;
use crate::failover::Record;
use crate::fleet::handle::{Link, Shared};
use crate::fleet::keys::life_of;
use crate::fleet::pupils::{Gone, Pupils};
use crate::fleet::records::entry::{End, Entry, Turn};
use crate::fleet::records::written::{Piece, head, pieces};
use crate::fleet::wire::{Trouble, Wire};
use crate::sync::now;

/// Time between turns: what came meanwhile is written at once.
const PERIOD: Duration = Duration::from_millis(100);
/// Streams that are written in one turn; the others wait for the next.
const BATCH: usize = 128;
/// Longest that an ending router waits to say so.
const LAST_WORD: Duration = Duration::from_millis(200);

/// Writes and renews until the connection is lost; gives why.
pub(crate) async fn tend(shared: &Arc<Shared>, pupils: &dyn Pupils, mut wire: Wire) -> Trouble {
    let streams = &shared.streams;
    let life = life_of(shared.origin);
    let mut renewed: Option<Instant> = None;
    let mut unwritten = Unwritten::default();
    loop {
        // Before a wish of who has a stream already ends it as if it were this router's.
        if streams.pulse.must_ask() {
            if let Err(trouble) = verify(shared, pupils, &wire).await {
                return trouble;
            }
            unwritten = Unwritten::default();
        }
        if renewed.is_none_or(|at| now().saturating_duration_since(at) >= LEASE / 4) {
            renewed = Some(now());
            match wire.live(&life).await {
                Ok(lease) => {
                    if !lease.was_known {
                        if let Err(trouble) = verify(shared, pupils, &wire).await {
                            return trouble;
                        }
                        unwritten = Unwritten::default();
                    }
                    for wish in lease.wanted {
                        if let Err(trouble @ Trouble::Lost(_)) =
                            give_up(shared, pupils, &wish, &mut wire).await
                        {
                            return trouble;
                        }
                    }
                }
                Err(trouble @ Trouble::Lost(_)) => return trouble,
                Err(Trouble::Refused(_)) => {}
            }
            streams.sweep(now());
        }
        if unwritten.is_old() {
            unwritten = Unwritten::look(streams);
        }
        unwritten.ring(BATCH);
        for entry in streams.unsaid(BATCH) {
            say(shared, pupils, &entry);
        }
        let written = write_due(shared, &wire).await;
        let is_full = written.len() == BATCH;
        for (entry, result) in written {
            match result {
                Ok(Written::Done | Written::Gone | Written::Namesake)
                | Err(Trouble::Refused(_)) => {}
                Ok(Written::Foreign) => lose(shared, pupils, &entry),
                Err(trouble @ Trouble::Lost(_)) => return trouble,
            }
        }
        if !is_full {
            let _ = tokio::time::timeout(PERIOD, streams.has_come.notified()).await;
        }
    }
}

/// Writes what is new of the streams whose turn it is.
async fn write_due(shared: &Shared, wire: &Wire) -> Vec<(Arc<Entry>, Result<Written, Trouble>)> {
    let due = shared.streams.due(BATCH);
    let written = due.iter().map(|entry| {
        let pending = Pending::new(shared, entry);
        write(pending, wire.clone())
    });
    let written = join_all(written).await;
    shared.streams.end_turn();
    due.into_iter().zip(written).collect()
}

/// What was left while Redis was away is to be written, if it is still here; else Redis is to have nothing of it.
fn say(shared: &Shared, pupils: &dyn Pupils, entry: &Arc<Entry>) {
    let streams = &shared.streams;
    let Some(record) = pupils.left(entry.tenant.as_deref(), &entry.id, &entry.owner) else {
        return streams.withdraw(entry);
    };
    let change = entry.give_end(End::Left(Box::new(record)));
    if !streams.changed(entry, change, false) {
        streams.withdraw(entry);
    }
}

/// Asks which of the streams that run here are still this router's.
///
/// # Errors
/// The connection is lost.
pub(crate) async fn verify(
    shared: &Arc<Shared>,
    pupils: &dyn Pupils,
    wire: &Wire,
) -> Result<(), Trouble> {
    // Before anyone else can take more of them.
    if let Err(trouble @ Trouble::Lost(_)) = wire.clone().live(&life_of(shared.origin)).await {
        return Err(trouble);
    }
    for some in shared.streams.owned().chunks(BATCH) {
        let asked = some.iter().map(|entry| {
            let mut wire = wire.clone();
            async move {
                let place = place(shared, entry);
                wire.write_stream(place, Mode::Add, &[]).await
            }
        });
        for (answer, entry) in join_all(asked).await.into_iter().zip(some) {
            match answer {
                Ok(Written::Foreign) => lose(shared, pupils, entry),
                // What has its name may be older, and its own first words never came.
                Ok(Written::Gone | Written::Namesake) => entry.want_whole(),
                Ok(Written::Done) | Err(Trouble::Refused(_)) => {}
                Err(trouble @ Trouble::Lost(_)) => return Err(trouble),
            }
        }
    }
    shared.streams.pulse.is_sure();
    Ok(())
}

/// Beats for ever.
pub(crate) async fn beat(shared: &Shared) {
    loop {
        let pulse = &shared.streams.pulse;
        if matches!(*shared.link.borrow(), Link::Up(_)) {
            pulse.beat();
        } else {
            // No one can be asked: serving goes before.
            pulse.is_sure();
        }
        tokio::time::sleep(PERIOD).await;
    }
}

/// Writes what streams have left, and says that this router ends: others need not wait.
pub(crate) async fn end_life(shared: &Shared, mut wire: Wire) {
    let last_words = async {
        loop {
            let written = write_due(shared, &wire).await;
            if written.is_empty() {
                return wire.end_life(&life_of(shared.origin)).await;
            }
            for (_, result) in written {
                if let Err(trouble @ Trouble::Lost(_)) = result {
                    return Err(trouble);
                }
            }
        }
    };
    let _ = tokio::time::timeout(LAST_WORD, last_words).await;
}

pub(super) fn place<'a>(shared: &Shared, entry: &'a Entry) -> Place<'a> {
    Place {
        key: &entry.key,
        owner: &entry.owner,
        token_digest: entry.token_digest().unwrap_or_default(),
        lifetime: shared.streams.lifetime,
    }
}

/// A stream goes on elsewhere: here it ends. Where its client has gone on with it at this router since, that is
/// where, and goes on.
pub(super) fn lose(shared: &Shared, pupils: &dyn Pupils, entry: &Arc<Entry>) {
    shared.streams.forget(entry);
    let running = shared.streams.find(&entry.key);
    if running.is_some_and(|running| !Arc::ptr_eq(&running, entry)) || !entry.lose() {
        return;
    }
    shared.metrics.fleet.lease_lost();
    tracing::warn!(request = %entry.id, "a stream goes on at another router");
    pupils.end_stream(entry.tenant.as_deref(), &entry.id, Gone::Lost);
}

/// Another router wants a stream for its client: where it runs here, it ends and leaves its record. A wish
/// for one that has gone on since, at this router or another, comes too late and means nothing.
async fn give_up(
    shared: &Shared,
    pupils: &dyn Pupils,
    wish: &str,
    wire: &mut Wire,
) -> Result<(), Trouble> {
    let Some((key, owner)) = wish.split_once(' ') else {
        return Ok(());
    };
    let running = shared.streams.find(key);
    if let Some(entry) = running.filter(|entry| entry.owner == owner) {
        pupils.end_stream(entry.tenant.as_deref(), &entry.id, Gone::Wanted);
        return Ok(());
    }
    if shared.streams.is_due(key) {
        return Ok(());
    }
    wire.free_stream(key, owner).await
}

/// A turn under way. Dropping it, whenever that is, gives back what was not written.
pub(super) struct Pending<'a> {
    shared: &'a Shared,
    entry: &'a Arc<Entry>,
    turn: Option<Turn>,
    end: Option<End>,
    is_settled: bool,
}

impl<'a> Pending<'a> {
    pub(super) fn new(shared: &'a Shared, entry: &'a Arc<Entry>) -> Self {
        let mut turn = entry.turn();
        Self {
            shared,
            entry,
            end: turn.as_mut().and_then(|turn| turn.next.end.take()),
            is_settled: turn.is_none(),
            turn,
        }
    }

    /// Redis has answered.
    fn settle(&mut self) {
        self.is_settled = true;
    }
}

impl Drop for Pending<'_> {
    fn drop(&mut self) {
        let is_end = self.end.is_some();
        match self.end.take().filter(|_| !self.is_settled) {
            Some(end) => {
                let is_due = self.entry.give_back(end);
                self.shared.streams.changed(self.entry, (0, is_due), false);
            }
            None if !self.is_settled => self.entry.want_whole(),
            None => {}
        }
        self.entry.end_turn();
        if is_end {
            // A client may wait for that.
            self.entry.ring();
        }
    }
}

/// Writes what is new of a stream.
pub(super) async fn write(mut pending: Pending<'_>, mut wire: Wire) -> Result<Written, Trouble> {
    let (shared, entry) = (pending.shared, pending.entry);
    let Some(turn) = pending.turn.take() else {
        return Ok(Written::Done);
    };
    let Turn {
        next,
        is_begun,
        num_pieces,
    } = turn;
    let place = place(shared, entry);
    if let Some(end) = &pending.end {
        let is_left = matches!(end, End::Left(_));
        let written = write_end(entry, end, is_begun, place, &mut wire).await;
        if matches!(written, Err(Trouble::Lost(_))) {
            return written;
        }
        pending.settle();
        if is_left && matches!(written, Ok(Written::Done)) {
            shared.streams.was_left(entry);
        } else {
            shared.streams.forget(entry);
        }
        // What has ended here is lost to none.
        return written.map(|_| Written::Done);
    }
    let (mode, fields, num_pieces) = if let Some(record) = next.whole {
        let mode = if is_begun { Mode::Again } else { Mode::New };
        let mut fields = whole(entry, &record, false);
        let more = add(entry, next.pieces, 1);
        let num_pieces = 1 + more.len() as u64;
        fields.extend(more);
        (mode, fields, num_pieces)
    } else {
        let fields = add(entry, next.pieces, num_pieces);
        let num_pieces = num_pieces + fields.len() as u64;
        (Mode::Add, fields, num_pieces)
    };
    let written = wire.write_stream(place, mode, &fields).await;
    pending.settle();
    match &written {
        Ok(Written::Done) => entry.wrote(num_pieces),
        Ok(Written::Namesake) => {
            // The tenant runs another request of this name elsewhere.
            shared.metrics.fleet.dropped("name", 1);
            shared.streams.forget(entry);
        }
        Ok(Written::Foreign) => {}
        Ok(Written::Gone) => entry.was_gone(),
        Err(_) => entry.want_whole(),
    }
    written
}

async fn write_end(
    entry: &Entry,
    end: &End,
    is_begun: bool,
    place: Place<'_>,
    wire: &mut Wire,
) -> Result<Written, Trouble> {
    match end {
        End::Left(record) => {
            let mode = if is_begun { Mode::Again } else { Mode::Left };
            wire.write_stream(place, mode, &whole(entry, record, true))
                .await
        }
        End::Free => {
            let field = owner(entry, true);
            wire.write_stream(place, Mode::Add, &[field]).await
        }
        End::Dropped => wire.write_stream(place, Mode::Drop, &[]).await,
    }
}

fn owner(entry: &Entry, is_free: bool) -> (String, Vec<u8>) {
    let mark = if is_free { "-" } else { "" };
    ("o".into(), format!("{mark}{}", entry.owner).into_bytes())
}

/// All fields of a record.
fn whole(entry: &Entry, record: &Record, is_free: bool) -> Vec<(String, Vec<u8>)> {
    let choices = record.choices.iter().cloned().zip(0..);
    let all = choices.map(|(choice, index)| Piece {
        index,
        from: 0,
        choice,
    });
    vec![
        owner(entry, is_free),
        ("t".into(), record.token.hex_digest().into_bytes()),
        ("h".into(), head(record, entry.nonce, entry.generation())),
        ("p0".into(), pieces(all, entry.nonce, 0)),
    ]
}

/// The field that adds some pieces, if there are any.
fn add(entry: &Entry, some: Vec<Piece>, number: u64) -> Vec<(String, Vec<u8>)> {
    if some.is_empty() {
        return Vec::new();
    }
    vec![(format!("p{number}"), pieces(some, entry.nonce, number))]
}
