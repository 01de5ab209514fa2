//! Which tenant may have more choices in flight.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use spectrie_types::Standing;

use crate::config::LimitsConfig;
use crate::sync::now;
use crate::sync::pace;
use crate::workers::placing::order::{Order, Refusal};
use crate::workers::worker::Worker;

/// How many choices the workers of a model may hold.
#[derive(Clone, Copy, Debug)]
pub(in crate::workers) struct Admission {
    in_flight_factor: usize,
    max_queued: Option<usize>,
}

impl Admission {
    pub(in crate::workers) fn new(limits: &LimitsConfig) -> Self {
        Self {
            in_flight_factor: limits.in_flight_factor.max(1) as usize,
            max_queued: limits.max_queued,
        }
    }

    /// Most choices in flight on these workers while one tenant asks.
    pub(in crate::workers) fn limit(self, workers: &[Arc<Worker>]) -> usize {
        let places = places(workers);
        match self.max_queued {
            Some(queued) => places + queued,
            None => places * self.in_flight_factor,
        }
    }

    /// How a tenant stands among those on these workers, and those that choices `waiting` are of.
    pub(in crate::workers) fn room<'a>(
        self,
        workers: &[Arc<Worker>],
        waiting: impl Iterator<Item = &'a str>,
        tenant: &str,
    ) -> Room {
        Room {
            standing: standing(workers, waiting, tenant),
            limit: self.limit(workers),
            places: places(workers),
        }
    }

    /// Whether the order's tenant may have its choices in flight beside what is: [`Holdings`] says
    /// by which rule. A tenant that has nothing in flight may have more choices than a small worker
    /// has places.
    ///
    /// [`Holdings`]: spectrie_types::Holdings
    ///
    /// # Errors
    /// [`Refusal::Full`], with the time after which enough will have ended.
    pub(in crate::workers) fn admit(
        self,
        workers: &[Arc<Worker>],
        order: &Order<'_>,
    ) -> Result<(), Refusal> {
        let limit = self.limit(workers);
        let standing = standing(workers, std::iter::empty(), order.tenant);
        let excess = standing.excess(order.num_choices, limit, places(workers));
        if excess == 0 {
            return Ok(());
        }
        Err(Refusal::Full {
            own: standing.own,
            share: standing.share(limit),
            limit,
            retry_after: wait_for(workers, standing, excess),
        })
    }
}

/// How a tenant stands among those that have choices on these workers, or `waiting` for them.
fn standing<'a>(
    workers: &[Arc<Worker>],
    waiting: impl Iterator<Item = &'a str>,
    tenant: &str,
) -> Standing {
    let mut tenants: HashSet<Arc<str>> = HashSet::new();
    let (mut own, mut total) = (0, 0);
    for one in waiting {
        own += usize::from(one == tenant);
        total += 1;
        tenants.insert(one.into());
    }
    for worker in workers {
        worker.with_held(|held| {
            own += held.of(tenant);
            total += held.total();
            tenants.extend(held.tenants().cloned());
        });
    }
    Standing {
        own,
        total,
        num_tenants: tenants.len() + usize::from(own == 0),
    }
}

/// How a tenant stands, and what there is to have.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Room {
    pub(crate) standing: Standing,
    /// Most choices in flight while one tenant asks.
    pub(crate) limit: usize,
    /// Choices that run at once.
    pub(crate) places: usize,
}

/// Choices that the workers run at once.
fn places(workers: &[Arc<Worker>]) -> usize {
    workers.iter().map(|worker| worker.max_running()).sum()
}

