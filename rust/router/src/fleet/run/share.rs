//! Writes what this router's workers learned.

use std::collections::BTreeSet;
use std::sync::Arc;

use futures_util::future::join_all;

use crate::fleet::entry::{Entry, Said};
use crate::fleet::handle::{Queued, Shared, Texts};
use crate::fleet::records::origin::Origin;
use crate::fleet::wire::{Trouble, Wire};

/// Texts that are written at once.
const BATCH: usize = 32;

/// Writes texts as they come, until the connection is lost; gives why.
pub(super) async fn share(shared: &Arc<Shared>, texts: &mut Texts, mut wire: Wire) -> Trouble {
    let mut refused = false;
    let mut batch = Vec::with_capacity(BATCH);
    loop {
        batch.clear();
        if texts.0.recv_many(&mut batch, BATCH).await == 0 {
            // The queue lives as long as the router.
            return std::future::pending().await;
        }
        shared.streams.pulse.assured().await;
        batch.retain(|text| {
            let is_lost = text.origin.as_ref().is_some_and(Origin::is_lost);
            shared.metrics.fleet.dropped("lease", u64::from(is_lost));
            !is_lost
        });
        let models: BTreeSet<_> = batch.iter().map(|text| text.model.clone()).collect();
        let written = batch
            .drain(..)
            .map(|text| write(shared, wire.clone(), text));
        let mut trouble = None;
        for result in join_all(written).await {
            if let Err(error) = result {
                shared.metrics.fleet.dropped("redis", 1);
                trouble = Some(error);
            }
        }
        match trouble {
            Some(Trouble::Lost(reason)) => return Trouble::Lost(reason),
            Some(Trouble::Refused(reason)) => {
                if !refused {
                    tracing::warn!(%reason, "the fleet's Redis takes no text");
                }
                refused = true;
            }
            None => {
                if refused {
                    tracing::info!("the fleet's Redis takes text again");
                }
                refused = false;
                for model in models {
                    if let Err(Trouble::Lost(reason)) = wire.keep(&model).await {
                        return Trouble::Lost(reason);
                    }
                }
            }
        }
    }
}

async fn write(shared: &Shared, mut wire: Wire, text: Queued) -> Result<(), Trouble> {
    let open = shared.with_generations(|all| all.open_of(&text.model, &text.namespace));
    if open != Some(text.generation) {
        shared.metrics.fleet.dropped("forgotten", 1);
        return Ok(());
    }
    let entry = Entry {
        origin: shared.origin,
        namespace: text.namespace,
        generation: text.generation,
        said: Said::Text(text.token_ids),
    };
    wire.add(&text.model, &entry.encode(&text.model)).await?;
    shared.metrics.fleet.published();
    Ok(())
}
