//! A record in the hands of its client.

use std::sync::Arc;
use std::time::Instant;

use crate::failover::{Outline, Record, Taken};
use crate::fleet::{ModelKey, Sharing, TakenOver};
use crate::generation::live::LiveId;
use crate::generation::shared::Shared;
use crate::sync::{lock, now};

/// A record that its client claimed. Dropping it puts it back: its client may ask for something else, or
/// later.
#[derive(Debug)]
pub(super) struct Claimed {
    shared: Arc<Shared>,
    taken: Option<Box<Taken>>,
    sharing: Option<Sharing>,
    live: Option<LiveId>,
}

impl Claimed {
    /// What is claimed, with its name; the record may come later.
    pub(super) fn new(shared: Arc<Shared>, taken: Option<Box<Taken>>, live: LiveId) -> Self {
        Self {
            shared,
            taken,
            sharing: None,
            live: Some(live),
        }
    }

    /// The record is of no use any more.
    pub(super) fn forget(&mut self) {
        self.taken = None;
    }

    /// The fleet knows the record by this owner from now on.
    pub(super) fn is_held_as(&mut self, owner: String) {
        if let Some(taken) = &mut self.taken {
            taken.record.holder = Some(owner);
        }
    }

    /// The record; none only while it is being taken over.
    pub(super) fn record(&self) -> Option<&Record> {
        self.taken.as_deref().map(|taken| &taken.record)
    }

    /// What it is made of.
    pub(super) fn into_parts(mut self) -> Option<(Record, LiveId, Option<Sharing>)> {
        let live = self.live.take()?;
        let taken = self.taken.take()?;
        let mut sharing = self.sharing.take();
        if let Some(sharing) = &mut sharing {
            sharing.drops();
        }
        Some((taken.record, live, sharing))
    }

    /// Whether it came from another router.
    pub(super) fn is_taken_over(&self) -> bool {
        self.record().is_some_and(|record| record.holder.is_none()) && self.sharing.is_some()
    }

    /// Its client may be ahead of a record that the fleet knows: it may have gone on at a router without Redis.
    pub(super) fn may_be_behind(&mut self) {
        if let Some(taken) = &mut self.taken
            && taken.record.holder.is_some()
        {
            taken.record.may_be_behind();
        }
    }

    /// Goes on from its own record, of which the fleet has nothing.
    pub(super) fn share_again(&mut self) {
        if let Some(taken) = &mut self.taken {
            // Another router may have gone on with it, and will again, from what this one writes.
            for choice in &mut taken.record.choices {
                choice.attempt = self.shared.fleet.behind_all(choice.attempt);
            }
        }
        let Some(own) = self.record() else { return };
        let model = ModelKey::new(&own.model_hash, &own.model_digest);
        let fleet = &self.shared.fleet;
        let tenant = own.tenant.as_deref();
        self.sharing = fleet.sharing(&model, &own.request, tenant, &own.token);
    }

    /// Goes on from what another router had.
    pub(super) fn take_over(&mut self, over: TakenOver, now: Instant) {
        let TakenOver { record, sharing } = over;
        if let Some(mut record) = record {
            if let Some(own) = self.record() {
                record.numbers_behind(own);
            }
            if let Some(live) = &self.live {
                live.is_of(&record.request.namespace, Some(Outline::from(&record)));
            }
            self.taken = Some(Box::new(lock(&self.shared.records).taken(record, now)));
        }
        self.sharing = Some(sharing);
    }
}

impl Drop for Claimed {
    fn drop(&mut self) {
        let Some(live) = self.live.take() else { return };
        let sharing = self.sharing.take();
        let Some(taken) = self.taken.take() else {
            return;
        };
        let mut taken = *taken;
        let mut records = lock(&self.shared.records);
        if !live.is_forgotten() && !live.is_aborted() {
            if let Some(sharing) = sharing {
                taken.record.holder = Some(sharing.leave(taken.record.clone()));
            }
            records.put_back(taken, now());
        } else if let Some(mut sharing) = sharing {
            sharing.drops();
        }
        drop(records);
        drop(live);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{FleetConfig, LimitsConfig, RouterConfig};
    use crate::failover::example;
    use crate::fleet::Fleet;
    use crate::generation::Generation;
    use crate::metrics::Metrics;
    use crate::workers::Registry;

    #[tokio::test]
    async fn stream_that_comes_back_from_another_router_takes_no_number_of_its_own_again() {
        let (limits, metrics) = (LimitsConfig::default(), Arc::new(Metrics::new()));
        let config = FleetConfig {
            redis: Some("unix:/nowhere".into()),
            ..FleetConfig::default()
        };
        let (fleet, _texts) = Fleet::new(&config, &limits, None, metrics.clone()).unwrap();
        let registry = Arc::new(Registry::new(std::time::Duration::ZERO, &limits));
        let config = Arc::new(RouterConfig::default());
        let generation = Generation::new(registry, metrics, config, fleet.clone());
        let mut own = example(None, "a", 3);
        own.choices[0].attempt = 5;
        // Its last words were never written: others went on from what was before them.
        let mut older = own.clone();
        older.choices[0].attempt = 2;
        let sharing = fleet.sharing(&ModelKey::from("m"), &own.request, None, &own.token);
        let shared = generation.shared.clone();
        let live = shared.live.claim(None, "a").unwrap();
        let taken = lock(&shared.records).taken(own, now());
        let mut claimed = Claimed::new(shared, Some(Box::new(taken)), live);
        let over = TakenOver {
            record: Some(older),
            sharing: sharing.unwrap(),
        };
        claimed.take_over(over, now());
        assert_eq!(claimed.record().unwrap().choices[0].attempt, 5);
    }
}
