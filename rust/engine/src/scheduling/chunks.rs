//! How many prompt tokens of which requests a step computes.

use super::running::{Running, kv_tokens_of};
use crate::config::EngineConfig;
use crate::request_key::RequestKey;
use crate::speculation::{ForwardSize, Speculator};

/// The prompt rows of a step, in order.
#[derive(Debug, Default)]
pub(crate) struct Chunks {
    /// Whose next tokens, and how many of them.
    pub(crate) parts: Vec<(RequestKey, usize)>,
    /// The forward of these rows alone.
    pub(crate) size: ForwardSize,
}

impl Chunks {
    /// What a step computes beside one row of each of `decoding`, of the prefilling requests
    /// `prefilling`, the first of which go first.
    pub(crate) fn choose(
        prefilling: impl Iterator<Item = RequestKey>,
        decoding: &[RequestKey],
        running: &Running,
        config: &EngineConfig,
        speculator: &Speculator,
    ) -> Self {
        let num_decoding = decoding.len();
        let most = config
            .chunk_tokens
            .min(config.max_batch_rows - num_decoding);
        // If no request waits for the step, it may take its time.
        let least = if decoding.is_empty() {
            most
        } else {
            config.page_size.min(most)
        };
        let mut step = ForwardSize {
            rows: num_decoding,
            kv_tokens: kv_tokens_of(running, decoding),
        };
        let mut chunks = Self::default();
        for key in prefilling {
            let Some(sequence) = running.get(&key) else {
                continue;
            };
            let (kv_len, num_before) = (sequence.kv_len(), chunks.size.rows);
            let wanted = sequence.num_missing().min(most - num_before);
            let fits = |rows| {
                let size = step.with_chunk(kv_len, rows);
                speculator.milliseconds(size) <= config.max_step_ms
            };
            let rows = most_that_fit(least.saturating_sub(num_before), wanted, fits);
            if rows == 0 {
                break;
            }
            step = step.with_chunk(kv_len, rows);
            chunks.size = chunks.size.with_chunk(kv_len, rows);
            chunks.parts.push((key, rows));
        }
        chunks
    }
}

/// The greatest number up to `wanted` that fits, `least` in any case; fewer fit where more do.
fn most_that_fit(least: usize, wanted: usize, fits: impl Fn(usize) -> bool) -> usize {
    let (mut low, mut high) = (least.min(wanted), wanted);
    while low < high {
        let middle = low + (high - low).div_ceil(2);
        if fits(middle) {
            low = middle;
        } else {
            high = middle - 1;
        }
    }
    low
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_most_that_fit_are_found_and_the_least_are_taken_in_any_case() {
        for limit in 0..20 {
            assert_eq!(most_that_fit(0, 12, |rows| rows <= limit), limit.min(12));
            let with_least = most_that_fit(4, 12, |rows| rows <= limit);
            assert_eq!(with_least, limit.clamp(4, 12));
        }
        assert_eq!(most_that_fit(9, 3, |_| false), 3);
    }
}
