//! The one table of metrics, and registration in its order.

use prometheus_client::registry::{Metric, Registry};

/// Every metric: (name, help). Counters are exported with `_total` after the name.
pub const TABLE: &[(&str, &str)] = &[
    ("requests_running", "Choices running on a worker"),
    ("requests_waiting", "Choices waiting inside a worker"),
    ("kv_usage_ratio", "Share of key-value pages in use, 0 to 1"),
    ("trie_bytes", "Bytes of draft memory"),
    ("worker_up", "1 while the worker is ready"),
    (
        "model_workers",
        "Ready workers of a model, 0 once all have left",
    ),
    (
        "worker_ejected",
        "1 while the worker gets no requests because it failed those that it had",
    ),
    (
        "circuit_state",
        "1 for the worker's state: closed, open while it is ejected, half_open once a probe is due until one is answered",
    ),
    (
        "worker_exact",
        "1 if equal requests and seeds get equal answers, 0 with fast arithmetic",
    ),
    (
        "worker_drafter",
        "1 for each drafter beside the worker's model",
    ),
    (
        "cache_config_info",
        "1 for the size of the worker's key-value pages in tokens, and their number",
    ),
    (
        "worker_last_step_age_seconds",
        "Time since the worker's last step, 0 when idle",
    ),
    ("build", "Version of the router"),
    ("requests", "Requests by route and status code"),
    ("rejected", "Requests refused or failed, by reason"),
    (
        "aborted",
        "Running requests ended early, by whom: client (gone, or does not read), operator, shutdown, or moved to another connection or router",
    ),
    ("prompt_tokens", "Prompt tokens of finished choices"),
    ("generated_tokens", "Tokens emitted"),
    ("cached_prompt_tokens", "Prompt tokens found in the cache"),
    ("spec_drafts", "Steps that verified a draft"),
    ("spec_draft_tokens", "Draft nodes sent to the model"),
    ("spec_accepted_tokens", "Draft nodes accepted, by source"),
    (
        "spec_accepted_tokens_per_position",
        "Draft nodes accepted, by place in the draft, from 0",
    ),
    ("prediction_tokens", "Prediction tokens by result"),
    ("preemptions", "Choices preempted and computed again"),
    (
        "worker_restarts",
        "Workers that joined after the first of their model",
    ),
    (
        "retries",
        "Choices that were sent to a worker again: theirs died, refused or failed them, or their client was cut",
    ),
    (
        "learn_dropped",
        "Learned sequences dropped because a worker was too slow",
    ),
    ("ttft_seconds", "Time to the first token"),
    (
        "itl_seconds",
        "Time between tokens: a gap divided by the tokens after it",
    ),
    ("chunk_gap_seconds", "Time between messages of a stream"),
    (
        "tpot_seconds",
        "Decode time of a choice per token after its first",
    ),
    ("e2e_seconds", "Time from request to last token"),
    ("queue_seconds", "Time until a worker starts the prompt"),
    ("prefill_seconds", "Time to compute the prompt"),
    (
        "accepted_per_step",
        "Draft nodes accepted per step, averaged over a choice",
    ),
    (
        "step_seconds",
        "Time of a step, from the beginning of its plan to the end of its commit",
    ),
    (
        "verify_seconds",
        "Time of the forward of a step that verified drafts",
    ),
    (
        "draft_seconds",
        "What drafting took of a step that asked requests for drafts",
    ),
    (
        "tree_nodes",
        "Draft nodes that a request sent in a step, where it sent any",
    ),
    ("trie_tenants", "Namespaces of draft memory"),
    ("trie_inserts", "Tokens inserted in draft memory"),
    (
        "trie_lookups",
        "Questions to draft memory for drafts, by result: hit, or miss where it offered nothing beyond the request's own text",
    ),
    ("trie_tokens", "Tokens of text in draft memory"),
    ("trie_evicted_tokens", "Tokens evicted from draft memory"),
    (
        "memory_dropped_tokens",
        "Tokens that draft memory dropped or did not take, by reason",
    ),
    (
        "memory_snapshot_written_bytes",
        "Bytes written to snapshots of draft memory",
    ),
    ("corpus_bytes", "Bytes of the files of corpora"),
    (
        "corpus_lost_blocks",
        "Blocks of 64 KiB of corpora that were damaged or cut off",
    ),
    (
        "spec_expected_accepted_tokens",
        "Expected acceptances: sum of the probabilities of draft nodes sent in mode auto",
    ),
    (
        "spec_calibration_trials",
        "Draft nodes of mode auto whose parent was accepted, by tenth of their probability",
    ),
    ("spec_calibration_expected", "Sum of their probabilities"),
    (
        "spec_calibration_accepted",
        "Of these, how many were accepted",
    ),
    (
        "spec_net_gain_ratio",
        "Tokens per second of steps that may draft over holdout steps, since the worker's start",
    ),
    (
        "spec_net_gain_low_ratio",
        "Lower end of the 95 % interval of the net gain",
    ),
    (
        "spec_net_gain_high_ratio",
        "Upper end of the 95 % interval of the net gain",
    ),
    (
        "spec_head_gain_ratio",
        "Tokens per second of steps that may ask the first drafter over those held out from it alone, since the worker's start",
    ),
    (
        "spec_head_gain_low_ratio",
        "Lower end of the 95 % interval of the drafter's gain",
    ),
    (
        "spec_head_gain_high_ratio",
        "Upper end of the 95 % interval of the drafter's gain",
    ),
    (
        "spec_head_levels",
        "Levels of drafts that drafters were asked",
    ),
    ("spec_head_rows", "Rows of those levels"),
    (
        "spec_drafter_gain_ratio",
        "Tokens per second of steps that may ask this drafter over those held out from it alone, since the worker's start",
    ),
    (
        "spec_drafter_gain_low_ratio",
        "Lower end of the 95 % interval of this drafter's gain",
    ),
    (
        "spec_drafter_gain_high_ratio",
        "Upper end of the 95 % interval of this drafter's gain",
    ),
    (
        "spec_drafter_levels",
        "Levels of drafts that this drafter was asked",
    ),
    ("spec_drafter_rows", "Rows of the levels of this drafter"),
    (
        "spec_holdout_steps",
        "Decode-only steps held out without drafts, to measure the net gain",
    ),
    (
        "spec_learn_seconds",
        "Time between forwards that keeping drafters and draft memory up to date took",
    ),
    (
        "spec_recycling",
        "1 while the model's runner-up tokens are a draft source",
    ),
    (
        "spec_choices",
        "Decode-only steps whose decision to draft or not can be judged",
    ),
    (
        "spec_choices_right",
        "Of these, how many decisions were correct",
    ),
    (
        "kv_cached_ratio",
        "Share of pages kept in the prefix cache that no request holds, 0 to 1",
    ),
    (
        "prefix_cache_queries",
        "Prompt tokens looked up in the prefix cache",
    ),
    (
        "prefix_cache_hits",
        "Prompt tokens found in the prefix cache",
    ),
    ("fleet_connected", "1 while the fleet's Redis can be used"),
    ("fleet_published", "Learned texts shared with other routers"),
    ("fleet_received", "Learned texts taken from other routers"),
    (
        "fleet_dropped",
        "Learned texts not shared or not taken, by reason",
    ),
    (
        "fleet_lag_seconds",
        "Age of the text that was last taken from another router",
    ),
    (
        "fleet_streams_taken_over",
        "Streams that another router began and that go on here",
    ),
    (
        "fleet_streams_refused",
        "Streams of other routers that could not go on here, by reason",
    ),
    (
        "fleet_leases_lost",
        "Streams of this router that were found to go on at another one",
    ),
    (
        "otlp_sent_spans",
        "Spans that the collector of --otlp-endpoint took",
    ),
    (
        "otlp_dropped_spans",
        "Spans that no collector will see, by reason",
    ),
];

