//! What workers report of their drafting and prefix cache: totals become counters of their model.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Mutex;
use std::sync::atomic::AtomicU64;

use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use spectrie_proto::worker_v1::Load;
use spectrie_types::DropReason;
use spectrie_types::histogram::growth;

use super::drafters::Drafters;
use super::labels::{
    DecileLabels, DropLabels, ModelLabel, WorkerLabels, model_label, worker_labels,
};
use super::table::Registrar;
use super::tallies::Tallies;
use crate::sync::lock;

type Sum = Counter<f64, AtomicU64>;
type Amount = Gauge<f64, AtomicU64>;

/// Worker processes that went whose totals are kept: one that dials again goes on from them.
const MAX_GONE: usize = 64;
/// Values of the label `decile`: the first is for chances from 0 to 0.1.
const DECILES: [&str; 10] = ["0", "1", "2", "3", "4", "5", "6", "7", "8", "9"];

/// The latest totals of worker processes, by instance.
#[derive(Debug, Default)]
struct Reported {
    totals: BTreeMap<String, Load>,
    gone: VecDeque<String>,
}

/// Gauges and counters of drafting and of the prefix cache.
#[derive(Debug)]
pub(super) struct Drafting {
    tallies: Tallies,
    tokens: Family<WorkerLabels, Gauge>,
    evicted: Family<ModelLabel, Counter>,
    dropped: Family<DropLabels, Counter>,
    written: Family<ModelLabel, Counter>,
    corpus_bytes: Family<WorkerLabels, Gauge>,
    lost_corpus_blocks: Family<WorkerLabels, Gauge>,
    expected: Family<ModelLabel, Sum>,
    bin_trials: Family<DecileLabels, Counter>,
    bin_expected: Family<DecileLabels, Sum>,
    bin_accepted: Family<DecileLabels, Counter>,
    /// The net gain, and the lower and upper end of its interval.
    net_gain: [Family<WorkerLabels, Amount>; 3],
    /// The gain of a drafter, and the lower and upper end of its interval.
    head_gain: [Family<WorkerLabels, Amount>; 3],
    head_levels: Family<ModelLabel, Counter>,
    head_rows: Family<ModelLabel, Counter>,
    drafters: Drafters,
    holdout_steps: Family<ModelLabel, Counter>,
    learn_seconds: Family<ModelLabel, Sum>,
    recycling: Family<WorkerLabels, Gauge>,
    choices: Family<ModelLabel, Counter>,
    choices_right: Family<ModelLabel, Counter>,
    cached: Family<WorkerLabels, Amount>,
    prefix_queries: Family<ModelLabel, Counter>,
    prefix_hits: Family<ModelLabel, Counter>,
    reported: Mutex<Reported>,
}

impl Drafting {
    pub(super) fn new(all: &mut Registrar) -> Self {
        Self {
            tallies: Tallies::new(all),
            tokens: all.add("trie_tokens", Family::default()),
            evicted: all.add("trie_evicted_tokens", Family::default()),
            dropped: all.add("memory_dropped_tokens", Family::default()),
            written: all.add("memory_snapshot_written_bytes", Family::default()),
            corpus_bytes: all.add("corpus_bytes", Family::default()),
            lost_corpus_blocks: all.add("corpus_lost_blocks", Family::default()),
            expected: all.add("spec_expected_accepted_tokens", Family::default()),
            bin_trials: all.add("spec_calibration_trials", Family::default()),
            bin_expected: all.add("spec_calibration_expected", Family::default()),
            bin_accepted: all.add("spec_calibration_accepted", Family::default()),
            net_gain: [
                all.add("spec_net_gain_ratio", Family::default()),
                all.add("spec_net_gain_low_ratio", Family::default()),
                all.add("spec_net_gain_high_ratio", Family::default()),
            ],
            head_gain: [
                all.add("spec_head_gain_ratio", Family::default()),
                all.add("spec_head_gain_low_ratio", Family::default()),
                all.add("spec_head_gain_high_ratio", Family::default()),
            ],
            head_levels: all.add("spec_head_levels", Family::default()),
            head_rows: all.add("spec_head_rows", Family::default()),
            drafters: Drafters::new(all),
            holdout_steps: all.add("spec_holdout_steps", Family::default()),
            learn_seconds: all.add("spec_learn_seconds", Family::default()),
            recycling: all.add("spec_recycling", Family::default()),
            choices: all.add("spec_choices", Family::default()),
            choices_right: all.add("spec_choices_right", Family::default()),
            cached: all.add("kv_cached_ratio", Family::default()),
            prefix_queries: all.add("prefix_cache_queries", Family::default()),
            prefix_hits: all.add("prefix_cache_hits", Family::default()),
            reported: Mutex::default(),
        }
    }

