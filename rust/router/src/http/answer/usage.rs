//! Sums over the choices of an answer: OpenAI's `usage`, and the `spectrie` object with what
//! speculation did.

use std::collections::BTreeMap;

use serde::Serialize;
use spectrie_proto::v1;
use spectrie_types::Source;

/// OpenAI's `usage`. `completion_tokens` counts tokens emitted; rejected prediction tokens appear
/// in the details alone.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub(crate) struct Usage {
    prompt_tokens: u64,
    completion_tokens: u64,
    total_tokens: u64,
    prompt_tokens_details: PromptTokensDetails,
    completion_tokens_details: CompletionTokensDetails,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
struct PromptTokensDetails {
    cached_tokens: u64,
    audio_tokens: u64,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[expect(clippy::struct_field_names, reason = "the names are the API's")]
struct CompletionTokensDetails {
    accepted_prediction_tokens: u64,
    rejected_prediction_tokens: u64,
    reasoning_tokens: u64,
    audio_tokens: u64,
}

/// What the `spectrie` object of an answer says. `accepted_tokens` + `verify_steps` = tokens after
/// each prefill's own.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub(crate) struct Report {
    request_id: String,
    /// Gives the same tokens again when sent as `seed`.
    seed: Option<u64>,
    speculation: Speculation,
    timing_ms: Timing,
    /// A choice went on at a worker of another numeric fingerprint; absent if none did.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    numerics_changed: bool,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
struct Speculation {
    verify_steps: u64,
    drafted_tokens: u64,
    accepted_tokens: u64,
    accepted_by_source: BTreeMap<&'static str, u64>,
}

/// The longest of the choices, which run at the same time.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
struct Timing {
    queue: f64,
    prefill: f64,
    decode: f64,
}

/// Sums that grow as choices end.
#[derive(Debug, Default)]
pub(crate) struct Totals {
    usage: Usage,
    report: Report,
}

impl Totals {
    /// Sums of nothing yet, for the request of this name.
    pub(crate) fn new(request_id: &str) -> Self {
        Self {
            usage: Usage::default(),
            report: Report {
                request_id: request_id.to_owned(),
                ..Report::default()
            },
        }
    }

    /// Counts an accepted prompt: once for all its choices.
    pub(crate) fn add_started(&mut self, started: &v1::Started) {
        self.usage.prompt_tokens += u64::from(started.prompt_tokens);
        self.report.seed.get_or_insert(started.seed);
    }

    /// Counts a choice that ended. `first` is true for the first choice of its prompt, whose cached
    /// tokens count.
    pub(crate) fn add_finished(&mut self, finished: &v1::Finished, first: bool) {
        let usage = finished.usage.unwrap_or_default();
        if first {
            self.usage.prompt_tokens_details.cached_tokens += u64::from(usage.cached_tokens);
        }
        self.usage.completion_tokens += u64::from(usage.completion_tokens);
        let details = &mut self.usage.completion_tokens_details;
        details.accepted_prediction_tokens +=
            u64::from(usage.accepted_prediction_tokens.unwrap_or(0));
        details.rejected_prediction_tokens +=
            u64::from(usage.rejected_prediction_tokens.unwrap_or(0));
        self.report.numerics_changed |= finished.numerics_changed;
        if let Some(stats) = &finished.speculation {
            let speculation = &mut self.report.speculation;
            speculation.verify_steps += u64::from(stats.verify_steps);
            speculation.drafted_tokens += u64::from(stats.drafted_tokens);
            speculation.accepted_tokens += u64::from(stats.accepted_tokens);
            for count in &stats.accepted_by_source {
                let name = source_name(count.source);
                *speculation.accepted_by_source.entry(name).or_default() += u64::from(count.tokens);
            }
        }
        if let Some(timing) = &finished.timing {
            let longest = &mut self.report.timing_ms;
            longest.queue = longest.queue.max(milliseconds(timing.queue_ns));
            longest.prefill = longest.prefill.max(milliseconds(timing.prefill_ns));
            longest.decode = longest.decode.max(milliseconds(timing.decode_ns));
        }
    }

    /// The usage so far.
    pub(crate) fn usage(&self) -> Usage {
        let mut usage = self.usage.clone();
        usage.total_tokens = usage.prompt_tokens + usage.completion_tokens;
        usage
    }

    /// The report so far.
    pub(crate) fn report(&self) -> Report {
        self.report.clone()
    }
}

/// A duration in milliseconds, to the microsecond.
fn milliseconds(nanoseconds: u64) -> f64 {
    (nanoseconds / 1_000) as f64 / 1e3
}

/// The name of a source in answers.
fn source_name(number: i32) -> &'static str {
    let source = u8::try_from(number).ok().and_then(Source::from_number);
    source.map_or("unknown", Source::name)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn finished(prediction: Option<(u32, u32)>) -> v1::Finished {
        v1::Finished {
            usage: Some(v1::Usage {
                prompt_tokens: 7,
                completion_tokens: 5,
                cached_tokens: 4,
                accepted_prediction_tokens: prediction.map(|counts| counts.0),
                rejected_prediction_tokens: prediction.map(|counts| counts.1),
            }),
            speculation: Some(v1::SpeculationStats {
                verify_steps: 2,
                drafted_tokens: 9,
                accepted_tokens: 2,
                accepted_by_source: vec![v1::SourceCount {
                    source: v1::Source::Request.into(),
                    tokens: 2,
                }],
            }),
            ..Default::default()
        }
    }

    #[test]
    fn prompt_counts_once_and_choices_add_up() {
        let mut totals = Totals::new("r");
        totals.add_started(&v1::Started {
            prompt_tokens: 7,
            seed: 11,
            ..Default::default()
        });
        totals.add_finished(&finished(Some((3, 1))), true);
        totals.add_finished(&finished(Some((2, 2))), false);
        let usage = serde_json::to_value(totals.usage()).unwrap();
        assert_eq!(
            usage,
            serde_json::json!({
                "prompt_tokens": 7,
                "completion_tokens": 10,
                "total_tokens": 17,
                "prompt_tokens_details": {"cached_tokens": 4, "audio_tokens": 0},
                "completion_tokens_details": {
                    "accepted_prediction_tokens": 5,
                    "rejected_prediction_tokens": 3,
                    "reasoning_tokens": 0,
                    "audio_tokens": 0
                }
            })
        );
        let report = serde_json::to_value(totals.report()).unwrap();
        assert_eq!(report["seed"], 11);
        assert_eq!(report["speculation"]["verify_steps"], 4);
        assert_eq!(report["speculation"]["accepted_by_source"]["request"], 4);
        assert_eq!(report.get("numerics_changed"), None);
    }

    #[test]
    fn report_says_when_any_choice_changed_its_numerics() {
        let mut totals = Totals::new("r");
        let changed = v1::Finished {
            numerics_changed: true,
            ..finished(None)
        };
        totals.add_finished(&changed, true);
        totals.add_finished(&finished(None), false);
        let report = serde_json::to_value(totals.report()).unwrap();
        assert_eq!(report["numerics_changed"], true);
    }
}
