//! One random schedule of two routers.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::super::report::Report;
use super::super::world::{Broken, MAX_REQUESTS, World};
use super::client::{Door, Doors, Roamer};
use super::redis::Redis;
use super::router::{Router, begin};
use crate::sync::{lock, now};

/// Random turns of a schedule.
const TURNS: usize = 220;
/// One schedule in so many leaves routers and Redis alone.
const GENTLE: u64 = 8;
/// One schedule in so many, these behind the first such, flushes Redis and ends routers as they ask to be.
const WIDE: (u64, u64) = (5, 2);
/// Longest that a router may take to say that it ends.
const CLOSE_TIME: Duration = Duration::from_millis(500);
/// Calm turns in which everything ends.
const CALM_TURNS: usize = 2_000;
const CALM_MS: u64 = 20;
/// How long what is slow takes to be over.
const SLOW_TAIL: Duration = Duration::from_secs(2);
/// Routers that one schedule sees, those that died included.
const MAX_ROUTERS: usize = 3;

/// Everything of one schedule.
#[derive(Debug)]
pub(super) struct Pair {
    pub(super) world: World,
    pub(super) redis: Arc<Redis>,
    /// By the places of their sites.
    pub(super) routers: Vec<Router>,
    pub(super) doors: Doors,
    /// Only clients are cut, and workers have their troubles.
    is_gentle: bool,
    /// Redis may be flushed, and routers are ended gracefully.
    is_wide: bool,
    /// Streams that ran at no router that could write them again when Redis was flushed.
    pub(super) exposed: BTreeSet<String>,
    /// When Redis last was flushed.
    pub(super) flushed: Option<Instant>,
    pub(super) clients: Vec<Roamer>,
    /// How long a stream ran at two routers that both could ask Redis.
    pub(super) overlaps: BTreeMap<String, Duration>,
    /// Whether anything happened by which tokens are counted twice.
    pub(super) was_disturbed: bool,
}

impl Pair {
    pub(super) fn new(seed: u64, broken: Option<Broken>) -> Self {
        let mut world = World::new(seed, broken);
        world.sites.clear();
        world.may_differ = false;
        let mut pair = Self {
            world,
            redis: Arc::new(Redis::new(broken)),
            routers: Vec::new(),
            doors: Doors::default(),
            is_gentle: seed.is_multiple_of(GENTLE),
            is_wide: seed % WIDE.0 == WIDE.1 && !seed.is_multiple_of(GENTLE),
            exposed: BTreeSet::new(),
            flushed: None,
            clients: Vec::new(),
            overlaps: BTreeMap::new(),
            was_disturbed: false,
        };
        pair.begin_router();
        pair.begin_router();
        pair
    }

    fn begin_router(&mut self) {
        let (site, router) = begin(&self.redis, self.world.dice.next());
        lock(&self.doors).push(Door {
            site: self.world.sites.len(),
            generation: site.generation.clone(),
            gate: router.gate.clone(),
        });
        self.world.sites.push(site);
        self.routers.push(router);
    }

    /// Plays the schedule.
    pub(super) async fn run(mut self) -> Result<Report, String> {
        self.world.join(0)?;
        self.world.join(1)?;
        self.pass_time(50).await;
        for _ in 0..TURNS {
            self.turn()?;
            let milliseconds = self.world.dice.below(50) as u64;
            self.pass_time(milliseconds).await;
        }
        for router in &self.routers {
            router.line.calm();
        }
        for _ in 0..CALM_TURNS {
            if self
                .clients
                .iter()
                .all(|client| client.reading.is_finished())
            {
                return self.finish().await;
            }
            self.calm_turn()?;
            self.pass_time(CALM_MS).await;
        }
        Err(format!("unfinished: {:?}", self.clients))
    }

    /// Every task goes on until it waits, as the clock does.
    pub(super) async fn pass_time(&mut self, milliseconds: u64) {
        let begun = now();
        // A millisecond more, so that what the turn did is heard of first.
        tokio::time::sleep(Duration::from_millis(milliseconds + 1)).await;
        self.wake();
        self.end_routers();
        for (site, router) in self.world.sites.iter().zip(&mut self.routers) {
            if router.lives() && !(router.runs() && site.fleet.is_connected()) {
                router.could_not_write = router.could_not_write.max(Some(now()));
            }
        }
        self.note_overlaps(now() - begun);
    }

