//! The end of an answer: its reason and its counts.

use spectrie_proto::v1;
use spectrie_proto::v1::finished::StopReason;
use spectrie_proto::worker_v1::{FinishKind, RequestStats};

use crate::resolve::ResolvedRequest;

/// Why a complete answer ended.
#[derive(Clone, Debug, PartialEq)]
pub struct Ending {
    /// `stop` or `length`.
    pub reason: v1::FinishReason,
    /// The stop text or token, when one ended it.
    pub stop: Option<StopReason>,
}

impl Ending {
    /// A stop text ends an answer whatever the engine reports; `None` if nothing completed it.
    pub(super) fn of(
        kind: FinishKind,
        stop_text: Option<&str>,
        last_token: Option<u32>,
    ) -> Option<Self> {
        let (reason, stop) = match (kind, stop_text) {
            (_, Some(stop)) => {
                let stop = StopReason::StopText(stop.to_owned());
                (v1::FinishReason::Stop, Some(stop))
            }
            (FinishKind::FinishEos | FinishKind::FinishStopToken, None) => {
                let stop = last_token.map(StopReason::StopTokenId);
                (v1::FinishReason::Stop, stop)
            }
            (FinishKind::FinishComplete, None) => (v1::FinishReason::Stop, None),
            (FinishKind::FinishLength, None) => (v1::FinishReason::Length, None),
            (
                FinishKind::FinishNone
                | FinishKind::FinishCancelled
                | FinishKind::FinishDeadline
                | FinishKind::FinishRefused
                | FinishKind::FinishFailed
                | FinishKind::FinishInvalid,
                None,
            ) => return None,
        };
        Some(Self { reason, stop })
    }
}

/// The end of choice `index`, after `num_tokens` that count.
pub fn finished(
    request: &ResolvedRequest,
    index: u32,
    num_tokens: u32,
    ending: Ending,
    stats: &RequestStats,
) -> v1::Finished {
    v1::Finished {
        index,
        reason: ending.reason.into(),
        stop_reason: ending.stop,
        usage: Some(usage(request, num_tokens, stats)),
        speculation: Some(speculation_stats(stats)),
        timing: Some(v1::Timing {
            queue_ns: stats.queue_ns,
            prefill_ns: stats.prefill_ns,
            decode_ns: stats.decode_ns,
        }),
        prompt_logprobs: Vec::new(),
        numerics_changed: false,
        // Behind the tokens come the end of the text, and this.
        position: num_tokens + 2,
    }
}

/// Token counts of an answer of `num_tokens` that count.
pub fn usage(request: &ResolvedRequest, num_tokens: u32, stats: &RequestStats) -> v1::Usage {
    let accepted = stats.accepted_prediction_tokens;
    let prediction = request.prediction_ids.as_ref().map(|ids| ids.len() as u32);
    v1::Usage {
        prompt_tokens: request.prompt_ids.len() as u32,
        completion_tokens: num_tokens,
        cached_tokens: stats.cached_tokens,
        accepted_prediction_tokens: prediction.map(|_| accepted),
        rejected_prediction_tokens: prediction.map(|tokens| tokens.saturating_sub(accepted)),
    }
}

fn speculation_stats(stats: &RequestStats) -> v1::SpeculationStats {
    let by_source = stats.accepted_by_source.iter().enumerate();
    v1::SpeculationStats {
        verify_steps: stats.verify_steps,
        drafted_tokens: stats.drafted_tokens,
        accepted_tokens: stats.accepted_tokens,
        accepted_by_source: by_source
            .filter(|(_, tokens)| **tokens > 0)
            .map(|(source, tokens)| v1::SourceCount {
                source: source as i32,
                tokens: *tokens,
            })
            .collect(),
    }
}
