//! How many prompt tokens of which requests a step computes.

use super::running::{Parties, Running, kv_tokens_of};
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
    /// What a step computes beside one row of each of the requests that decode, of `prefilling`
    /// requests, the first of which go first; and which requests decode, in the order of their keys.
    ///
    /// Guests change nothing of what others get: they have the rows and the time that are left.
    pub(crate) fn choose(
        prefilling: &Parties,
        decoding: Parties,
        running: &Running,
        config: &EngineConfig,
        speculator: &Speculator,
    ) -> (Self, Vec<RequestKey>) {
        let mut decoding_now = decoding.regulars;
        let mut step = Step {
            running,
            config,
            speculator,
            size: ForwardSize {
                rows: decoding_now.len(),
                kv_tokens: kv_tokens_of(running, &decoding_now),
            },
            chunks: Self::default(),
        };
        step.add_chunks(&prefilling.regulars, !decoding_now.is_empty());
        decoding_now.extend(decoding.guests.into_iter().filter(|&key| step.add_row(key)));
        step.add_chunks(&prefilling.guests, true);
        decoding_now.sort_unstable();
        (step.chunks, decoding_now)
    }
}

/// A step in the making.
struct Step<'a> {
    running: &'a Running,
    config: &'a EngineConfig,
    speculator: &'a Speculator,
    size: ForwardSize,
    chunks: Chunks,
}

impl Step<'_> {
    fn has_time(&self, size: ForwardSize) -> bool {
        self.speculator.milliseconds(size) <= self.config.max_step_ms
    }

    /// Adds the row of a guest that decodes; false where rows or, beside prompts, time are short.
    fn add_row(&mut self, guest: RequestKey) -> bool {
        let kv_len = self.running.get(&guest).map_or(0, |one| one.kv_len());
        let size = self.size.with_chunk(kv_len, 1);
        let fits = size.rows <= self.config.max_batch_rows
            && (self.chunks.parts.is_empty() || self.has_time(size));
        if fits {
            self.size = size;
        }
        fits
    }

    /// Adds rows of `prefilling`; not many at once if an answer waits for the step.
    fn add_chunks(&mut self, prefilling: &[RequestKey], is_awaited: bool) {
        let num_before = self.chunks.size.rows;
        let most = (self.config.chunk_tokens - num_before)
            .min(self.config.max_batch_rows - self.size.rows);
        let least = if is_awaited {
            self.config.page_size.saturating_sub(num_before).min(most)
        } else {
            most
        };
        for &key in prefilling {
            let Some(sequence) = self.running.get(&key) else {
                continue;
            };
            let num_added = self.chunks.size.rows - num_before;
            let kv_len = sequence.kv_len();
            let wanted = sequence.num_missing().min(most - num_added);
            let fits = |rows| self.has_time(self.size.with_chunk(kv_len, rows));
            let rows = most_that_fit(least.saturating_sub(num_added), wanted, fits);
            if rows == 0 {
                break;
            }
            self.size = self.size.with_chunk(kv_len, rows);
            self.chunks.size = self.chunks.size.with_chunk(kv_len, rows);
            self.chunks.parts.push((key, rows));
        }
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