    /// Routers that stood still go on when it is time.
    fn wake(&mut self) {
        for router in &mut self.routers {
            if router.stands_until.is_some_and(|until| until <= now()) {
                router.stands_until = None;
                router.gate.open();
            }
        }
    }

    /// Routers that are to end do, once their streams have ended or their time is over.
    fn end_routers(&mut self) {
        for site in self.running(Router::runs) {
            let num_running = self.world.sites[site].generation.num_running();
            let router = &mut self.routers[site];
            let is_over = |until| num_running == 0 || until <= now();
            if router.closes_by.is_none() && router.drains_until.is_some_and(is_over) {
                router.close(now() + CLOSE_TIME);
            } else if router.is_closed() {
                tracing::debug!(site, "a router ends");
                self.lose_router(site);
            }
        }
    }

    fn note_overlaps(&mut self, time: Duration) {
        let mut running: BTreeMap<String, usize> = BTreeMap::new();
        for site in self.running(Router::runs) {
            let site = &self.world.sites[site];
            if site.fleet.is_connected() {
                for id in site.generation.shared.live.streams() {
                    *running.entry(id).or_default() += 1;
                }
            }
        }
        for (id, _) in running.into_iter().filter(|(_, count)| *count > 1) {
            *self.overlaps.entry(id).or_default() += time;
        }
    }

    /// The places of routers of which this is true.
    pub(super) fn running(&self, is_so: impl Fn(&Router) -> bool) -> Vec<usize> {
        let places = 0..self.routers.len();
        places
            .filter(|place| is_so(&self.routers[*place]))
            .collect()
    }

    fn any(&mut self, is_so: impl Fn(&Router) -> bool) -> Option<usize> {
        let places = self.running(is_so);
        (!places.is_empty()).then(|| places[self.world.dice.below(places.len())])
    }

    fn turn(&mut self) -> Result<(), String> {
        match self.world.dice.below(100) {
            0..4 => {
                if let Some(site) = self.any(Router::runs) {
                    self.world.join(site)?;
                }
            }
            4..12 => self.ask(),
            12..13 => self.drop_client(),
            13..18 => self.cut_client(true),
            18..22 => self.cut_client(false),
            22..30 if self.is_gentle => {}
            22..25 => self.stop_router(),
            25..28 => self.cut_line(),
            28..30 => self.lose_or_begin_router(),
            36..37 if self.is_wide => self.flush(),
            37..39 if self.is_wide => self.drain_router(),
            30..36 => {
                if let Some(site) = self.any(Router::runs) {
                    self.world.arrive_late(site);
                }
            }
            _ => {
                for _ in 0..3 {
                    self.visit_any()?;
                }
            }
        }
        self.world.check_alone()
    }

    fn visit_any(&mut self) -> Result<(), String> {
        let Some(site) = self.any(Router::lives) else {
            return Ok(());
        };
        let num_workers = self.world.sites[site].workers.len();
        if num_workers == 0 {
            return Ok(());
        }
        let place = self.world.dice.below(num_workers);
        if self.routers[site].runs() {
            return self.world.visit(site, place);
        }
        // Its router stands still: what the worker sends waits.
        self.world.hear(site, place)?;
        let worker = &self.world.sites[site].workers[place];
        if !worker.is_reserved() && !self.world.is_deadly(site, place) {
            self.world.step(site, place);
        }
        Ok(())
    }

    pub(super) fn calm_turn(&mut self) -> Result<(), String> {
        if self.running(Router::lives).len() < 2 && self.routers.len() < MAX_ROUTERS {
            self.begin_router();
        }
        for site in self.running(Router::runs) {
            self.world.calm(site)?;
        }
        self.world.check_alone()
    }

    fn ask(&mut self) {
        let Some(site) = self.any(Router::runs) else {
            return;
        };
        if self.clients.len() >= MAX_REQUESTS || self.world.sites[site].is_waited_for() {
            return;
        }
        let ask = self.world.new_ask();
        // Its router may die at any time.
        self.world.was_cut(&ask);
        let first = lock(&self.doors)
            .iter()
            .find(|door| door.site == site)
            .cloned();
        if let Some(first) = first {
            let seed = self.world.dice.next();
            self.clients
                .push(Roamer::start(ask, &self.doors, first, seed));
        }
    }

    fn drop_client(&mut self) {
        if self.clients.is_empty() {
            return;
        }
        let place = self.world.dice.below(self.clients.len());
        if !self.clients[place].reading.is_finished() {
            self.clients.swap_remove(place).reading.abort();
            self.world.report.dropped += 1;
        }
    }

