//! vLLM's names for what both servers measure, for dashboards, autoscalers and endpoint pickers that
//! know these.

/// Our name and vLLM's, without the suffixes of their samples.
pub(super) const VLLM: &[(&str, &str)] = &[
    ("requests_running", "num_requests_running"),
    ("requests_waiting", "num_requests_waiting"),
    ("kv_usage_ratio", "kv_cache_usage_perc"),
    ("prefix_cache_queries", "prefix_cache_queries"),
    ("prefix_cache_hits", "prefix_cache_hits"),
    ("preemptions", "num_preemptions"),
    ("prompt_tokens", "prompt_tokens"),
    ("generated_tokens", "generation_tokens"),
    ("ttft_seconds", "time_to_first_token_seconds"),
    ("itl_seconds", "inter_token_latency_seconds"),
    ("tpot_seconds", "request_time_per_output_token_seconds"),
    ("e2e_seconds", "e2e_request_latency_seconds"),
    ("queue_seconds", "request_queue_time_seconds"),
    ("prefill_seconds", "request_prefill_time_seconds"),
    ("spec_drafts", "spec_decode_num_drafts"),
    ("spec_draft_tokens", "spec_decode_num_draft_tokens"),
    ("spec_accepted_tokens", "spec_decode_num_accepted_tokens"),
    (
        "spec_accepted_tokens_per_position",
        "spec_decode_num_accepted_tokens_per_pos",
    ),
    ("cache_config_info", "cache_config_info"),
];

const OURS: &str = "spectrie_";
const THEIRS: &str = "vllm:";
const END: &str = "# EOF\n";
/// What the names of samples may end with.
const SUFFIXES: &[&str] = &["", "_total", "_bucket", "_sum", "_count"];
/// Our labels and vLLM's, where they begin in a line; a value holds no unescaped quote.
const LABELS: &[(&str, &str)] = &[
    ("{model=\"", "{model_name=\""),
    (",model=\"", ",model_name=\""),
    (",worker=\"", ",engine=\""),
    (",num_blocks=\"", ",num_gpu_blocks=\""),
];

/// OpenMetrics text with every metric of [`VLLM`] a second time, under its other name.
pub(super) fn with_vllm_names(text: &str) -> String {
    let own = text.strip_suffix(END).unwrap_or(text);
    let mut all = own.to_owned();
    for line in own.lines() {
        if let Some(line) = renamed(line) {
            all.push_str(&line);
            all.push('\n');
        }
    }
    all.push_str(END);
    all
}

/// A line under its other name; none where there is none.
fn renamed(line: &str) -> Option<String> {
    let start = ["# HELP ", "# TYPE ", "# UNIT ", ""];
    let start = start.into_iter().find(|start| line.starts_with(start))?;
    let rest = line[start.len()..].strip_prefix(OURS)?;
    let end = rest.find(['{', ' ']).unwrap_or(rest.len());
    let (name, rest) = rest.split_at(end);
    let (theirs, suffix) = VLLM.iter().find_map(|(ours, theirs)| {
        let suffix = name.strip_prefix(ours)?;
        SUFFIXES.contains(&suffix).then_some((theirs, suffix))
    })?;
    let mut rest = rest.to_owned();
    if start.is_empty() {
        for (ours, theirs) in LABELS {
            rest = rest.replacen(ours, theirs, 1);
        }
    }
    Some(format!("{start}{THEIRS}{theirs}{suffix}{rest}"))
}

#[cfg(test)]
mod tests {
    use spectrie_proto::worker_v1::Load;

    use super::super::TABLE;
    use super::*;

    #[test]
    fn every_name_is_one_of_ours() {
        for (ours, _) in VLLM {
            assert!(TABLE.iter().any(|(name, _)| name == ours), "{ours}");
        }
    }

    #[test]
    fn manual_names_every_pair() {
        let manual = include_str!("../../../../docs/metrics.md");
        for (ours, theirs) in VLLM {
            let row = format!("| `vllm:{theirs}` | `spectrie_{ours}` |");
            assert!(manual.contains(&row), "{row}");
        }
    }

    #[test]
    fn every_label_of_a_series_is_renamed() {
        let metrics = super::super::Metrics::new().with_vllm_names();
        let used = metrics.of_model("m");
        used.ttft.observe(0.1);
        used.generated.inc();
        metrics.load("m", "w0", "process", &Load::default());
        let (_, text) = metrics.encode();
        let theirs = text.lines().filter(|line| line.starts_with(THEIRS));
        let theirs: Vec<_> = theirs.collect();
        assert!(theirs.len() > 20, "{text}");
        for line in theirs {
            assert!(
                line.contains("model_name=\"m\"") && !line.contains("worker="),
                "{line}"
            );
        }
        assert!(text.contains("vllm:num_requests_running{model_name=\"m\",engine=\"w0\"} 0"));
        assert_eq!(text.matches("# EOF").count(), 1);
    }

    #[test]
    fn lines_are_repeated_under_the_other_names_before_the_end() {
        let text = "# HELP spectrie_requests_running Choices.\n\
                    # TYPE spectrie_requests_running gauge\n\
                    spectrie_requests_running{model=\"a,worker=\\\"\",worker=\"w0\"} 1\n\
                    # TYPE spectrie_spec_drafts counter\n\
                    spectrie_spec_drafts_total{model=\"m\"} 4\n\
                    spectrie_ttft_seconds_bucket{le=\"0.1\",model=\"m\"} 2\n\
                    spectrie_spec_learn_seconds_total{model=\"m\"} 4\n\
                    # EOF\n";
        let all = with_vllm_names(text);
        let more = all.strip_prefix(text.strip_suffix(END).unwrap()).unwrap();
        assert_eq!(
            more,
            "# HELP vllm:num_requests_running Choices.\n\
             # TYPE vllm:num_requests_running gauge\n\
             vllm:num_requests_running{model_name=\"a,worker=\\\"\",engine=\"w0\"} 1\n\
             # TYPE vllm:spec_decode_num_drafts counter\n\
             vllm:spec_decode_num_drafts_total{model_name=\"m\"} 4\n\
             vllm:time_to_first_token_seconds_bucket{le=\"0.1\",model_name=\"m\"} 2\n\
             # EOF\n"
        );
    }
}
