//! Reads what other routers' workers learned, and teaches it to this one's.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use spectrie_proto::worker_v1::Learn;

use crate::fleet::entry::{Entry, Said, Unreadable};
use crate::fleet::handle::{Shared, now_ms};
use crate::fleet::keys::ModelKey;
use crate::fleet::pupils::Pupils;
use crate::fleet::wire::{Found, StreamId, Trouble, Wire};
use crate::sync::lock;

/// Entries of each stream that are read at once.
const BATCH: usize = 64;
/// Wait where Redis refuses, or workers lag.
const PAUSE: Duration = Duration::from_millis(100);
/// How far in the future a generation may be: the clocks of routers differ.
const MAX_AHEAD_MS: u64 = 24 * 60 * 60 * 1000;

/// Reads entries as they come, until the connection is lost; gives why.
pub(super) async fn follow(
    shared: &Arc<Shared>,
    pupils: &dyn Pupils,
    mut reader: Wire,
    mut commands: Wire,
) -> Trouble {
    // The streams may have begun again while nothing was connected.
    let mut is_idle = true;
    loop {
        match turn(shared, pupils, &mut reader, &mut commands, &mut is_idle).await {
            Ok(()) => {}
            Err(Trouble::Lost(reason)) => return Trouble::Lost(reason),
            Err(Trouble::Refused(_)) => {
                is_idle = true;
                tokio::time::sleep(PAUSE).await;
            }
        }
    }
}

async fn turn(
    shared: &Arc<Shared>,
    pupils: &dyn Pupils,
    reader: &mut Wire,
    commands: &mut Wire,
    is_idle: &mut bool,
) -> Result<(), Trouble> {
    let mut places = shared.places();
    if places.is_empty() {
        shared.has_followed.notified().await;
        return Ok(());
    }
    if *is_idle {
        for (model, place) in &mut places {
            let last = reader.last(model).await?.unwrap_or_default();
            if last < *place {
                // The stream is another one than was read: all of it is new.
                *place = StreamId::default();
                shared.advance(model, *place);
            }
        }
    }
    let found = reader.read(&places, BATCH).await?;
    *is_idle = found.is_empty();
    let mut lag = 0;
    for (model, entries) in found {
        let mut forgotten = Vec::new();
        for entry in entries {
            let id = entry.id;
            shared.advance(&model, id);
            match shared.take(pupils, &model, &entry) {
                Taken::Done(lagging) => lag += lagging,
                Taken::Forgotten => forgotten.push(id),
            }
        }
        commands.delete(&model, &forgotten).await?;
    }
    if lag > 0 {
        shared.metrics.learn_dropped(lag);
        tokio::time::sleep(PAUSE).await;
    }
    Ok(())
}

/// What came of an entry.
enum Taken {
    /// Workers that lag did not get it: so many.
    Done(usize),
    /// It is text of a namespace that was forgotten since.
    Forgotten,
}

impl Shared {
    fn places(&self) -> BTreeMap<ModelKey, StreamId> {
        let followed = lock(&self.followed);
        let places = followed.iter();
        places
            .map(|(model, followed)| (model.clone(), followed.place))
            .collect()
    }

    fn advance(&self, model: &ModelKey, place: StreamId) {
        if let Some(followed) = lock(&self.followed).get_mut(model) {
            followed.place = place;
        }
    }

    fn take(&self, pupils: &dyn Pupils, model: &ModelKey, found: &Found) -> Taken {
        let metrics = &self.metrics.fleet;
        let entry = match found.bytes.as_deref() {
            Some(bytes) => Entry::decode(bytes, model),
            None => Err(Unreadable::Damaged),
        };
        let now_ms = now_ms();
        let entry = match entry {
            Ok(entry) if entry.generation <= now_ms.saturating_add(MAX_AHEAD_MS) => entry,
            Ok(_) | Err(Unreadable::Damaged) => {
                metrics.dropped("damaged", 1);
                return Taken::Done(0);
            }
            Err(Unreadable::Version) => {
                metrics.dropped("version", 1);
                return Taken::Done(0);
            }
        };
        let (has_risen, known, open) = self.with_generations(|all| {
            (
                all.rise(model, &entry.namespace, entry.generation),
                all.of(model, &entry.namespace),
                all.open_of(model, &entry.namespace),
            )
        });
        if has_risen {
            self.has_forgotten.notify_one();
        }
        let Said::Text(token_ids) = entry.said else {
            return Taken::Done(0);
        };
        if entry.generation < known {
            metrics.dropped("forgotten", 1);
            return Taken::Forgotten;
        }
        if entry.origin == self.origin || self.is_private(&entry.namespace) {
            return Taken::Done(0);
        }
        if open.is_none() {
            // The workers are about to forget the namespace, and this with it.
            metrics.dropped("forgotten", 1);
            return Taken::Done(0);
        }
        let vocabulary_size = lock(&self.followed)
            .get(model)
            .map_or(0, |followed| followed.vocabulary_size);
        if token_ids.iter().any(|id| *id >= vocabulary_size) {
            metrics.dropped("damaged", 1);
            return Taken::Done(0);
        }
        metrics.received(Duration::from_millis(now_ms.saturating_sub(found.id.0)));
        let learn = Learn {
            namespace: entry.namespace,
            token_ids,
        };
        Taken::Done(pupils.teach(model, &learn))
    }

    /// Takes what the bus knows of forgotten namespaces; gives what it does not know.
    pub(crate) fn merge(
        &self,
        model: &ModelKey,
        found: &BTreeMap<String, u64>,
    ) -> Vec<(String, u64)> {
        let latest = now_ms().saturating_add(MAX_AHEAD_MS);
        let found = found
            .iter()
            .filter(|(_, generation)| **generation <= latest);
        let found = found.map(|(name, generation)| (name.clone(), *generation));
        let merge = self.with_generations(|all| all.merge(model, &found.collect()));
        if !merge.risen.is_empty() {
            self.has_forgotten.notify_one();
        }
        merge.missing
    }
}
