//! The rules that hold whatever happened to two routers.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use super::super::model::{answer, served};
use super::super::report::Report;
use super::client::{Roamer, Trail};
use super::router::{Router, WINDOW_S};
use super::world::Pair;
use crate::sync::lock;
use spectrie_types::seed::choice_seed;

/// Longest that a stream runs at two routers that both have Redis: the lease, and what a router doubts at
/// most before it goes on.
const MAX_OVERLAP: Duration = Duration::from_millis(1_800);
/// What a record may be behind its stream: a turn of writing, and the way to Redis.
const UNWRITTEN: Duration = Duration::from_millis(250);
/// Until a router notices that what it had written is gone.
const UNNOTICED: Duration = Duration::from_millis(200);
/// Turns of 20 ms until each router has Redis again, and all of its streams have ended.
const LAST_TURNS: usize = 350;
/// Until the last words of all streams are written.
const LAST_WORDS_MS: u64 = 2_000;

impl Pair {
    /// Checks answers, counts, texts and tables once all streams have ended.
    pub(super) async fn finish(mut self) -> Result<Report, String> {
        // A router that does not notice that a client is gone goes on until it has Redis, and for its turn.
        for _ in 0..LAST_TURNS {
            self.calm_turn()?;
            self.pass_time(20).await;
        }
        self.pass_time(LAST_WORDS_MS).await;
        let clients = std::mem::take(&mut self.clients);
        let (mut num_sent, mut is_exact) =
            (0, !self.was_disturbed && self.world.report.dropped == 0);
        let mut kept = Vec::new();
        for mut client in clients {
            let done = (&mut client.reading).await;
            done.map_err(|error| error.to_string())??;
            let trail = lock(&client.trail).clone();
            self.world.report.moved += usize::from(trail.sites().len() > 1);
            if trail.is_unbegun {
                is_exact = false;
                continue;
            }
            if trail.is_forsaken {
                self.check_forsaken(&client, &trail)?;
                self.world.report.forsaken += 1;
                continue;
            }
            is_exact &= client.ask.poison_at.is_none();
            num_sent += lock(&client.seen).check(&client.ask)?;
            self.world.report.convicted += usize::from(client.ask.poison_at.is_some());
            kept.push((client, trail));
        }
        self.check_counts(num_sent as u64, is_exact)?;
        self.check_texts(&kept)?;
        if let Some((id, time)) = self.overlaps.iter().find(|(_, time)| **time > MAX_OVERLAP) {
            return Err(format!("{id} ran at two routers for {time:?}"));
        }
        for site in self.running(Router::lives) {
            self.world.sites[site].check_tables(self.world.report.requests)?;
        }
        self.check_redis().await?;
        Ok(self.world.report)
    }

    /// A stream is lost only with a router that died before it had written that there is one, or with what
    /// Redis alone had of it.
    fn check_forsaken(&self, client: &Roamer, trail: &Trail) -> Result<(), String> {
        let is_lost = |(site, since): &(usize, std::time::Instant)| {
            let router = &self.routers[*site];
            let Some(died) = self.died(*site) else {
                return false;
            };
            let flushed = self.flushed.map(|at| at + UNNOTICED);
            let could_not = router.could_not_write.max(flushed);
            let could_since = if router.closes_by.is_some() {
                // It had all the time that it wanted.
                could_not
            } else {
                could_not.max(Some(*since))
            };
            could_since.is_some_and(|since| died.saturating_duration_since(since) < UNWRITTEN)
        };
        if trail.visits.iter().any(is_lost) || self.exposed.contains(&client.ask.name) {
            return Ok(());
        }
        Err(format!("{} is lost: {trail:?}", client.ask.name))
    }

    /// Nothing that was sent is free, and where no router died, stood still or was without Redis, nothing is
    /// counted twice.
    fn check_counts(&mut self, num_sent: u64, is_exact: bool) -> Result<(), String> {
        let sites = self.world.sites.iter().zip(&self.routers);
        let counted = sites.map(|(site, router)| match router.died {
            Some((_, counted)) => counted,
            None => site.num_counted(),
        });
        let counted: u64 = counted.sum();
        self.world.report.exact += usize::from(is_exact);
        if counted < num_sent || (is_exact && counted != num_sent) {
            return Err(format!("{counted} tokens counted, {num_sent} sent"));
        }
        Ok(())
    }

    /// Each text is shared once at most; and once if its answer ended well, but for those that a router counts
    /// as dropped, or took with it.
    fn check_texts(&mut self, kept: &[(Roamer, Trail)]) -> Result<(), String> {
        let texts = self.redis.texts(&served().fleet_key());
        let mut counts: BTreeMap<(usize, &Vec<u32>), usize> = BTreeMap::new();
        for (num_flushes, text) in &texts {
            *counts.entry((*num_flushes, text)).or_default() += 1;
        }
        // With what Redis held it forgets what was shared.
        if let Some(((_, text), count)) = counts.iter().find(|(_, count)| **count > 1) {
            let mut choices = self.world.choices.iter();
            let of = choices.find(|(_, choice)| answer(choice.seed, choice.max_tokens) == ***text);
            return Err(format!("the text of {of:?} is shared {count} times"));
        }
        for router in &self.routers {
            let mut taught = lock(&router.pupils.texts).clone();
            let count = taught.len();
            taught.sort();
            taught.dedup();
            if taught.len() < count && self.flushed.is_none() {
                return Err("a router's workers were taught a text twice".into());
            }
        }
        let shared: BTreeSet<_> = texts.iter().map(|(_, text)| text).collect();
        let (mut num_missing, mut missing) = (0, Vec::new());
        for (client, trail) in kept {
            let ask = &client.ask;
            if trail.sites().iter().any(|site| self.died(*site).is_some()) {
                continue;
            }
            for index in 0..ask.num_choices {
                let text = answer(choice_seed(ask.seed, index), ask.max_tokens);
                if lock(&client.seen).has_ended(index as usize) && !shared.contains(&text) {
                    num_missing += 1;
                    missing.push(format!("{}.{index}", ask.name));
                }
            }
        }
        let sites = self.world.sites.iter();
        let num_dropped: u64 = sites
            .map(|site| num_dropped(&site.metrics.encode().1))
            .sum();
        self.world.report.taught += shared.len();
        self.world.report.untaught += num_missing;
        if num_missing as u64 > num_dropped {
            return Err(format!(
                "{missing:?} are not shared, {num_dropped} texts counted as dropped"
            ));
        }
        Ok(())
    }

    /// Once no stream can be gone on with, nothing is held for any.
    async fn check_redis(&mut self) -> Result<(), String> {
        self.pass_time(2 * 1_000 * WINDOW_S as u64).await;
        for begin in ["stream", "wanted", "taught"] {
            let left = self.redis.names(&format!("spectrie:1:{begin}:"));
            if !left.is_empty() {
                return Err(format!("left in Redis: {left:?}"));
            }
        }
        for site in self.running(Router::lives) {
            let held = self.world.sites[site].fleet.held();
            if held != (0, 0, 0) {
                return Err(format!("router {site} holds {held:?}"));
            }
        }
        Ok(())
    }
}

/// Texts that a router counts as not shared.
fn num_dropped(shown: &str) -> u64 {
    let lines = shown
        .lines()
        .filter(|line| line.starts_with("spectrie_fleet_dropped") && !line.contains("repeated"));
    lines
        .filter_map(|line| line.rsplit_once(' ')?.1.parse::<u64>().ok())
        .sum()
}