    /// Takes a worker's totals; `instance` names its process, which may dial more than once.
    pub(super) fn load(&self, model: &str, worker: &str, instance: &str, load: &Load) {
        let labels = worker_labels(model, worker);
        let gauge = |family: &Family<WorkerLabels, Gauge>, value: u64| {
            family.get_or_create(&labels).set(value as i64);
        };
        gauge(&self.tokens, load.memory_tokens);
        gauge(&self.corpus_bytes, load.corpus_bytes);
        gauge(&self.lost_corpus_blocks, load.lost_corpus_blocks);
        gauge(&self.recycling, u64::from(load.recycling));
        let pages = f64::from(load.pages_total.max(1));
        let cached = f64::from(load.pages_cached) / pages;
        self.cached.get_or_create(&labels).set(cached);
        let net = [load.net_gain, load.net_gain_low, load.net_gain_high];
        let head = [load.head_gain, load.head_gain_low, load.head_gain_high];
        let families = self.net_gain.iter().chain(&self.head_gain);
        for (family, gain) in families.zip(net.into_iter().chain(head)) {
            if let Some(gain) = gain {
                family.get_or_create(&labels).set(gain);
            }
        }
        let before = {
            let mut reported = lock(&self.reported);
            reported.gone.retain(|gone| gone != instance);
            let before = reported.totals.insert(instance.to_owned(), load.clone());
            before.unwrap_or_default()
        };
        self.drafters.load(model, worker, load, &before);
        self.tallies.load(&labels, load, &before);
        let model_label = model_label(model);
        for (family, now, before) in [
            (&self.evicted, load.evicted_tokens, before.evicted_tokens),
            (&self.head_levels, load.head_levels, before.head_levels),
            (&self.head_rows, load.head_rows, before.head_rows),
            (
                &self.holdout_steps,
                load.holdout_steps,
                before.holdout_steps,
            ),
            (
                &self.written,
                load.snapshot_written_bytes,
                before.snapshot_written_bytes,
            ),
            (&self.choices, load.choices_total, before.choices_total),
            (
                &self.choices_right,
                load.choices_right,
                before.choices_right,
            ),
            (
                &self.prefix_queries,
                load.prefix_query_tokens,
                before.prefix_query_tokens,
            ),
            (
                &self.prefix_hits,
                load.prefix_hit_tokens,
                before.prefix_hit_tokens,
            ),
        ] {
            family
                .get_or_create(&model_label)
                .inc_by(now.saturating_sub(before));
        }
        for (family, now, before) in [
            (
                &self.expected,
                load.expected_accepted,
                before.expected_accepted,
            ),
            (
                &self.learn_seconds,
                load.learn_seconds,
                before.learn_seconds,
            ),
        ] {
            family
                .get_or_create(&model_label)
                .inc_by(growth(now, before));
        }
        for (reason, &now) in DropReason::ALL.into_iter().zip(&load.dropped_tokens) {
            let before = before.dropped_tokens.get(reason.index()).copied();
            let labels = DropLabels {
                model: model.to_owned(),
                reason: reason.name(),
            };
            self.dropped
                .get_or_create(&labels)
                .inc_by(now.saturating_sub(before.unwrap_or(0)));
        }
        for (index, (decile, bin)) in DECILES.into_iter().zip(&load.calibration).enumerate() {
            let before = before.calibration.get(index).copied().unwrap_or_default();
            let model = model.to_owned();
            let labels = DecileLabels { model, decile };
            self.bin_trials
                .get_or_create(&labels)
                .inc_by(bin.trials.saturating_sub(before.trials));
            self.bin_expected
                .get_or_create(&labels)
                .inc_by(growth(bin.expected, before.expected));
            self.bin_accepted
                .get_or_create(&labels)
                .inc_by(bin.accepted.saturating_sub(before.accepted));
        }
    }

