//! Conversations over workers whose prefix caches are too small for all of them: how much of their
//! prompts is computed, and by whom.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};

use spectrie_types::seed::splitmix;

use super::known::Known;
use super::{Order, Placer, Prefix};
use crate::failover::Candidate;

const NUM_WORKERS: usize = 4;
const IDS: [&str; NUM_WORKERS] = ["0", "1", "2", "3"];

/// Who talks.
#[derive(Clone, Copy, Debug)]
struct Trace {
    system_prompts: u32,
    conversations: u32,
    turns: u32,
    system_tokens: u32,
    turn_tokens: u32,
    /// Mean time between an answer and the next question, in milliseconds.
    pause_ms: f64,
}

impl Trace {
    fn prompt(&self, conversation: u32, turn: u32) -> Vec<u32> {
        let system = conversation % self.system_prompts;
        let shared = (0..self.system_tokens)
            .map(|place| splitmix((u64::from(system) << 32) | u64::from(place)));
        let own = (0..turn * self.turn_tokens)
            .map(|place| splitmix((u64::from(conversation + 1) << 48) | u64::from(place)));
        shared.chain(own).map(|id| id as u32).collect()
    }

    /// Tokens of all text, each once.
    fn tokens(&self) -> usize {
        let systems = self.system_prompts * self.system_tokens;
        (systems + self.conversations * self.turns * self.turn_tokens) as usize
    }
}

/// Where requests go.
enum Places {
    One,
    InTurn(usize),
    Routed(Placer, [usize; NUM_WORKERS]),
}

impl Places {
    fn routed(cache_tokens: usize) -> Self {
        let mut placer = Placer::default();
        for id in IDS {
            placer.joined(id, cache_tokens);
        }
        Self::Routed(placer, [0; NUM_WORKERS])
    }

    /// The worker of the next request.
    fn place(&mut self, prefix: &Prefix) -> usize {
        match self {
            Self::One => 0,
            Self::InTurn(count) => {
                *count += 1;
                *count % NUM_WORKERS
            }
            Self::Routed(placer, loads) => {
                let workers = IDS.iter().zip(&*loads);
                let candidates: Vec<_> = workers
                    .map(|(id, num_choices)| Candidate {
                        id,
                        fingerprint: "",
                        max_context: u32::MAX,
                        num_choices: *num_choices,
                        is_idle: false,
                        max_running: 16,
                        is_reserved: false,
                        is_draining: false,
                        is_ejected: false,
                    })
                    .collect();
                let order = Order {
                    model: "m",
                    tenant: "ann",
                    num_choices: 1,
                    needs_context: 1,
                    cache_key: None,
                    prefix,
                };
                let worker = placer.place(&candidates, |_| true, &order).unwrap();
                placer.placed(IDS[worker], &order);
                loads[worker] += 1;
                worker
            }
        }
    }

    fn end(&mut self, worker: usize) {
        if let Self::Routed(_, loads) = self {
            loads[worker] -= 1;
        }
    }
}

/// Prompt tokens that each worker computed.
#[derive(Debug, Default)]
struct Computed(Vec<usize>);

impl Computed {
    fn total(&self) -> usize {
        self.0.iter().sum()
    }

    /// The busiest worker over the mean of all.
    fn imbalance(&self) -> f64 {
        let busiest = self.0.iter().copied().max().unwrap_or(0);
        (busiest * self.0.len()) as f64 / self.total() as f64
    }
}

/// Plays the conversations on workers whose caches hold so many tokens.
fn play(trace: Trace, seed: u64, cache_tokens: &[usize], places: &mut Places) -> Computed {
    let mut draws = seed << 32;
    let mut uniform = || {
        draws += 1;
        (splitmix(draws) >> 11) as f64 / (1_u64 << 53) as f64
    };
    let mut caches: Vec<_> = cache_tokens
        .iter()
        .map(|tokens| Known::new(*tokens))
        .collect();
    let mut computed = Computed(vec![0; caches.len()]);
    let mut running = BTreeMap::new();
    // Microseconds, conversation, turn; and whether it ends.
    let mut events: BinaryHeap<Reverse<(u64, u32, u32, bool)>> = BinaryHeap::new();
    let microseconds = |ms: f64| (ms * 1e3) as u64;
    for conversation in 0..trace.conversations {
        let at = microseconds(uniform() * 2.0 * trace.pause_ms);
        events.push(Reverse((at, conversation, 1, false)));
    }
    while let Some(Reverse((now, conversation, turn, is_end))) = events.pop() {
        if is_end {
            if let Some(worker) = running.remove(&conversation) {
                places.end(worker);
            }
            if turn < trace.turns {
                let pause = microseconds(-uniform().ln() * trace.pause_ms);
                events.push(Reverse((now + pause, conversation, turn + 1, false)));
            }
            continue;
        }
        let prefix = Prefix::new("ann", &trace.prompt(conversation, turn));
        let worker = places.place(&prefix);
        running.insert(conversation, worker);
        let missing = prefix.num_tokens - caches[worker].find(&prefix).tokens;
        caches[worker].add(&prefix, usize::MAX);
        computed.0[worker] += missing;
        // 50 us a prompt token, and an answer of half a second.
        let takes = missing as f64 * 0.05 - uniform().ln() * 500.0;
        events.push(Reverse((
            now + microseconds(takes),
            conversation,
            turn,
            true,
        )));
    }
    computed
}

/// Tokens computed over those of one worker that has all caches, routed and in turn, and the
/// routed imbalance: means over seeds.
fn measure(trace: Trace) -> (f64, f64, f64) {
    const SEEDS: u64 = 8;
    let all = trace.tokens() / 2;
    let each = [all / NUM_WORKERS; NUM_WORKERS];
    let mut sums = (0.0, 0.0, 0.0);
    for seed in 0..SEEDS {
        let one = play(trace, seed, &[all], &mut Places::One).total() as f64;
        let routed = play(trace, seed, &each, &mut Places::routed(each[0]));
        let in_turn = play(trace, seed, &each, &mut Places::InTurn(0));
        sums.0 += routed.total() as f64 / one;
        sums.1 += in_turn.total() as f64 / one;
        sums.2 += routed.imbalance();
    }
    let mean = |sum: f64| sum / SEEDS as f64;
    (mean(sums.0), mean(sums.1), mean(sums.2))
}

/// The conversations that `bench/router/caches.py` has, with other draws, on a simulated clock.
const TRACE: Trace = Trace {
    system_prompts: 8,
    conversations: 64,
    turns: 8,
    system_tokens: 1_600,
    turn_tokens: 320,
    pause_ms: 500.0,
};

#[test]
fn conversations_find_their_caches_and_spread_evenly() {
    for pause_ms in [100.0, 500.0, 4_000.0] {
        let (routed, in_turn, imbalance) = measure(Trace { pause_ms, ..TRACE });
        println!("{pause_ms}: {routed:.3} {in_turn:.3} {imbalance:.3}");
        assert!(routed < 1.25 && imbalance < 1.25, "{routed}, {imbalance}");
        assert!(in_turn > 2.0 * routed, "{in_turn} in turn");
    }
}

#[test]
fn one_system_prompt_of_all_draws_no_worker_more_than_others() {
    let (routed, in_turn, imbalance) = measure(Trace {
        system_prompts: 1,
        ..TRACE
    });
    println!("{routed:.3} {in_turn:.3} {imbalance:.3}");
    assert!(routed < 1.25 && imbalance < 1.25, "{routed}, {imbalance}");
    assert!(in_turn > 1.6 * routed, "{in_turn} in turn");
}
