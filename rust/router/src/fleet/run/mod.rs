//! Keeps the connection to Redis, and does all that needs it.

mod follow;
mod share;
#[cfg(test)]
mod simulated;
mod tend;

use std::sync::Arc;
use std::time::Duration;

use tokio_util::sync::CancellationToken;

use crate::fleet::handle::{Fleet, Link, Shared, Texts};
use crate::fleet::limits::draw;
use crate::fleet::pupils::Pupils;
use crate::fleet::streams::{beat, end_life, tend as tend_streams, verify};
use crate::fleet::wire::{Trouble, Wire};
use follow::follow;
use share::share;
#[cfg(test)]
pub(crate) use simulated::text_of;
use tend::tend;

/// First and longest wait before the next attempt to connect.
const WAITS: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(5));

/// Shares, follows and forgets until `closing`, whatever Redis does.
pub(crate) async fn run(
    fleet: Fleet,
    mut texts: Texts,
    pupils: Arc<dyn Pupils>,
    closing: CancellationToken,
) {
    let Some(shared) = fleet.0 else { return };
    tokio::select! {
        // In this order, always: what a simulation plays it plays again.
        biased;
        () = keep(&shared, &mut texts, &*pupils) => {}
        () = beat(&shared) => {}
        () = closing.cancelled() => {}
    }
    let link = shared.link.borrow().clone();
    if let Link::Up(wire) = link {
        end_life(&shared, wire).await;
    }
}

async fn keep(shared: &Arc<Shared>, texts: &mut Texts, pupils: &dyn Pupils) {
    // Routers that lost the same Redis do not come back to it at the same moment.
    let apart = 0.5 + 0.5 * f64::from(shared.origin as u32) / f64::from(u32::MAX);
    let mut wait = WAITS.0;
    loop {
        let ended = match connect(shared).await {
            Ok((commands, reader)) => {
                shared.up(&commands);
                wait = WAITS.0;
                serve(shared, texts, pupils, commands, reader).await
            }
            Err(trouble) => trouble,
        };
        shared.down(&ended);
        tokio::time::sleep(wait.mul_f64(apart)).await;
        wait = (2 * wait).min(WAITS.1);
    }
}

/// A connection for commands, and one on which the next entry is waited for.
async fn connect(shared: &Shared) -> Result<(Wire, Wire), Trouble> {
    let mut commands = shared.connect().await?;
    // It may take connections and not answer yet, as while it loads.
    commands.ping().await?;
    Ok((commands, shared.connect().await?))
}

/// Runs until the connection is lost; gives why.
async fn serve(
    shared: &Arc<Shared>,
    texts: &mut Texts,
    pupils: &dyn Pupils,
    commands: Wire,
    reader: Wire,
) -> Trouble {
    // What others took meanwhile is neither taught nor written.
    if let Err(trouble) = verify(shared, pupils, &commands).await {
        return trouble;
    }
    tokio::select! {
        biased;
        trouble = tend_streams(shared, pupils, commands.clone()) => trouble,
        trouble = share(shared, texts, commands.clone()) => trouble,
        trouble = draw(shared, commands.clone()) => trouble,
        trouble = tend(shared, pupils, commands.clone()) => trouble,
        trouble = follow(shared, pupils, reader, commands) => trouble,
    }
}

impl Shared {
    fn up(&self, wire: &Wire) {
        self.link.send_replace(Link::Up(wire.clone()));
        self.metrics.fleet.set_connected(true);
        tracing::info!(redis = %self.address, "the fleet's Redis is connected");
    }

    fn down(&self, trouble: &Trouble) {
        let before = self.link.send_replace(Link::Down);
        // It cannot be known which streams are others' now: all go on.
        self.streams.pulse.is_sure();
        self.streams.cut();
        self.metrics.fleet.set_connected(false);
        if !matches!(before, Link::Down) {
            tracing::warn!(redis = %self.address, reason = %trouble,
                "the fleet's Redis cannot be used: this router serves on alone");
        }
    }
}
