//! One random schedule: what happens, and the rules that hold whatever happens.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use super::client::{Ask, Client};
use super::dice::Dice;
use super::model::served;
use super::network::SimWorker;
use super::report::Report;
use crate::config::{LimitsConfig, RouterConfig};
use crate::fleet::Fleet;
use crate::generation::Generation;
use crate::metrics::Metrics;
use crate::sync::lock;
use crate::workers::Registry;

const MAX_REQUESTS: usize = 8;
const MAX_WORKERS: usize = 4;
/// Random turns of a schedule; nothing but poison disturbs those after them.
const TURNS: usize = 250;
/// Calm turns in which everything ends.
const CALM_TURNS: usize = 3_000;
/// Longer than any schedule.
const FOREVER: Duration = Duration::from_secs(10_000_000);

/// Faults of the router that the checks must catch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Broken {
    /// A resumed choice begins at its first token again.
    ForgetsEmitted,
    /// Tokens of an older attempt count for the running one.
    TakesLateTokens,
}

/// What the world remembers of a choice.
#[derive(Debug, Default)]
pub(super) struct History {
    pub(super) seed: u64,
    pub(super) max_tokens: usize,
    pub(super) poison_at: Option<usize>,
    pub(super) attempt: Option<u32>,
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
    pub(super) registry: Arc<Registry>,
    pub(super) metrics: Arc<Metrics>,
    pub(super) generation: Generation,
    pub(super) workers: Vec<SimWorker>,
    /// Lost workers whose last outputs are on their way.
    pub(super) gone: Vec<SimWorker>,
    pub(super) num_joined: usize,
    pub(super) has_other_numerics: bool,
    pub(super) clients: Vec<Client>,
    pub(super) choices: BTreeMap<String, History>,
    pub(super) report: Report,
}

impl World {
    pub(super) fn new(seed: u64, broken: Option<Broken>) -> Self {
        let limits = LimitsConfig {
            max_queued: Some(1_000),
            default_deadline_s: FOREVER.as_secs_f64(),
            max_deadline_s: FOREVER.as_secs_f64(),
            client_stall_timeout_s: FOREVER.as_secs_f64(),
            ..LimitsConfig::default()
        };
        let registry = Arc::new(Registry::new(FOREVER, &limits));
        let mut config = RouterConfig {
            limits,
            ..RouterConfig::default()
        };
        config.workers.wait_s = FOREVER.as_secs_f64();
        let metrics = Arc::new(Metrics::new());
        let generation = Generation::new(
            registry.clone(),
            metrics.clone(),
            Arc::new(config),
            Fleet::default(),
        );
        Self {
            dice: Dice::new(seed),
            broken,
            registry,
            metrics,
            generation,
            workers: Vec::new(),
            gone: Vec::new(),
            num_joined: 0,
            has_other_numerics: false,
            clients: Vec::new(),
            choices: BTreeMap::new(),
            report: Report::default(),
        }
    }