    fn cut_client(&mut self, is_noticed: bool) {
        let places = 0..self.clients.len();
        let places: Vec<_> = places
            .filter(|place| self.clients[*place].can_be_cut())
            .collect();
        if places.is_empty() {
            return;
        }
        let place = places[self.world.dice.below(places.len())];
        let pause = Duration::from_millis(self.world.dice.below(150) as u64);
        self.clients[place].cut(pause, is_noticed);
        self.world.report.cut += 1;
    }

    fn stop_router(&mut self) {
        // One at a time: someone is there to take its streams.
        if self
            .running(|router| router.lives() && !router.runs())
            .is_empty()
            && let Some(site) = self.any(Router::runs)
        {
            let milliseconds = 20 + self.world.dice.below(2_500) as u64;
            let router = &mut self.routers[site];
            router.gate.close();
            router.stands_until = Some(now() + Duration::from_millis(milliseconds));
            self.world.report.routers_stopped += 1;
            self.was_disturbed = true;
            tracing::debug!(site, milliseconds, "a router stands still");
        }
    }

    fn cut_line(&mut self) {
        let Some(site) = self.any(Router::lives) else {
            return;
        };
        let milliseconds = self.world.dice.below(2_000) as u64;
        let time = Duration::from_millis(milliseconds);
        let router = &mut self.routers[site];
        let mut until = now() + time;
        if self.world.dice.chance(60) {
            router.line.cut(time);
        } else {
            router.line.slow(time);
            // What was said before the end of that is on its way, and a turn waits for it.
            until += SLOW_TAIL;
        }
        router.could_not_write = router.could_not_write.max(Some(until));
        self.world.report.lines_cut += 1;
        self.was_disturbed = true;
        tracing::debug!(site, milliseconds, "Redis is far away");
    }

    fn lose_or_begin_router(&mut self) {
        if self.running(Router::lives).len() < 2 {
            if self.routers.len() < MAX_ROUTERS {
                self.begin_router();
            }
            return;
        }
        if self.routers.len() >= MAX_ROUTERS {
            return;
        }
        if let Some(site) = self.any(Router::lives) {
            tracing::debug!(site, "a router dies");
            self.world.report.routers_lost += usize::from(self.lose_router(site));
        }
    }

    fn flush(&mut self) {
        tracing::debug!("Redis is flushed");
        self.redis.flush();
        let sites = self.running(Router::runs).into_iter();
        let sites = sites.map(|site| &self.world.sites[site]);
        let sites = sites.filter(|site| site.fleet.is_connected());
        let written = sites.flat_map(|site| site.generation.shared.live.streams());
        let written: BTreeSet<_> = written.collect();
        let names = self.clients.iter().map(|client| client.ask.name.clone());
        self.exposed
            .extend(names.filter(|name| !written.contains(name)));
        self.flushed = Some(now());
        self.was_disturbed = true;
        self.world.report.flushed += 1;
    }

    fn drain_router(&mut self) {
        if self.running(Router::lives).len() < 2 || self.routers.len() >= MAX_ROUTERS {
            return;
        }
        let Some(site) = self.any(Router::runs) else {
            return;
        };
        if self.routers[site].drains_until.is_none() {
            let milliseconds = self.world.dice.below(2_000) as u64;
            tracing::debug!(site, milliseconds, "a router drains");
            let until = now() + Duration::from_millis(milliseconds);
            let generation = self.world.sites[site].generation.clone();
            self.routers[site].drain(until, generation);
            self.was_disturbed = true;
            self.world.report.routers_drained += 1;
        }
    }

    /// A router is gone, with all that it had; whether streams with tokens ran there.
    pub(super) fn lose_router(&mut self, site: usize) -> bool {
        let num_counted = self.world.sites[site].num_counted();
        lock(&self.doors).retain(|door| door.site != site);
        self.routers[site].die(now(), num_counted);
        let lost = &mut self.world.sites[site];
        let has_tokens = lost
            .workers
            .iter()
            .flat_map(|worker| worker.running.values());
        let is_hit = has_tokens.into_iter().any(|choice| choice.num_emitted > 0);
        (lost.workers, lost.gone) = (Vec::new(), Vec::new());
        self.was_disturbed = true;
        is_hit
    }

    /// When a router died, if it did.
    pub(super) fn died(&self, site: usize) -> Option<Instant> {
        self.routers[site].died.map(|(at, _)| at)
    }
}
