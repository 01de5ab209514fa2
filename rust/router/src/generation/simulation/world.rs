//! One random schedule: what happens, and the rules that hold whatever happens.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use super::client::{Ask, Client};
use super::dice::Dice;
use super::model::served;
use super::network::SimWorker;
use super::report::Report;
use super::site::{Site, limits};
use crate::config::LimitsConfig;
use crate::fleet::Fleet;
use crate::metrics::Metrics;

pub(super) const MAX_REQUESTS: usize = 8;
const MAX_WORKERS: usize = 4;
/// Random turns of a schedule; nothing but poison disturbs those after them.
const TURNS: usize = 250;
/// Calm turns in which everything ends.
const CALM_TURNS: usize = 3_000;

/// Faults of the router that the checks must catch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Broken {
    /// A resumed choice begins at its first token again.
    ForgetsEmitted,
    /// Tokens of an older attempt count for the running one.
    TakesLateTokens,
    /// A router goes on with streams that another has taken over.
    WritesWhatIsAnothers,
    /// A router takes streams over from one that lives.
    TakesFromTheLiving,
    /// A text is shared again by who goes on with its stream.
    SharesTwice,
}

/// What the world remembers of a choice.
#[derive(Debug, Default)]
pub(super) struct History {
    pub(super) seed: u64,
    pub(super) max_tokens: usize,
    pub(super) poison_at: Option<usize>,
    pub(super) was_cut: bool,
    pub(super) was_refused: bool,
    pub(super) was_faulted: bool,
    /// Its tokens at the first start after it was faulted.
    pub(super) tokens_after_fault: Option<usize>,
}

/// Everything of one schedule.
#[derive(Debug)]
pub(super) struct World {
    pub(super) dice: Dice,
    pub(super) broken: Option<Broken>,
    /// One, or those that share what they know of streams.
    pub(super) sites: Vec<Site>,
    pub(super) num_joined: usize,
    /// Whether workers of other numerics join.
    pub(super) may_differ: bool,
    pub(super) has_other_numerics: bool,
    pub(super) clients: Vec<Client>,
    pub(super) choices: BTreeMap<String, History>,
    pub(super) report: Report,
}

impl World {
    pub(super) fn new(seed: u64, broken: Option<Broken>) -> Self {
        let limits = limits(LimitsConfig::default().resume_window_s);
        let metrics = Arc::new(Metrics::new());
        Self {
            dice: Dice::new(seed),
            broken,
            sites: vec![Site::new(limits, metrics, Fleet::default())],
            num_joined: 0,
            may_differ: true,
            has_other_numerics: false,
            clients: Vec::new(),
            choices: BTreeMap::new(),
            report: Report::default(),
        }
    }

    /// Plays the schedule.
    pub(super) async fn run(mut self) -> Result<Report, String> {
        self.join(0)?;
        for _ in 0..TURNS {
            self.turn().await?;
            self.pass_time(0).await;
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
            self.pass_time(50).await;
        }
        Err(format!("unfinished: {:?}", self.clients))
    }

    /// Lets every task go on until it waits, then the clock.
    async fn pass_time(&mut self, milliseconds: u64) {
        for _ in 0..12 {
            tokio::task::yield_now().await;
        }
        if milliseconds > 0 {
            tokio::time::advance(Duration::from_millis(milliseconds)).await;
        }
    }

    async fn turn(&mut self) -> Result<(), String> {
        match self.dice.below(100) {
            0..4 => self.join(0)?,
            4..14 => self.ask(),
            14..16 => self.drop_client(),
            16..19 => self.cut_client(),
            19..30 => {
                let milliseconds = self.dice.below(40) as u64;
                self.pass_time(milliseconds).await;
            }
            30..36 => self.arrive_late(0),
            _ if self.sites[0].workers.is_empty() => {}
            _ => {
                let place = self.dice.below(self.sites[0].workers.len());
                self.visit(0, place)?;
            }
        }
        self.check_alone()
    }

    fn calm_turn(&mut self) -> Result<(), String> {
        self.calm(0)?;
        self.check_alone()
    }

    /// All of a router's workers do what they should.
    pub(super) fn calm(&mut self, site: usize) -> Result<(), String> {
        self.arrive_late(site);
        if self.sites[site].workers.len() < 2 {
            self.join(site)?;
        }
        for place in (0..self.sites[site].workers.len()).rev() {
            let worker = &mut self.sites[site].workers[place];
            worker.is_stalled = false;
            worker.is_draining = false;
            self.hear(site, place)?;
            if self.step(site, place) {
                let num_waiting = self.sites[site].workers[place].wire.len();
                self.arrive(site, place, num_waiting);
            }
        }
        Ok(())
    }

    pub(super) fn join(&mut self, site: usize) -> Result<(), String> {
        if self.sites[site].workers.len() >= MAX_WORKERS {
            return Ok(());
        }
        self.num_joined += 1;
        let is_other = self.dice.chance(15) && self.may_differ;
        self.has_other_numerics |= is_other;
        let fingerprint = if is_other { "b" } else { "a" };
        let mut worker = SimWorker::new(self.num_joined, fingerprint);
        worker.is_deaf = self.dice.chance(20);
        let site = &mut self.sites[site];
        let joined = site.registry.join(served(), worker.worker.clone());
        site.workers.push(worker);
        joined.map_err(|status| status.to_string())
    }

