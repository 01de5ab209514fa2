//! What the router counts and measures, under the names of one table.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::atomic::AtomicU64;
use std::time::{Duration, Instant};

use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::metrics::info::Info;
use prometheus_client::registry::Registry;
use spectrie_proto::v1;
use spectrie_proto::worker_v1::{Load, RequestStats};
use spectrie_types::Source;

use super::circuits::Circuits;
use super::compat;
use super::drafting::Drafting;
use super::facts::Facts;
use super::fleet::FleetMetrics;
use super::labels::{
    Buckets, CauseLabel, ModelLabel, PositionLabels, ReasonLabel, ResultLabels, RouteLabels,
    SECONDS, SourceLabels, TOKEN_SECONDS, TOKENS, WorkerLabels, model_label, worker_labels,
};
use super::otlp::OtlpMetrics;
use super::step_ages::StepAges;
use super::table::Registrar;
use crate::error::RequestError;
use crate::sync::{lock, now};

type Times = Family<ModelLabel, Histogram, Buckets>;
type Amount = Gauge<f64, AtomicU64>;

/// All metrics of the router. Cheap to update: no lock is held longer than one update.
#[derive(Debug)]
pub struct Metrics {
    registry: Registry,
    running: Family<WorkerLabels, Gauge>,
    waiting: Family<WorkerLabels, Gauge>,
    kv_usage: Family<WorkerLabels, Amount>,
    trie_bytes: Family<WorkerLabels, Gauge>,
    up: Family<WorkerLabels, Gauge>,
    model_workers: Family<ModelLabel, Gauge>,
    ejected: Family<WorkerLabels, Gauge>,
    pub(super) circuits: Circuits,
    exact: Family<WorkerLabels, Gauge>,
    pub(crate) facts: Facts,
    step_ages: StepAges,
    requests: Family<RouteLabels, Counter>,
    rejected: Family<ReasonLabel, Counter>,
    aborted: Family<CauseLabel, Counter>,
    prompt_tokens: Family<ModelLabel, Counter>,
    generated_tokens: Family<ModelLabel, Counter>,
    cached_prompt_tokens: Family<ModelLabel, Counter>,
    drafts: Family<ModelLabel, Counter>,
    draft_tokens: Family<ModelLabel, Counter>,
    accepted_tokens: Family<SourceLabels, Counter>,
    accepted_by_position: Family<PositionLabels, Counter>,
    prediction_tokens: Family<ResultLabels, Counter>,
    preemptions: Family<ModelLabel, Counter>,
    restarts: Family<ModelLabel, Counter>,
    retries: Counter,
    learn_dropped: Counter,
    ttft: Times,
    itl: Times,
    chunk_gap: Times,
    tpot: Times,
    e2e: Times,
    queue: Times,
    prefill: Times,
    accepted_per_step: Times,
    pub(super) drafting: Drafting,
    pub(crate) fleet: FleetMetrics,
    pub(crate) otlp: OtlpMetrics,
    seen_models: Mutex<BTreeMap<String, u64>>,
    has_vllm_names: bool,
}

impl Default for Metrics {
    fn default() -> Self {
        Self::new()
    }
}

impl Metrics {
    /// All metrics at zero.
    pub fn new() -> Self {
        let mut all = Registrar::new();
        let times = |buckets: Buckets| Times::new_with_constructor(buckets);
        Self {
            running: all.add("requests_running", Family::default()),
            waiting: all.add("requests_waiting", Family::default()),
            kv_usage: all.add("kv_usage_ratio", Family::default()),
            trie_bytes: all.add("trie_bytes", Family::default()),
            up: all.add("worker_up", Family::default()),
            model_workers: all.add("model_workers", Family::default()),
            ejected: all.add("worker_ejected", Family::default()),
            circuits: Circuits::new(&mut all),
            exact: all.add("worker_exact", Family::default()),
            facts: Facts::new(&mut all),
            step_ages: StepAges::new(&mut all),
            requests: {
                let version = Info::new(vec![("version", env!("CARGO_PKG_VERSION"))]);
                all.add_constant("build", version);
                all.add("requests", Family::default())
            },
            rejected: all.add("rejected", Family::default()),
            aborted: all.add("aborted", Family::default()),
            prompt_tokens: all.add("prompt_tokens", Family::default()),
            generated_tokens: all.add("generated_tokens", Family::default()),
            cached_prompt_tokens: all.add("cached_prompt_tokens", Family::default()),
            drafts: all.add("spec_drafts", Family::default()),
            draft_tokens: all.add("spec_draft_tokens", Family::default()),
            accepted_tokens: all.add("spec_accepted_tokens", Family::default()),
            accepted_by_position: all.add("spec_accepted_tokens_per_position", Family::default()),
            prediction_tokens: all.add("prediction_tokens", Family::default()),
            preemptions: all.add("preemptions", Family::default()),
            restarts: all.add("worker_restarts", Family::default()),
            retries: all.add("retries", Counter::default()),
            learn_dropped: all.add("learn_dropped", Counter::default()),
            ttft: all.add("ttft_seconds", times(SECONDS)),
            itl: all.add("itl_seconds", times(TOKEN_SECONDS)),
            chunk_gap: all.add("chunk_gap_seconds", times(TOKEN_SECONDS)),
            tpot: all.add("tpot_seconds", times(TOKEN_SECONDS)),
            e2e: all.add("e2e_seconds", times(SECONDS)),
            queue: all.add("queue_seconds", times(SECONDS)),
            prefill: all.add("prefill_seconds", times(SECONDS)),
            accepted_per_step: all.add("accepted_per_step", times(TOKENS)),
            drafting: Drafting::new(&mut all),
            fleet: FleetMetrics::new(&mut all),
            otlp: OtlpMetrics::new(&mut all),
            seen_models: Mutex::default(),
            has_vllm_names: false,
            registry: all.registry,
        }
    }