    /// Forgets a worker's gauges, and after a while its process's totals.
    pub(super) fn worker_left(&self, labels: &WorkerLabels, instance: &str) {
        for gauge in [
            &self.tokens,
            &self.corpus_bytes,
            &self.lost_corpus_blocks,
            &self.recycling,
        ] {
            gauge.remove(labels);
        }
        for family in self.net_gain.iter().chain(&self.head_gain) {
            family.remove(labels);
        }
        self.cached.remove(labels);
        self.tallies.worker_left(labels);
        let mut reported = lock(&self.reported);
        if let Some(last) = reported.totals.get(instance) {
            (self.drafters).worker_left(&labels.model, &labels.worker, last);
        }
        reported.gone.push_back(instance.to_owned());
        if reported.gone.len() > MAX_GONE
            && let Some(oldest) = reported.gone.pop_front()
        {
            reported.totals.remove(&oldest);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::Metrics;
    use super::*;
    use spectrie_proto::worker_v1::CalibrationBin;

    fn totals(tokens: u64) -> Load {
        let bin = CalibrationBin {
            trials: 2 * tokens,
            expected: tokens as f64,
            accepted: tokens,
        };
        Load {
            evicted_tokens: tokens,
            dropped_tokens: vec![tokens, 0, 2 * tokens],
            snapshot_written_bytes: 5 * tokens,
            expected_accepted: tokens as f64 / 2.0,
            calibration: vec![CalibrationBin::default(), bin],
            net_gain: Some(1.5),
            net_gain_low: Some(1.25),
            net_gain_high: Some(1.75),
            head_gain: Some(1.25),
            head_gain_low: Some(1.125),
            head_gain_high: Some(1.375),
            head_levels: 3 * tokens,
            head_rows: 6 * tokens,
            holdout_steps: 2 * tokens,
            learn_seconds: tokens as f64 / 8.0,
            recycling: true,
            lost_corpus_blocks: 2,
            choices_total: 10 * tokens,
            choices_right: 9 * tokens,
            pages_cached: 3,
            pages_total: 4,
            prefix_query_tokens: 3 * tokens,
            prefix_hit_tokens: tokens,
            ..Default::default()
        }
    }

    #[test]
    fn totals_of_a_process_count_once_however_often_it_dials() {
        let metrics = Metrics::new();
        metrics.load("m", "w1", "process-a", &totals(4));
        metrics.load("m", "w1", "process-a", &totals(10));
        metrics.worker_left("m", "w1", "process-a");
        metrics.load("m", "w2", "process-a", &totals(11));
        metrics.load("m", "w3", "process-b", &totals(5));
        let (_, text) = metrics.encode();
        for line in [
            "spectrie_trie_evicted_tokens_total{model=\"m\"} 16",
            "spectrie_memory_dropped_tokens_total{model=\"m\",reason=\"share\"} 16",
            "spectrie_memory_dropped_tokens_total{model=\"m\",reason=\"idle\"} 32",
            "spectrie_memory_snapshot_written_bytes_total{model=\"m\"} 80",
            "spectrie_spec_expected_accepted_tokens_total{model=\"m\"} 8",
            "spectrie_spec_calibration_trials_total{model=\"m\",decile=\"1\"} 32",
            "spectrie_spec_calibration_expected_total{model=\"m\",decile=\"1\"} 16",
            "spectrie_spec_calibration_accepted_total{model=\"m\",decile=\"1\"} 16",
            "spectrie_spec_net_gain_ratio{model=\"m\",worker=\"w2\"} 1.5",
            "spectrie_spec_net_gain_low_ratio{model=\"m\",worker=\"w2\"} 1.25",
            "spectrie_spec_net_gain_high_ratio{model=\"m\",worker=\"w2\"} 1.75",
            "spectrie_spec_head_gain_ratio{model=\"m\",worker=\"w2\"} 1.25",
            "spectrie_spec_head_gain_low_ratio{model=\"m\",worker=\"w2\"} 1.125",
            "spectrie_spec_head_gain_high_ratio{model=\"m\",worker=\"w2\"} 1.375",
            "spectrie_spec_head_levels_total{model=\"m\"} 48",
            "spectrie_spec_head_rows_total{model=\"m\"} 96",
            "spectrie_spec_holdout_steps_total{model=\"m\"} 32",
            "spectrie_spec_learn_seconds_total{model=\"m\"} 2",
            "spectrie_spec_recycling{model=\"m\",worker=\"w3\"} 1",
            "spectrie_corpus_lost_blocks{model=\"m\",worker=\"w3\"} 2",
            "spectrie_kv_cached_ratio{model=\"m\",worker=\"w2\"} 0.75",
            "spectrie_prefix_cache_queries_total{model=\"m\"} 48",
            "spectrie_prefix_cache_hits_total{model=\"m\"} 16",
            "spectrie_spec_choices_total{model=\"m\"} 160",
            "spectrie_spec_choices_right_total{model=\"m\"} 144",
        ] {
            assert!(text.contains(line), "{line} in {text}");
        }
        assert!(!text.contains("\"w1\""), "{text}");
    }

    #[test]
    fn processes_that_went_long_ago_are_forgotten() {
        let metrics = Metrics::new();
        for process in 0..200 {
            let (worker, instance) = (format!("w{process}"), format!("p{process}"));
            metrics.load("m", &worker, &instance, &totals(1));
            metrics.worker_left("m", &worker, &instance);
        }
        assert_eq!(lock(&metrics.drafting.reported).totals.len(), MAX_GONE);
    }

    #[test]
    fn no_net_gain_is_told_before_enough_steps_were_held_out() {
        let metrics = Metrics::new();
        let load = Load {
            net_gain: None,
            net_gain_low: None,
            net_gain_high: None,
            ..totals(1)
        };
        metrics.load("m", "w1", "process", &load);
        let (_, text) = metrics.encode();
        assert!(!text.contains("spectrie_spec_net_gain_ratio{"), "{text}");
        assert!(text.contains("spectrie_spec_holdout_steps_total{model=\"m\"} 2"));
    }
}
