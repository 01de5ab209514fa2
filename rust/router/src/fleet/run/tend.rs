//! Keeps forgotten what was forgotten: in this router's workers, on the bus, and at the others.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use crate::fleet::entry::{Entry, Said};
use crate::fleet::handle::Shared;
use crate::fleet::keys::ModelKey;
use crate::fleet::pupils::Pupils;
use crate::fleet::wire::{Trouble, Wire};
use crate::sync::lock;

/// Time between comparisons with the bus, which may have been flushed.
const PERIOD: Duration = Duration::from_secs(5);
/// Entries that are looked through at once.
const BATCH: usize = 128;

/// Compares at once, periodically and when something is forgotten, until the connection is lost;
/// gives why.
pub(super) async fn tend(shared: &Arc<Shared>, pupils: &dyn Pupils, mut wire: Wire) -> Trouble {
    loop {
        for model in shared.tended_models() {
            if let Err(Trouble::Lost(reason)) = tell(shared, &model, &mut wire).await {
                return Trouble::Lost(reason);
            }
        }
        shared.tended.send_modify(|rounds| *rounds += 1);
        forget(shared, pupils).await;
        let _ = tokio::time::timeout(PERIOD, shared.has_forgotten.notified()).await;
    }
}

/// Learns what others have forgotten, and says what they do not know.
async fn tell(shared: &Shared, model: &ModelKey, wire: &mut Wire) -> Result<(), Trouble> {
    let found = wire.generations(model).await?;
    let missing: BTreeMap<_, _> = shared.merge(model, &found).into_iter().collect();
    if missing.is_empty() {
        return Ok(());
    }
    let announced = announce(shared, model, &missing, wire).await;
    if let Err(Trouble::Lost(_)) = announced {
        return announced;
    }
    // A Redis that is full takes nothing more, but the texts can go.
    purge(model, &missing, wire).await?;
    announced?;
    wire.keep(model).await?;
    shared.with_generations(|all| {
        for (namespace, generation) in &missing {
            all.announce(model, namespace, *generation);
        }
    });
    Ok(())
}

async fn announce(
    shared: &Shared,
    model: &ModelKey,
    missing: &BTreeMap<String, u64>,
    wire: &mut Wire,
) -> Result<(), Trouble> {
    for (namespace, generation) in missing {
        wire.set_generation(model, namespace, *generation).await?;
        let entry = Entry {
            origin: shared.origin,
            namespace: namespace.clone(),
            generation: *generation,
            said: Said::Forgotten,
        };
        wire.add(model, &entry.encode(model)).await?;
    }
    Ok(())
}

/// Deletes the texts of lower generations.
async fn purge(
    model: &ModelKey,
    forgotten: &BTreeMap<String, u64>,
    wire: &mut Wire,
) -> Result<(), Trouble> {
    let mut before = None;
    loop {
        let entries = wire.newest(model, before, BATCH).await?;
        let Some(last) = entries.last() else {
            return Ok(());
        };
        before = Some(last.id);
        let ids: Vec<_> = entries
            .iter()
            .filter(|found| {
                let bytes = found.bytes.as_deref().unwrap_or_default();
                Entry::decode(bytes, model).is_ok_and(|entry| {
                    let known = forgotten.get(&entry.namespace);
                    known.is_some_and(|known| entry.generation < *known)
                })
            })
            .map(|found| found.id)
            .collect();
        wire.delete(model, &ids).await?;
    }
}

/// Has workers forget what was forgotten elsewhere, or could not be forgotten before.
async fn forget(shared: &Arc<Shared>, pupils: &dyn Pupils) {
    for model in shared.tended_models() {
        let unsettled = shared.with_generations(|all| all.unsettled(&model));
        for (namespace, generation) in unsettled {
            if shared.is_in_hand(&model, &namespace) {
                continue;
            }
            if pupils.forget(&model, &namespace, generation).await {
                shared.clone().settle(&model, &namespace, generation).await;
                tracing::info!(%namespace, "namespace forgotten, as by another router");
            }
        }
    }
}

impl Shared {
    /// Models that are served here, or of which something was forgotten.
    fn tended_models(&self) -> Vec<ModelKey> {
        let mut models = self.with_generations(|all| all.models());
        models.extend(lock(&self.followed).keys().cloned());
        models.into_iter().collect()
    }
}