    fn ask(&mut self) {
        if self.clients.len() < MAX_REQUESTS && !self.sites[0].is_waited_for() {
            let ask = self.new_ask();
            self.clients
                .push(Client::start(&self.sites[0].generation, ask));
        }
    }

    /// What the next client asks for.
    pub(super) fn new_ask(&mut self) -> Ask {
        self.report.requests += 1;
        let max_tokens = 2 + self.dice.below(22);
        let is_poison = self.dice.chance(8);
        let is_slow = self.dice.chance(20);
        let ask = Ask {
            name: format!("r{}", self.report.requests),
            seed: self.dice.next(),
            num_choices: 1 + self.dice.below(2) as u32,
            max_tokens,
            poison_at: is_poison.then(|| self.dice.below(max_tokens)),
            slowness: Duration::from_millis(if is_slow { 30 } else { 0 }),
        };
        for index in 0..ask.num_choices {
            let history = History {
                seed: spectrie_types::seed::choice_seed(ask.seed, index),
                max_tokens,
                poison_at: ask.poison_at,
                ..History::default()
            };
            self.choices
                .insert(format!("{}.{index}", ask.name), history);
        }
        ask
    }

    fn drop_client(&mut self) {
        if !self.clients.is_empty() {
            let place = self.dice.below(self.clients.len());
            if !self.clients[place].reading.is_finished() {
                self.clients.swap_remove(place).reading.abort();
                self.report.dropped += 1;
            }
        }
    }

    /// Cuts a client, which comes back.
    fn cut_client(&mut self) {
        let can_be = |client: &Client| !client.reading.is_finished() && client.is_resumable();
        let places: Vec<_> = (0..self.clients.len())
            .filter(|place| can_be(&self.clients[*place]))
            .collect();
        if places.is_empty() {
            return;
        }
        let place = places[self.dice.below(places.len())];
        let pause = Duration::from_millis(self.dice.below(60) as u64);
        let client = &mut self.clients[place];
        client.cut(&self.sites[0].generation, pause);
        let ask = client.ask.clone();
        self.was_cut(&ask);
        self.report.cut += 1;
    }

    /// Notes that workers may hear late of what a client's choices had.
    pub(super) fn was_cut(&mut self, ask: &Ask) {
        for index in 0..ask.num_choices {
            let name = format!("{}.{index}", ask.name);
            if let Some(history) = self.choices.get_mut(&name) {
                history.was_cut = true;
            }
        }
    }

    /// Something happens to a worker.
    pub(super) fn visit(&mut self, site: usize, place: usize) -> Result<(), String> {
        self.hear(site, place)?;
        let worker = &mut self.sites[site].workers[place];
        if worker.is_reserved() {
            // What convicts a choice that is alone is the poison's doing, never chance's.
            worker.is_stalled = false;
            if self.step(site, place) {
                self.arrive(site, place, 3);
            }
            return Ok(());
        }
        let has_tokens = worker.running.values().any(|choice| choice.num_emitted > 0);
        let hit = usize::from(has_tokens);
        match self.dice.below(100) {
            0..3 => {
                self.report.deaths += hit;
                self.lose(site, place);
            }
            3..8 => worker.is_stalled = true,
            8..14 if worker.is_stalled => {
                self.report.stalls += hit;
                self.lose(site, place);
            }
            14..16
                if !self.sites[site]
                    .workers
                    .iter()
                    .any(|worker| worker.is_draining) =>
            {
                self.report.drains += hit;
                self.sites[site].workers[place].is_draining = true;
            }
            16..24 => self.trouble(site, place),
            24..60 if self.step(site, place) => {
                let count = self.dice.below(4);
                self.arrive(site, place, count);
            }
            60.. => {
                let count = self.dice.below(6);
                self.arrive(site, place, count);
                let worker = &self.sites[site].workers[place];
                let is_idle = worker.running.is_empty() && worker.wire.is_empty();
                if worker.is_draining && is_idle && worker.worker.num_choices() == 0 {
                    self.lose(site, place);
                }
            }
            _ => {}
        }
        Ok(())
    }

    pub(super) fn check_alone(&self) -> Result<(), String> {
        let shares = |worker: &&SimWorker| {
            let candidate = worker.worker.candidate();
            candidate.is_reserved && candidate.num_choices != 1
        };
        let mut workers = self.sites.iter().flat_map(|site| &site.workers);
        match workers.find(shares) {
            Some(worker) => Err(format!("{} does not run alone", worker.worker.id)),
            None => Ok(()),
        }
    }

    /// Checks answers, counts and tables once all requests have ended.
    async fn finish(mut self) -> Result<Report, String> {
        let mut num_tokens = 0;
        let mut is_exact = self.report.dropped == 0;
        for client in std::mem::take(&mut self.clients) {
            let ask = client.ask.clone();
            let seen = client.end().await?;
            num_tokens += seen.check(&ask)?;
            if seen.says_numerics_changed() && !self.has_other_numerics {
                return Err(format!("{}: numerics did not change", ask.name));
            }
            self.report.convicted += usize::from(ask.poison_at.is_some());
            is_exact &= ask.poison_at.is_none();
        }
        self.pass_time(0).await;
        let counted = self.sites[0].num_counted();
        if is_exact && counted != num_tokens as u64 {
            return Err(format!("{counted} tokens counted, {num_tokens} sent"));
        }
        self.sites[0].check_tables(self.report.requests)?;
        Ok(self.report)
    }
}