    /// The same, which repeats what vLLM measures too under vLLM's names.
    #[must_use]
    pub fn with_vllm_names(self) -> Self {
        Self {
            has_vllm_names: true,
            ..self
        }
    }

    /// The metrics in Prometheus's text form (OpenMetrics), with its content type.
    pub fn encode(&self) -> (&'static str, String) {
        self.step_ages.refresh(now());
        self.circuits.refresh(now());
        let mut text = String::new();
        if let Err(error) = prometheus_client::encoding::text::encode(&mut text, &self.registry) {
            tracing::error!(%error, "metrics could not be written");
        }
        if self.has_vllm_names {
            text = compat::with_vllm_names(&text);
        }
        (
            "application/openmetrics-text; version=1.0.0; charset=utf-8",
            text,
        )
    }

    /// Counts an answered call: `route` is a method or path pattern, `code` its status.
    pub fn request(&self, route: &'static str, code: &str) {
        self.requests
            .get_or_create(&RouteLabels {
                route,
                code: code.to_owned(),
            })
            .inc();
    }

    pub(crate) fn rejected(&self, error: &RequestError) {
        self.rejected
            .get_or_create(&ReasonLabel {
                reason: error.kind.reason(),
            })
            .inc();
    }

    pub(crate) fn aborted(&self, cause: &'static str) {
        self.aborted.get_or_create(&CauseLabel { cause }).inc();
    }

    pub(crate) fn retried(&self) {
        self.retries.inc();
    }

    pub(crate) fn learn_dropped(&self, count: usize) {
        self.learn_dropped.inc_by(count as u64);
    }

    /// Notes a worker that is ready; `is_exact` says whether its arithmetic is.
    pub(crate) fn worker_joined(&self, model: &str, worker: &str, is_exact: bool) {
        let labels = worker_labels(model, worker);
        self.up.get_or_create(&labels).set(1);
        self.model_workers.get_or_create(&model_label(model)).inc();
        self.ejected.get_or_create(&labels).set(0);
        self.circuits.set(model, worker, None);
        self.exact.get_or_create(&labels).set(is_exact.into());
        let mut seen = lock(&self.seen_models);
        let joined = seen.entry(model.to_owned()).or_default();
        *joined += 1;
        if *joined > 1 {
            self.restarts.get_or_create(&model_label(model)).inc();
        }
    }

    /// Notes that a worker gets no requests until then, because it failed those that it had; that it
    /// gets them again where that is none. Of one that has left nothing is shown.
    pub(crate) fn worker_ejected(&self, model: &str, worker: &str, until: Option<Instant>) {
        self.circuits.change(model, worker, until, || {
            let labels = worker_labels(model, worker);
            let is_ejected = until.is_some();
            self.ejected.get_or_create(&labels).set(is_ejected.into());
        });
    }

    /// Forgets a worker's gauges: its id never comes back.
    pub(crate) fn worker_left(&self, model: &str, worker: &str, instance: &str) {
        let labels = worker_labels(model, worker);
        // First: from then on it is not noted that it is ejected.
        self.circuits.worker_left(model, worker);
        self.drafting.worker_left(&labels, instance);
        self.step_ages.worker_left(model, worker);
        for gauge in [
            &self.running,
            &self.waiting,
            &self.trie_bytes,
            &self.ejected,
            &self.exact,
        ] {
            gauge.remove(&labels);
        }
        self.kv_usage.remove(&labels);
        if self.up.remove(&labels) {
            self.model_workers.get_or_create(&model_label(model)).dec();
        }
    }

    /// Takes the load and totals of a worker; `instance` names its process.
    pub(crate) fn load(&self, model: &str, worker: &str, instance: &str, load: &Load) {
        self.drafting.load(model, worker, instance, load);
        let labels = worker_labels(model, worker);
        self.running
            .get_or_create(&labels)
            .set(i64::from(load.running));
        self.waiting
            .get_or_create(&labels)
            .set(i64::from(load.waiting));
        let usage = f64::from(load.pages_used) / f64::from(load.pages_total.max(1));
        self.kv_usage.get_or_create(&labels).set(usage);
        self.trie_bytes
            .get_or_create(&labels)
            .set(load.memory_bytes as i64);
        self.step_ages.load(model, worker, load, now());
    }