    /// Plays the schedule.
    pub(super) async fn run(mut self) -> Result<Report, String> {
        self.join()?;
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
            0..4 => self.join()?,
            4..14 => self.ask(),
            14..16 => self.drop_client(),
            16..19 => self.cut_client(),
            19..30 => {
                let milliseconds = self.dice.below(40) as u64;
                self.pass_time(milliseconds).await;
            }
            30..36 => self.arrive_late(),
            _ if self.workers.is_empty() => {}
            _ => {
                let place = self.dice.below(self.workers.len());
                self.visit(place)?;
            }
        }
        self.check_alone()
    }

    fn calm_turn(&mut self) -> Result<(), String> {
        self.arrive_late();
        if self.workers.len() < 2 {
            self.join()?;
        }
        for place in (0..self.workers.len()).rev() {
            let worker = &mut self.workers[place];
            worker.is_stalled = false;
            worker.is_draining = false;
            self.hear(place)?;
            if self.step(place) {
                let num_waiting = self.workers[place].wire.len();
                self.arrive(place, num_waiting);
            }
        }
        self.check_alone()
    }

    fn join(&mut self) -> Result<(), String> {
        if self.workers.len() >= MAX_WORKERS {
            return Ok(());
        }
        self.num_joined += 1;
        let is_other = self.dice.chance(15);
        self.has_other_numerics |= is_other;
        let fingerprint = if is_other { "b" } else { "a" };
        let mut worker = SimWorker::new(self.num_joined, fingerprint);
        worker.is_deaf = self.dice.chance(20);
        let joined = self.registry.join(served(), worker.worker.clone());
        self.workers.push(worker);
        joined.map_err(|status| status.to_string())
    }

    fn ask(&mut self) {
        // At most one waits for its first worker: several wake in an order that the seed does not
        // decide.
        let num_waiting = self.generation.shared.waiting.len();
        if self.clients.len() >= MAX_REQUESTS || num_waiting > 0 {
            return;
        }
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
        self.clients.push(Client::start(&self.generation, ask));
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
        client.cut(&self.generation, pause);
        for index in 0..client.ask.num_choices {
            let name = format!("{}.{index}", client.ask.name);
            if let Some(history) = self.choices.get_mut(&name) {
                history.was_cut = true;
            }
        }
        self.report.cut += 1;
    }

    fn visit(&mut self, place: usize) -> Result<(), String> {
        self.hear(place)?;
        let worker = &mut self.workers[place];
        if worker.is_reserved() {
            // What convicts a choice that is alone is the poison's doing, never chance's.
            worker.is_stalled = false;
            if self.step(place) {
                self.arrive(place, 3);
            }
            return Ok(());
        }
        let has_tokens = worker.running.values().any(|choice| choice.num_emitted > 0);
        let hit = usize::from(has_tokens);
        match self.dice.below(100) {
            0..3 => {
                self.report.deaths += hit;
                self.lose(place);
            }
            3..8 => worker.is_stalled = true,
            8..14 if worker.is_stalled => {
                self.report.stalls += hit;
                self.lose(place);
            }
            14..16 if !self.workers.iter().any(|worker| worker.is_draining) => {
                self.report.drains += hit;
                self.workers[place].is_draining = true;
            }
            16..24 => self.trouble(place),
            24..60 if self.step(place) => {
                let count = self.dice.below(4);
                self.arrive(place, count);
            }
            60.. => {
                let count = self.dice.below(6);
                self.arrive(place, count);
                let worker = &self.workers[place];
                let is_idle = worker.running.is_empty() && worker.wire.is_empty();
                if worker.is_draining && is_idle && worker.worker.num_choices() == 0 {
                    self.lose(place);
                }
            }
            _ => {}
        }
        Ok(())
    }

    fn check_alone(&self) -> Result<(), String> {
        let shares = |worker: &&SimWorker| {
            let candidate = worker.worker.candidate();
            candidate.is_reserved && candidate.num_choices != 1
        };
        match self.workers.iter().find(shares) {
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
        let counted = self.metrics.of_model("m").generated.get();
        if is_exact && counted != num_tokens as u64 {
            return Err(format!("{counted} tokens counted, {num_tokens} sent"));
        }
        let shared = &self.generation.shared;
        let held: usize = self
            .workers
            .iter()
            .map(|worker| worker.worker.num_choices())
            .sum();
        let left = (
            held,
            self.registry.num_parked(),
            shared.live.len(),
            shared.waiting.len(),
            shared.running.len(),
        );
        let num_convicts = lock(&shared.convicts).len();
        let num_records = lock(&shared.records).len();
        if left != (0, 0, 0, 0, 0) || num_convicts.max(num_records) > self.report.requests {
            return Err(format!(
                "left in the tables: {left:?}, {num_convicts}, {num_records}"
            ));
        }
        Ok(self.report)
    }
}