/// After what time `excess` choices of a tenant will probably have ended: of those that end in a
/// second, it has as large a part as of those that are held. One that holds none waits for any.
fn wait_for(workers: &[Arc<Worker>], standing: Standing, excess: usize) -> Duration {
    let now = now();
    let rate: f64 = workers.iter().map(|worker| worker.pace(now)).sum();
    let part = match standing.own {
        0 => 1.0,
        own => own as f64 / standing.total.max(1) as f64,
    };
    pace::time_for(excess, rate * part)
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::*;
    use spectrie_proto::worker_v1::{Capacity, Hello, Start};

    use super::*;
    use crate::workers::mailbox::Mailbox;
    use crate::workers::outgoing::{self, Outgoing};
    use crate::workers::placing::Prefix;
    use crate::workers::worker::{ChoiceGuard, Dispatch};

    const NUM_TENANTS: usize = 4;
    const MAX_CHOICES: usize = 8;

    /// A tenant asks for choices, or with 0 ends the oldest request that it has.
    type Step = (usize, usize);

    /// Workers, and the requests of each tenant that run on them.
    struct World {
        admission: Admission,
        workers: Vec<Arc<Worker>>,
        running: [Vec<Vec<ChoiceGuard>>; NUM_TENANTS],
        count: usize,
        _outgoing: Vec<Outgoing>,
    }

    impl World {
        fn new(places: &[u32], factor: u32) -> Self {
            let limits = LimitsConfig {
                in_flight_factor: factor,
                ..LimitsConfig::default()
            };
            let workers = places.iter().enumerate().map(|(index, places)| {
                let capacity = Some(Capacity {
                    max_running: *places,
                    ..Capacity::default()
                });
                let hello = Hello {
                    capacity,
                    ..Hello::default()
                };
                let (sender, outgoing) = outgoing::channel();
                (
                    Arc::new(Worker::new(index.to_string(), hello, sender)),
                    outgoing,
                )
            });
            let (workers, outgoing) = workers.unzip();
            Self {
                admission: Admission::new(&limits),
                workers,
                running: Default::default(),
                count: 0,
                _outgoing: outgoing,
            }
        }

        /// What a tenant holds, by the requests that it was granted.
        fn own(&self, tenant: usize) -> usize {
            self.running[tenant].iter().map(Vec::len).sum()
        }

        fn total(&self) -> usize {
            (0..NUM_TENANTS).map(|tenant| self.own(tenant)).sum()
        }

        fn num_tenants(&self, asking: usize) -> usize {
            let holds = |tenant: &usize| *tenant == asking || self.own(*tenant) > 0;
            (0..NUM_TENANTS).filter(holds).count()
        }

        /// Whether a tenant's request is granted; it then runs on one of the workers.
        fn ask(&mut self, tenant: usize, num_choices: usize) -> bool {
            let name = tenant.to_string();
            let order = Order {
                model: "",
                tenant: &name,
                num_choices,
                needs_context: 0,
                cache_key: None,
                prefix: &Prefix::default(),
            };
            if self.admission.admit(&self.workers, &order).is_err() {
                return false;
            }
            self.count += 1;
            let worker = self.workers[self.count % self.workers.len()].clone();
            let mailbox = Arc::new(Mailbox::new(num_choices));
            let guards = (0..num_choices).map(|index| {
                let start = Start {
                    request_id: format!("{}.{index}", self.count),
                    tenant: Some(name.clone()),
                    ..Start::default()
                };
                let mailbox = mailbox.clone();
                worker.dispatch(Box::new(Dispatch {
                    start,
                    mailbox,
                    index,
                    is_alone: false,
                }))
            });
            let guards = guards.collect::<Result<Vec<_>, _>>().unwrap();
            self.running[tenant].push(guards);
            true
        }

        fn end_oldest(&mut self, tenant: usize) {
            if !self.running[tenant].is_empty() {
                self.running[tenant].remove(0);
            }
        }
    }

    fn steps() -> impl Strategy<Value = Vec<Step>> {
        let asked = prop_oneof![Just(0), 1..=MAX_CHOICES];
        vec((0..NUM_TENANTS, asked), 1..200)
    }

    proptest! {
        #[test]
        fn tenants_have_their_shares_and_no_more_beside_others(
            places in vec(1_u32..9, 1..4), factor in 1_u32..6, steps in steps()
        ) {
            let mut world = World::new(&places, factor);
            let at_once = places.iter().sum::<u32>() as usize;
            let limit = at_once * factor as usize;
            for (tenant, asked) in steps {
                if asked == 0 {
                    world.end_oldest(tenant);
                    continue;
                }
                let (own, total) = (world.own(tenant), world.total());
                let share = limit / world.num_tenants(tenant);
                let granted = world.ask(tenant, asked);
                let is_within = own == 0 || own + asked <= share;
                prop_assert!(granted || !is_within, "{own} + {asked} of {share}");
                let is_idle = total + asked <= at_once;
                prop_assert!(!granted || is_within || is_idle, "{own} + {asked} of {share}");
                let most: usize = (1..=NUM_TENANTS)
                    .map(|tenants| (limit / tenants).max(MAX_CHOICES))
                    .sum();
                prop_assert!(world.total() <= most);
                for tenant in 0..NUM_TENANTS {
                    let counted = standing(&world.workers, std::iter::empty(), &tenant.to_string());
                    prop_assert_eq!((counted.own, counted.total), (world.own(tenant), world.total()));
                }
            }
        }

        #[test]
        fn tenant_within_its_share_hears_the_same_as_if_it_were_alone(
            places in vec(1_u32..9, 1..4), factor in 1_u32..6, steps in steps()
        ) {
            let (mut crowd, mut alone) = (World::new(&places, factor), World::new(&places, factor));
            let limit = (places.iter().sum::<u32>() * factor) as usize;
            let share = limit / NUM_TENANTS;
            for (tenant, asked) in steps {
                match (tenant, asked) {
                    (0, 0) => {
                        crowd.end_oldest(0);
                        alone.end_oldest(0);
                    }
                    (0, asked) if alone.own(0) + asked <= share => {
                        prop_assert!(alone.ask(0, asked) && crowd.ask(0, asked));
                    }
                    (0, _) => {}
                    (other, 0) => crowd.end_oldest(other),
                    (other, asked) => drop(crowd.ask(other, asked)),
                }
                let own = |world: &World| standing(&world.workers, std::iter::empty(), "0").own;
                prop_assert_eq!(own(&crowd), own(&alone));
            }
        }
    }

    #[test]
    fn refusal_names_the_share_and_a_time() {
        let mut world = World::new(&[2], 5);
        assert!((0..10).all(|_| world.ask(0, 1)) && world.ask(1, 1));
        let order = Order {
            model: "",
            tenant: "0",
            num_choices: 1,
            needs_context: 0,
            cache_key: None,
            prefix: &Prefix::default(),
        };
        let Err(Refusal::Full {
            own,
            share,
            limit,
            retry_after,
        }) = world.admission.admit(&world.workers, &order)
        else {
            panic!("admitted")
        };
        assert_eq!((own, share, limit), (10, 5, 10));
        assert!((1..=60).contains(&retry_after.as_secs()));
    }
}
