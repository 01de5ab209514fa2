//! What workers count by size, and what their draft memory takes and answers.

use std::sync::{Arc, Mutex};

use prometheus_client::encoding::{EncodeMetric, MetricEncoder, NoLabelSet};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::{Family, MetricConstructor};
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::{MetricType, TypedMetric};
use spectrie_proto::worker_v1::{Histogram as Counted, Load};
use spectrie_types::Histogram;
use spectrie_types::histogram::{DRAFT_SECONDS, STEP_SECONDS, TREE_NODES};

use super::labels::{ModelLabel, ResultLabels, WorkerLabels, model_label};
use super::table::Registrar;
use crate::sync::lock;

/// A histogram that workers fill.
#[derive(Clone, Debug)]
struct Tally(Arc<Mutex<Histogram>>);

/// Makes tallies with these bounds.
#[derive(Clone, Copy, Debug)]
struct Bounds(&'static [f64]);

type TallyByModel = Family<ModelLabel, Tally, Bounds>;

impl MetricConstructor<Tally> for Bounds {
    fn new_metric(&self) -> Tally {
        Tally(Arc::new(Mutex::new(Histogram::new(self.0))))
    }
}

impl TypedMetric for Tally {
    const TYPE: MetricType = MetricType::Histogram;
}

impl EncodeMetric for Tally {
    fn encode(&self, mut encoder: MetricEncoder<'_>) -> Result<(), std::fmt::Error> {
        let all = *lock(&self.0);
        let bounds = all.bounds().iter().copied().chain([f64::MAX]);
        let buckets: Vec<_> = bounds.zip(all.counts().iter().copied()).collect();
        let count = all.counts().iter().sum();
        encoder.encode_histogram::<NoLabelSet>(all.sum(), count, &buckets, None)
    }

    fn metric_type(&self) -> MetricType {
        Self::TYPE
    }
}

/// Where a report has a histogram.
type Part = fn(&Load) -> Option<&Counted>;

/// By model, but for what a worker has now.
#[derive(Debug)]
pub(super) struct Tallies {
    by_size: [(TallyByModel, Part); 4],
    namespaces: Family<WorkerLabels, Gauge>,
    inserted: Family<ModelLabel, Counter>,
    lookups: Family<ResultLabels, Counter>,
}

impl Tallies {
    pub(super) fn new(all: &mut Registrar) -> Self {
        let parts: [(_, _, Part); 4] = [
            ("step_seconds", STEP_SECONDS, |load| {
                load.step_times.as_ref()
            }),
            ("verify_seconds", STEP_SECONDS, |load| {
                load.verify_times.as_ref()
            }),
            ("draft_seconds", DRAFT_SECONDS, |load| {
                load.draft_times.as_ref()
            }),
            ("tree_nodes", TREE_NODES, |load| load.tree_nodes.as_ref()),
        ];
        Self {
            by_size: parts.map(|(name, bounds, part)| {
                let family = TallyByModel::new_with_constructor(Bounds(bounds));
                (all.add(name, family), part)
            }),
            namespaces: all.add("trie_tenants", Family::default()),
            inserted: all.add("trie_inserts", Family::default()),
            lookups: all.add("trie_lookups", Family::default()),
        }
    }

    /// Takes a worker's totals after those `before`.
    pub(super) fn load(&self, labels: &WorkerLabels, load: &Load, before: &Load) {
        let model = model_label(&labels.model);
        for (family, part) in &self.by_size {
            if let Some(now) = part(load) {
                let before = part(before).map_or((&[][..], 0.0), |one| (&one.counts, one.sum));
                let tally = family.get_or_create(&model);
                lock(&tally.0).add((&now.counts, now.sum), before);
            }
        }
        let namespaces = self.namespaces.get_or_create(labels);
        namespaces.set(load.memory_namespaces as i64);
        let inserted = load.inserted_tokens.saturating_sub(before.inserted_tokens);
        self.inserted.get_or_create(&model).inc_by(inserted);
        let hits = load.memory_hits.saturating_sub(before.memory_hits);
        let lookups = load.memory_lookups.saturating_sub(before.memory_lookups);
        for (result, count) in [("hit", hits), ("miss", lookups.saturating_sub(hits))] {
            let model = labels.model.clone();
            self.lookups
                .get_or_create(&ResultLabels { model, result })
                .inc_by(count);
        }
    }

    /// Forgets what a worker has now.
    pub(super) fn worker_left(&self, labels: &WorkerLabels) {
        self.namespaces.remove(labels);
    }
}

#[cfg(test)]
mod tests {
    use super::super::Metrics;
    use super::*;

    fn totals(count: u64) -> Load {
        let mut counts = vec![0; STEP_SECONDS.len() + 1];
        counts[2] = count;
        counts[STEP_SECONDS.len()] = 1;
        let step_times = Counted {
            counts,
            sum: 20.0 + 0.002 * count as f64,
        };
        Load {
            step_times: Some(step_times),
            memory_lookups: 5 * count,
            memory_hits: 2 * count,
            inserted_tokens: 10 * count,
            memory_namespaces: 3,
            ..Load::default()
        }
    }

    #[test]
    fn histograms_of_workers_are_exported_as_one_of_their_model() {
        let metrics = Metrics::new();
        metrics.load("m", "w1", "a", &totals(4));
        metrics.load("m", "w1", "a", &totals(6));
        metrics.load("m", "w2", "b", &totals(2));
        let (_, text) = metrics.encode();
        for line in [
            "spectrie_step_seconds_sum{model=\"m\"} 40.016",
            "spectrie_step_seconds_count{model=\"m\"} 10",
            "spectrie_step_seconds_bucket{le=\"0.001\",model=\"m\"} 0",
            "spectrie_step_seconds_bucket{le=\"0.0025\",model=\"m\"} 8",
            "spectrie_step_seconds_bucket{le=\"10.0\",model=\"m\"} 8",
            "spectrie_step_seconds_bucket{le=\"+Inf\",model=\"m\"} 10",
            "spectrie_trie_lookups_total{model=\"m\",result=\"hit\"} 16",
            "spectrie_trie_lookups_total{model=\"m\",result=\"miss\"} 24",
            "spectrie_trie_inserts_total{model=\"m\"} 80",
            "spectrie_trie_tenants{model=\"m\",worker=\"w2\"} 3",
        ] {
            assert!(text.contains(line), "{line} in {text}");
        }
        assert!(!text.contains("spectrie_tree_nodes_count"), "{text}");
        metrics.worker_left("m", "w2", "b");
        assert!(!metrics.encode().1.contains("\"w2\""));
    }
}