/// Registers metrics in the order of the table.
pub(super) struct Registrar {
    pub(super) registry: Registry,
    rows: std::slice::Iter<'static, (&'static str, &'static str)>,
}

impl Registrar {
    pub(super) fn new() -> Self {
        Self {
            registry: Registry::with_prefix("spectrie"),
            rows: TABLE.iter(),
        }
    }

    /// Registers a metric that never changes.
    pub(super) fn add_constant(&mut self, name: &str, metric: impl Metric) {
        let (expected, help) = self.rows.next().copied().unwrap_or_default();
        debug_assert_eq!(
            expected, name,
            "metrics are registered in the order of the table"
        );
        self.registry.register(expected, help, metric);
    }

    pub(super) fn add<M: Metric + Clone>(&mut self, name: &str, metric: M) -> M {
        let (expected, help) = self.rows.next().copied().unwrap_or_default();
        debug_assert_eq!(
            expected, name,
            "metrics are registered in the order of the table"
        );
        self.registry.register(expected, help, metric.clone());
        metric
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use spectrie_proto::v1;
    use spectrie_proto::worker_v1::{
        CalibrationBin, Capacity, Drafter, DrafterLoad, Hello, Histogram as Counted, Load,
        RequestStats,
    };

    use super::super::Metrics;
    use super::*;
    use crate::error::RequestError;

    #[test]
    fn every_name_of_the_table_is_exported_in_order() {
        let metrics = Metrics::new();
        let load = Load {
            running: 1,
            pages_total: 4,
            pages_used: 1,
            net_gain: Some(2.0),
            net_gain_low: Some(1.5),
            net_gain_high: Some(2.5),
            head_gain: Some(2.0),
            head_gain_low: Some(1.5),
            head_gain_high: Some(2.5),
            drafters: vec![DrafterLoad {
                gain: Some(2.0),
                gain_low: Some(1.5),
                gain_high: Some(2.5),
                ..DrafterLoad::default()
            }],
            calibration: vec![CalibrationBin::default()],
            dropped_tokens: vec![1],
            step_times: Some(Counted::default()),
            verify_times: Some(Counted::default()),
            draft_times: Some(Counted::default()),
            tree_nodes: Some(Counted::default()),
            ..Load::default()
        };
        metrics.worker_joined("m", "w0", true);
        metrics.worker_joined("m", "w1", false);
        let hello = Hello {
            model: "m".into(),
            drafter: Some(Drafter::default()),
            capacity: Some(Capacity::default()),
            ..Hello::default()
        };
        metrics.facts.joined("w1", &hello);
        metrics.load("m", "w1", "process", &load);
        metrics.request("Generate", "Ok");
        metrics.rejected(&RequestError::invalid("field", "bad"));
        metrics.aborted("client");
        metrics.completed("m", Duration::from_secs(1));
        metrics.fleet.dropped("queue", 1);
        metrics.otlp.dropped("queue", 1);
        metrics.fleet.refused("damaged");
        let used = metrics.of_model("m");
        used.generated.inc();
        for histogram in [&used.ttft, &used.itl, &used.chunk_gap] {
            histogram.observe(0.1);
        }
        let usage = v1::Usage {
            completion_tokens: 2,
            accepted_prediction_tokens: Some(1),
            ..Default::default()
        };
        let finished = v1::Finished {
            usage: Some(usage),
            ..Default::default()
        };
        let stats = RequestStats {
            verify_steps: 1,
            accepted_by_source: vec![0, 0, 0, 1],
            accepted_by_position: vec![1],
            ..Default::default()
        };
        metrics.finished("m", &finished, &stats);
        let (_, text) = metrics.encode();
        for (name, _) in TABLE {
            assert!(
                text.contains(&format!("# HELP spectrie_{name}")),
                "{name} in {text}"
            );
        }
        assert!(
            text.contains("spectrie_kv_usage_ratio{model=\"m\",worker=\"w1\"} 0.25"),
            "{text}"
        );
        metrics.worker_left("m", "w1", "process");
        metrics.facts.left("w1", &hello);
        assert!(!metrics.encode().1.contains("w1"));
    }

    #[test]
    fn manual_names_every_metric_in_the_order_of_the_table() {
        let manual = include_str!("../../../../docs/metrics.md");
        let named: Vec<_> = manual
            .lines()
            .filter_map(|line| line.strip_prefix("| `spectrie_")?.split('`').next())
            .map(|name| {
                let name = name.strip_suffix("_total").unwrap_or(name);
                // The encoder adds the end of an info, as it does that of a counter.
                if name == "build_info" { "build" } else { name }
            })
            .collect();
        let table: Vec<_> = TABLE.iter().map(|(name, _)| *name).collect();
        assert_eq!(named, table);
    }
}
