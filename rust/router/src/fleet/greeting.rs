//! What a worker that joins is brought to, before it is ready.

use std::sync::Arc;
use std::time::Duration;

use spectrie_proto::worker_v1::Learn;
use tokio::time::timeout;

use super::entry::{Entry, Said};
use super::handle::{Fleet, Link, Shared};
use super::keys::ModelKey;
use super::wire::{Found, MAX_ENTRIES, StreamId, Trouble, Wire};

/// How long a worker waits for what the bus holds.
const GREETING_TIME: Duration = Duration::from_secs(2);
/// Entries that are asked for at once.
const BATCH: usize = 128;

/// What a worker is to forget and to learn.
#[derive(Debug, Default)]
pub(crate) struct Greeting {
    /// Namespaces that were forgotten while it may have been away, with their generations.
    pub(crate) forgotten: Vec<(String, u64)>,
    /// Recent texts, oldest first.
    pub(crate) texts: Vec<Learn>,
    /// Where the texts end; none if the bus could not be asked.
    pub(crate) place: Option<StreamId>,
}

impl Fleet {
    /// What a worker of a model that joins is brought to; waits two seconds for the bus at most.
    pub(crate) async fn greeting(&self, model: &ModelKey, vocabulary_size: u32) -> Greeting {
        let Some(shared) = &self.0 else {
            return Greeting::default();
        };
        let mut greeting = Greeting::default();
        let ask = shared.recent(model, vocabulary_size, &mut greeting);
        // What came until then is of use.
        if !matches!(timeout(GREETING_TIME, ask).await, Ok(Ok(()))) {
            tracing::debug!("a worker joins with a part of the fleet's text, or none");
        }
        greeting.texts.reverse();
        greeting.forgotten = self.forgotten(model);
        greeting
    }

    /// Namespaces of a model that were forgotten in this router's life, with their generations.
    pub(crate) fn forgotten(&self, model: &ModelKey) -> Vec<(String, u64)> {
        let shared = self.0.as_ref();
        shared.map_or_else(Vec::new, |shared| {
            shared.with_generations(|all| all.to_forget(model))
        })
    }
}

impl Shared {
    async fn recent(
        self: &Arc<Self>,
        model: &ModelKey,
        vocabulary_size: u32,
        greeting: &mut Greeting,
    ) -> Result<(), Trouble> {
        let Some(mut wire) = self.wire().await else {
            return Ok(());
        };
        let found = wire.generations(model).await?;
        self.merge(model, &found);
        greeting.place = Some(wire.last(model).await?.unwrap_or_default());
        let mut before = None;
        for _ in 0..MAX_ENTRIES.div_ceil(BATCH) {
            let entries = wire.newest(model, before, BATCH).await?;
            let Some(last) = entries.last() else { break };
            before = Some(last.id);
            let texts = entries.into_iter();
            let texts = texts.filter_map(|found| self.text_of(model, vocabulary_size, found));
            greeting.texts.extend(texts);
        }
        Ok(())
    }

    /// The connection, once the first attempt has ended.
    async fn wire(&self) -> Option<Wire> {
        let mut link = self.link.subscribe();
        let link = link.wait_for(|link| !matches!(link, Link::Starting)).await;
        match &*link.ok()? {
            Link::Up(wire) => Some(wire.clone()),
            Link::Starting | Link::Down => None,
        }
    }

    /// The text of an entry, if it may be learned here.
    fn text_of(&self, model: &ModelKey, vocabulary_size: u32, found: Found) -> Option<Learn> {
        let entry = Entry::decode(&found.bytes?, model).ok()?;
        let known = self.with_generations(|all| all.of(model, &entry.namespace));
        let Said::Text(token_ids) = entry.said else {
            return None;
        };
        let is_of_model = token_ids.iter().all(|id| *id < vocabulary_size);
        let is_meant = entry.generation == known && !self.is_private(&entry.namespace);
        (is_of_model && is_meant).then_some(Learn {
            namespace: entry.namespace,
            token_ids,
        })
    }
}
