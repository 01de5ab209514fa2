//! Whether workers get requests, as circuit breakers are shown: by when an ejection is over.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::time::Instant;

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;

use super::table::Registrar;
use crate::sync::lock;

const CLOSED: &str = "closed";
const OPEN: &str = "open";
const HALF_OPEN: &str = "half_open";
/// Values of the label `state`.
const STATES: [&str; 3] = [CLOSED, OPEN, HALF_OPEN];

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct CircuitLabels {
    model: String,
    worker: String,
    state: &'static str,
}

/// A worker and until when it gets no requests; none while it gets them.
type Ejections = BTreeMap<(String, String), Option<Instant>>;

/// The circuit of each worker. A state follows from the clock, so it is found when it is asked for.
#[derive(Debug)]
pub(super) struct Circuits {
    states: Family<CircuitLabels, Gauge>,
    ejections: Mutex<Ejections>,
}

impl Circuits {
    pub(super) fn new(all: &mut Registrar) -> Self {
        Self {
            states: all.add("circuit_state", Family::default()),
            ejections: Mutex::default(),
        }
    }

    /// A worker gets requests, or none until then.
    pub(super) fn set(&self, model: &str, worker: &str, until: Option<Instant>) {
        let worker = (model.to_owned(), worker.to_owned());
        lock(&self.ejections).insert(worker, until);
    }

    /// The same of a worker that is there; `also` is done before it can leave. Nothing is of one that has left:
    /// an answer of its may be read later.
    pub(super) fn change(
        &self,
        model: &str,
        worker: &str,
        until: Option<Instant>,
        also: impl FnOnce(),
    ) {
        let worker = (model.to_owned(), worker.to_owned());
        if let Some(current) = lock(&self.ejections).get_mut(&worker) {
            *current = until;
            also();
        }
    }

    pub(super) fn worker_left(&self, model: &str, worker: &str) {
        let mut ejections = lock(&self.ejections);
        ejections.remove(&(model.to_owned(), worker.to_owned()));
        for state in STATES {
            self.states.remove(&labels(model, worker, state));
        }
    }

    /// Brings the series to what holds `now`.
    pub(super) fn refresh(&self, now: Instant) {
        // Under the lock: no series of a worker that has left may come back.
        for ((model, worker), until) in lock(&self.ejections).iter() {
            let current = match until {
                None => CLOSED,
                Some(until) if now < *until => OPEN,
                Some(_) => HALF_OPEN,
            };
            for state in STATES {
                let gauge = self.states.get_or_create(&labels(model, worker, state));
                gauge.set((state == current).into());
            }
        }
    }
}

fn labels(model: &str, worker: &str, state: &'static str) -> CircuitLabels {
    CircuitLabels {
        model: model.to_owned(),
        worker: worker.to_owned(),
        state,
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::super::Metrics;
    use super::*;

    fn state(metrics: &Metrics, now: Instant) -> Vec<&'static str> {
        metrics.circuits.refresh(now);
        let (_, text) = metrics.encode();
        let line = |state| {
            format!("spectrie_circuit_state{{model=\"m\",worker=\"w1\",state=\"{state}\"}}")
        };
        for state in STATES {
            let is_known = text.contains(&line(state));
            assert_eq!(is_known, text.contains("w1"), "{text}");
        }
        let shown = STATES.into_iter();
        shown
            .filter(|state| text.contains(&format!("{} 1", line(state))))
            .collect()
    }

    #[test]
    fn a_circuit_opens_is_half_open_once_a_probe_is_due_and_closes_with_an_answer() {
        let (metrics, now) = (Metrics::new(), Instant::now());
        // Far enough ahead that the clock of the encoding is before it.
        let pause = Duration::from_secs(3_600);
        metrics.worker_joined("m", "w1", true);
        assert_eq!(state(&metrics, now), [CLOSED]);
        metrics.worker_ejected("m", "w1", Some(now + pause));
        assert_eq!(state(&metrics, now), [OPEN]);
        metrics.worker_ejected("m", "w1", Some(now));
        assert_eq!(state(&metrics, now), [HALF_OPEN]);
        metrics.worker_ejected("m", "w1", None);
        assert_eq!(state(&metrics, now), [CLOSED]);
        metrics.worker_left("m", "w1", "process");
        assert!(state(&metrics, now).is_empty());
    }

    #[test]
    fn answers_of_a_worker_that_has_left_bring_no_series_back() {
        let (metrics, now) = (Metrics::new(), Instant::now());
        metrics.worker_joined("m", "w1", true);
        metrics.worker_ejected("m", "w1", Some(now));
        metrics.worker_left("m", "w1", "process");
        // Its stream reads the answer to a probe later than its session ended.
        metrics.worker_ejected("m", "w1", None);
        metrics.worker_ejected("m", "w1", Some(now));
        assert!(state(&metrics, now).is_empty());
    }
}