    /// The timers and counters of one model, looked up once per request.
    pub(crate) fn of_model(&self, model: &str) -> ModelMetrics {
        let label = model_label(model);
        ModelMetrics {
            generated: self.generated_tokens.get_or_create(&label).clone(),
            ttft: self.ttft.get_or_create(&label).clone(),
            itl: self.itl.get_or_create(&label).clone(),
            chunk_gap: self.chunk_gap.get_or_create(&label).clone(),
        }
    }

    /// Counts a choice that ended well.
    pub(crate) fn finished(&self, model: &str, finished: &v1::Finished, stats: &RequestStats) {
        let label = model_label(model);
        let usage = finished.usage.unwrap_or_default();
        let add = |family: &Family<ModelLabel, Counter>, count: u32| {
            family.get_or_create(&label).inc_by(u64::from(count));
        };
        add(&self.prompt_tokens, usage.prompt_tokens);
        add(&self.cached_prompt_tokens, usage.cached_tokens);
        add(&self.drafts, stats.verify_steps);
        add(&self.draft_tokens, stats.drafted_tokens);
        add(&self.preemptions, stats.preemptions);
        let by_source = stats.accepted_by_source.iter().skip(1);
        for (source, count) in Source::ALL.into_iter().zip(by_source) {
            if *count > 0 {
                let labels = SourceLabels {
                    model: model.to_owned(),
                    source: source.name(),
                };
                self.accepted_tokens
                    .get_or_create(&labels)
                    .inc_by(u64::from(*count));
            }
        }
        for (count, position) in stats.accepted_by_position.iter().zip(0..) {
            let model = model.to_owned();
            self.accepted_by_position
                .get_or_create(&PositionLabels { model, position })
                .inc_by(u64::from(*count));
        }
        for (result, count) in [
            ("accepted", usage.accepted_prediction_tokens),
            ("rejected", usage.rejected_prediction_tokens),
        ] {
            if let Some(count) = count {
                let labels = ResultLabels {
                    model: model.to_owned(),
                    result,
                };
                self.prediction_tokens
                    .get_or_create(&labels)
                    .inc_by(u64::from(count));
            }
        }
        let seconds = |nanoseconds: u64| Duration::from_nanos(nanoseconds).as_secs_f64();
        self.queue
            .get_or_create(&label)
            .observe(seconds(stats.queue_ns));
        self.prefill
            .get_or_create(&label)
            .observe(seconds(stats.prefill_ns));
        if usage.completion_tokens > 1 {
            let tokens = f64::from(usage.completion_tokens - 1);
            self.tpot
                .get_or_create(&label)
                .observe(seconds(stats.decode_ns) / tokens);
        }
        if stats.verify_steps > 0 {
            let mean = f64::from(stats.accepted_tokens) / f64::from(stats.verify_steps);
            self.accepted_per_step.get_or_create(&label).observe(mean);
        }
    }

    /// Measures a request that ended well.
    pub(crate) fn completed(&self, model: &str, duration: Duration) {
        self.e2e
            .get_or_create(&model_label(model))
            .observe(duration.as_secs_f64());
    }
}

/// Metrics that are updated per message.
#[derive(Clone, Debug)]
pub(crate) struct ModelMetrics {
    pub(crate) generated: Counter,
    pub(crate) ttft: Histogram,
    pub(crate) itl: Histogram,
    pub(crate) chunk_gap: Histogram,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finished_choice_counts_its_tokens_by_source() {
        let metrics = Metrics::new();
        let stats = RequestStats {
            verify_steps: 2,
            accepted_tokens: 3,
            accepted_by_source: vec![0, 0, 2, 1, 0, 0, 0, 0],
            accepted_by_position: vec![2, 1],
            ..Default::default()
        };
        metrics.finished("m", &v1::Finished::default(), &stats);
        let (_, text) = metrics.encode();
        for line in [
            "spectrie_spec_accepted_tokens_total{model=\"m\",source=\"prediction\"} 2",
            "spectrie_spec_accepted_tokens_total{model=\"m\",source=\"request\"} 1",
            "spectrie_spec_accepted_tokens_per_position_total{model=\"m\",position=\"0\"} 2",
            "spectrie_spec_accepted_tokens_per_position_total{model=\"m\",position=\"1\"} 1",
            "spectrie_accepted_per_step_sum{model=\"m\"} 1.5",
        ] {
            assert!(text.contains(line), "{line} in {text}");
        }
    }

    #[test]
    fn a_model_whose_workers_have_all_left_is_seen_to_have_none() {
        let metrics = Metrics::new();
        metrics.worker_joined("m", "w1", true);
        metrics.worker_joined("m", "w2", true);
        for (worker, left) in [("w1", 1), ("w1", 1), ("w2", 0)] {
            metrics.worker_left("m", worker, "process");
            let line = format!("spectrie_model_workers{{model=\"m\"}} {left}\n");
            assert!(metrics.encode().1.contains(&line), "{line}");
        }
    }
}
