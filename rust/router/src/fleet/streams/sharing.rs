//! A running stream's part in the fleet.

use std::sync::Arc;

use spectrie_request::{ResolvedRequest, wire_name};

use crate::failover::{Record, RecordedChoice, ResumeToken};
use crate::fleet::entry::MAX_NAMESPACE_BYTES;
use crate::fleet::handle::{Fleet, Link, Shared};
use crate::fleet::keys::{ModelKey, life_of, stream};
use crate::fleet::records::entry::{End, Entry, Names};
use crate::fleet::records::origin::Origin;
use crate::fleet::records::written::Piece;

/// Says what comes of a stream to whoever takes it over. Nothing here waits. Dropping it withdraws the
/// stream.
#[derive(Debug)]
pub(crate) struct Sharing {
    shared: Arc<Shared>,
    entry: Arc<Entry>,
    /// What dropping it says.
    otherwise: Option<End>,
}

impl Fleet {
    /// The part of a stream that begins; none if nothing of it may leave this router.
    pub(crate) fn sharing(
        &self,
        model: &ModelKey,
        request: &ResolvedRequest,
        tenant: Option<&str>,
        token: &ResumeToken,
    ) -> Option<Sharing> {
        let shared = self.0.as_ref()?;
        let namespace = &request.namespace;
        if shared.streams.limit == 0
            || !request.learn
            || namespace.len() > MAX_NAMESPACE_BYTES
            || shared.is_private(namespace)
        {
            return None;
        }
        let generation = shared.with_generations(|all| all.open_of(model, namespace))?;
        let names = Names {
            key: stream(&request.wire_name),
            tenant: tenant.map(str::to_owned),
            id: request.request_id.clone(),
        };
        let sharing = Sharing::new(shared, names, false);
        sharing.entry.is_of(namespace, generation);
        // From the first on: its text may be shared before anything else of it is.
        sharing.entry.is_known_by(&token.hex_digest());
        Some(sharing)
    }

    /// The attempt before the first that a stream makes here which another router may have gone on with, and had this one.
    pub(crate) fn behind_all(&self, attempt: u32) -> u32 {
        let shared = self.0.as_ref();
        shared.map_or(attempt, |shared| shared.streams.behind_all(attempt))
    }

    /// Whether other routers may go on with streams of this one, and it with theirs.
    pub(crate) fn is_shared(&self) -> bool {
        self.0.is_some()
    }

    /// No other router may go on with a stream: it was ended for good.
    pub(crate) fn withdraw(&self, tenant: Option<&str>, id: &str) {
        if let Some(shared) = &self.0 {
            let key = stream(&wire_name(tenant, id));
            shared.streams.withdraw_all(|entry| entry.key == key);
        }
    }

    /// No other router may go on with the streams of a namespace, which is forgotten.
    pub(crate) fn withdraw_namespace(&self, namespace: &str) {
        if let Some(shared) = &self.0 {
            shared.streams.withdraw_all(|entry| entry.is_in(namespace));
        }
    }

    /// Whether what a worker learned from a stream may be another router's to teach.
    pub(crate) fn may_have_lost(&self, origin: Option<&Origin>) -> bool {
        let Some(shared) = &self.0 else { return false };
        shared.streams.pulse.is_doubtful() || origin.is_some_and(Origin::is_lost)
    }
}

impl Sharing {
    pub(super) fn new(shared: &Arc<Shared>, names: Names, is_begun: bool) -> Self {
        let entry = Arc::new(Entry::new(names, &life_of(shared.origin), is_begun));
        shared.streams.add(&entry);
        Self {
            shared: shared.clone(),
            entry,
            otherwise: Some(End::Dropped),
        }
    }

    pub(super) fn entry(&self) -> &Arc<Entry> {
        &self.entry
    }

    /// Dropping it lets others have the record as it is.
    pub(super) fn frees(&mut self) {
        self.otherwise = Some(End::Free);
    }

    /// Dropping it withdraws the stream: that runs from now on.
    pub(crate) fn drops(&mut self) {
        self.otherwise = Some(End::Dropped);
    }

    /// The stream, as the origin of what workers learn from it.
    pub(crate) fn origin(&self) -> Origin {
        Origin::new(&self.entry)
    }

    fn is_up(&self) -> bool {
        matches!(*self.shared.link.borrow(), Link::Up(_))
    }

    /// Whether the whole record is asked for: at first, and when Redis may have lost it.
    pub(crate) fn wants_whole(&self) -> bool {
        self.entry.wants_whole() && self.is_up()
    }

    /// Waits until the whole record may be asked for.
    pub(crate) async fn rung(&self) {
        self.entry.rung().await;
    }

    /// Takes the record as it is now.
    pub(crate) fn whole(&self, record: Record) {
        let change = self.entry.give_whole(record);
        self.check_room(change, true);
    }

    /// Takes what came of a choice behind its first `from` tokens.
    pub(crate) fn add(&self, index: u32, from: usize, choice: RecordedChoice) {
        if self.entry.wants_whole() {
            return;
        }
        if !self.is_up() {
            return self.entry.want_whole();
        }
        let change = self.entry.give_piece(Piece {
            index,
            from,
            choice,
        });
        self.check_room(change, false);
    }

    fn check_room(&self, change: (isize, bool), is_urgent: bool) {
        let streams = &self.shared.streams;
        if !streams.changed(&self.entry, change, is_urgent) {
            self.shared.metrics.fleet.dropped("records", 1);
            streams.withdraw(&self.entry);
        }
    }

    /// Whether the stream goes on at another router.
    pub(crate) fn is_lost(&self) -> bool {
        self.entry.is_lost()
    }

    /// Whether it may: it is being asked for.
    pub(crate) fn is_doubtful(&self) -> bool {
        self.is_lost() || self.shared.streams.pulse.is_doubtful()
    }

    /// After this router was stopped, waits until it knows whether the stream is still its own, for a
    /// second at most; gives whether it is.
    pub(crate) async fn assured(&self) -> bool {
        self.shared.streams.pulse.assured().await;
        !self.is_lost()
    }

    /// The stream ended here, and its client may go on with `record` at any router; gives as whose it is
    /// known.
    pub(crate) fn leave(mut self, record: Record) -> String {
        self.otherwise = Some(End::Left(Box::new(record)));
        self.entry.owner.clone()
    }

    /// The stream ended here, and its client may go on with what was said of it until now: what its workers
    /// sent since is not taught either. Gives as whose it is known.
    pub(crate) fn let_go(mut self) -> String {
        self.entry.disown();
        self.frees();
        self.entry.owner.clone()
    }
}

impl Drop for Sharing {
    fn drop(&mut self) {
        let streams = &self.shared.streams;
        let end = match self.otherwise.take() {
            end if self.is_up() => end,
            // No text waits for Redis: what it has of the stream is to be let go or dropped, no more.
            Some(End::Left(_)) if !self.entry.is_begun() => {
                streams.leave_unsaid(&self.entry);
                return streams.remove(&self.entry);
            }
            _ if !self.entry.was_tried() => None,
            Some(End::Left(_)) => Some(End::Free),
            end => end,
        };
        match end {
            Some(end) => {
                let change = self.entry.give_end(end);
                if !streams.changed(&self.entry, change, true) {
                    streams.withdraw(&self.entry);
                }
            }
            None => streams.forget(&self.entry),
        }
        streams.remove(&self.entry);
    }
}
