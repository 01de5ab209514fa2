//! What each drafter of a worker was asked, and what that gains.

use std::sync::atomic::AtomicU64;

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use spectrie_proto::worker_v1::{DrafterLoad, Load};

use super::table::Registrar;

type Amount = Gauge<f64, AtomicU64>;

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct OfWorker {
    model: String,
    worker: String,
    drafter: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct OfModel {
    model: String,
    drafter: String,
}

/// By the names of drafters.
#[derive(Debug)]
pub(super) struct Drafters {
    /// The gain, and the lower and upper end of its interval.
    gain: [Family<OfWorker, Amount>; 3],
    levels: Family<OfModel, Counter>,
    rows: Family<OfModel, Counter>,
}

impl Drafters {
    pub(super) fn new(all: &mut Registrar) -> Self {
        Self {
            gain: [
                all.add("spec_drafter_gain_ratio", Family::default()),
                all.add("spec_drafter_gain_low_ratio", Family::default()),
                all.add("spec_drafter_gain_high_ratio", Family::default()),
            ],
            levels: all.add("spec_drafter_levels", Family::default()),
            rows: all.add("spec_drafter_rows", Family::default()),
        }
    }

    /// Takes a worker's totals after those `before`.
    pub(super) fn load(&self, model: &str, worker: &str, load: &Load, before: &Load) {
        for one in &load.drafters {
            let labels = of_worker(model, worker, one);
            let gains = [one.gain, one.gain_low, one.gain_high];
            for (family, gain) in self.gain.iter().zip(gains) {
                if let Some(gain) = gain {
                    family.get_or_create(&labels).set(gain);
                }
            }
            let earlier = before.drafters.iter().find(|other| other.name == one.name);
            let (levels, rows) = earlier.map_or((0, 0), |other| (other.levels, other.rows));
            let labels = OfModel {
                model: model.to_owned(),
                drafter: one.name.clone(),
            };
            for (family, now, before) in [
                (&self.levels, one.levels, levels),
                (&self.rows, one.rows, rows),
            ] {
                let more = now.saturating_sub(before);
                family.get_or_create(&labels).inc_by(more);
            }
        }
    }

    /// Forgets the gauges of a worker whose last totals were `load`.
    pub(super) fn worker_left(&self, model: &str, worker: &str, load: &Load) {
        for one in &load.drafters {
            for family in &self.gain {
                family.remove(&of_worker(model, worker, one));
            }
        }
    }
}

fn of_worker(model: &str, worker: &str, one: &DrafterLoad) -> OfWorker {
    OfWorker {
        model: model.to_owned(),
        worker: worker.to_owned(),
        drafter: one.name.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::super::Metrics;
    use super::*;

    #[test]
    fn drafters_of_one_kind_are_told_apart_by_their_names() {
        let metrics = Metrics::new();
        let one = |name: &str, levels, gain| DrafterLoad {
            name: name.to_owned(),
            levels,
            rows: 2 * levels,
            gain,
            gain_low: gain.map(|gain| gain - 0.125),
            gain_high: gain.map(|gain| gain + 0.125),
        };
        let load = |levels| Load {
            drafters: vec![one("a", levels, Some(1.5)), one("b", 3 * levels, None)],
            ..Load::default()
        };
        metrics.load("m", "w1", "process-a", &load(4));
        metrics.load("m", "w1", "process-a", &load(10));
        let (_, text) = metrics.encode();
        let gain = "spectrie_spec_drafter_gain_ratio{model=\"m\",worker=\"w1\",drafter=\"a\"} 1.5";
        for line in [
            gain,
            "spectrie_spec_drafter_gain_low_ratio{model=\"m\",worker=\"w1\",drafter=\"a\"} 1.375",
            "spectrie_spec_drafter_gain_high_ratio{model=\"m\",worker=\"w1\",drafter=\"a\"} 1.625",
            "spectrie_spec_drafter_levels_total{model=\"m\",drafter=\"a\"} 10",
            "spectrie_spec_drafter_levels_total{model=\"m\",drafter=\"b\"} 30",
            "spectrie_spec_drafter_rows_total{model=\"m\",drafter=\"b\"} 60",
        ] {
            assert!(text.contains(line), "{line}\n{text}");
        }
        metrics.worker_left("m", "w1", "process-a");
        let (_, text) = metrics.encode();
        assert!(
            !text.contains("spectrie_spec_drafter_gain_ratio{"),
            "{text}"
        );
        assert!(text.contains("spectrie_spec_drafter_levels_total{model=\"m\",drafter=\"b\"} 30"));
    }
}
