//! A step in the making: which rows fit.

use crate::config::EngineConfig;
use crate::costs::{CostCurve, ForwardSize};
use crate::request_key::RequestKey;
use crate::scheduling::running::Running;
use crate::sequence::Sequence;

/// Prompt rows of one step that may give logits: those of a vocabulary of 152,000 tokens take 311 MB.
const MAX_PROMPT_LOGITS: usize = 512;

/// The prompt rows of a step, in order.
#[derive(Debug, Default)]
pub(crate) struct Chunks {
    /// Whose next tokens, and how many of them.
    pub(crate) parts: Vec<(RequestKey, usize)>,
    /// The forward of these rows alone.
    pub(crate) size: ForwardSize,
}

/// A step in the making.
pub(super) struct Step<'a> {
    running: &'a Running,
    config: &'a EngineConfig,
    costs: &'a CostCurve,
    /// Rows of requests that are on their way, ascending.
    flying: &'a [(RequestKey, usize)],
    size: ForwardSize,
    chunks: Chunks,
    num_prompt_logits: usize,
    decoding: Vec<RequestKey>,
}

impl<'a> Step<'a> {
    /// One without rows.
    pub(super) fn new(
        running: &'a Running,
        config: &'a EngineConfig,
        costs: &'a CostCurve,
        flying: &'a [(RequestKey, usize)],
    ) -> Self {
        Self {
            running,
            config,
            costs,
            flying,
            size: ForwardSize::default(),
            chunks: Chunks::default(),
            num_prompt_logits: 0,
            decoding: Vec::new(),
        }
    }

    /// Its prompt rows; and which requests decode, in the order of their keys.
    pub(super) fn finish(mut self) -> (Chunks, Vec<RequestKey>) {
        self.decoding.sort_unstable();
        (self.chunks, self.decoding)
    }

    /// Whether it has no rows.
    pub(super) fn is_empty(&self) -> bool {
        self.size.rows == 0
    }

    /// Whether an answer waits for it.
    pub(super) fn is_awaited(&self) -> bool {
        !self.decoding.is_empty()
    }

    /// What it is expected to take.
    pub(super) fn milliseconds(&self) -> f64 {
        self.costs.milliseconds(self.size)
    }

    fn has_time(&self, size: ForwardSize) -> bool {
        self.costs.milliseconds(size) <= self.config.max_step_ms
    }

    /// Adds the row of a request that decodes.
    pub(super) fn add_row(&mut self, key: RequestKey, kv_len: usize) {
        self.size = self.size + ForwardSize::of_tree(kv_len, 1, 1);
        self.decoding.push(key);
    }

    /// Adds the row of a guest that decodes if there are rows and, beside prompts, time for it.
    pub(super) fn add_guest(&mut self, guest: RequestKey) {
        let kv_len = self.running.get(&guest).map_or(0, |one| one.kv_len());
        let size = self.size + ForwardSize::of_tree(kv_len, 1, 1);
        let fits = size.rows <= self.config.max_batch_rows
            && (self.chunks.parts.is_empty() || self.has_time(size));
        if fits {
            self.add_row(guest, kv_len);
        }
    }

    /// Adds rows of `prefilling`; not many at once if an answer waits for the step.
    pub(super) fn add_chunks(&mut self, prefilling: &[RequestKey], is_awaited: bool) {
        self.add_chunks_but(0, prefilling, is_awaited);
    }

    /// The same, but for so many rows, or half of those there are, that are kept for others.
    pub(super) fn add_chunks_but(
        &mut self,
        num_kept: usize,
        prefilling: &[RequestKey],
        is_awaited: bool,
    ) {
        let num_before = self.chunks.size.rows;
        let most = (self.config.chunk_tokens - num_before)
            .min(self.config.max_batch_rows - self.size.rows);
        let most = most - num_kept.min(most / 2);
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
            let kv_len = sequence.kv_len() + self.num_flying(key);
            let wanted = self.num_wanted(key, sequence).min(most - num_added);
            let fits = |rows| self.has_time(self.size + self.costs.chunk(kv_len, rows));
            let rows = most_that_fit(least.saturating_sub(num_added), wanted, fits);
            if rows == 0 {
                break;
            }
            self.push_chunk(key, sequence, rows);
        }
    }

    /// Rows of a request that the forward before this step computes.
    fn num_flying(&self, key: RequestKey) -> usize {
        let found = self.flying.binary_search_by_key(&key, |one| one.0);
        found.map_or(0, |index| self.flying[index].1)
    }

    /// Rows of a prompt that are still to be computed, as far as their logits have room.
    fn num_wanted(&self, key: RequestKey, sequence: &Sequence) -> usize {
        let missing = sequence.num_missing() - self.num_flying(key);
        if sequence.needs_prompt_rows() {
            missing.min(MAX_PROMPT_LOGITS - self.num_prompt_logits)
        } else {
            missing
        }
    }

    fn push_chunk(&mut self, key: RequestKey, sequence: &Sequence, rows: usize) {
        if sequence.needs_prompt_rows() {
            self.num_prompt_logits += rows;
        }
        let kv_len = sequence.kv_len() + self.num_flying(key);
        let added = self.costs.chunk(kv_len, rows);
        self.size = self.size + added;
        self.chunks.size = self.chunks.size + added;
        self.chunks.parts.push((key, rows));
    }

    /// Adds a row of a request that decodes or is about to, and of a prompt more of them as long as the
    /// step takes `limit_ms` at most; false where there are no rows left.
    pub(super) fn add_part(&mut self, key: RequestKey, limit_ms: f64) -> bool {
        let Some(sequence) = self.running.get(&key) else {
            return true;
        };
        let is_prompt = !sequence.decoding;
        let kv_len = sequence.kv_len();
        let left = self.config.max_batch_rows - self.size.rows;
        let most = if is_prompt {
            let left = left.min(self.config.chunk_tokens - self.chunks.size.rows);
            left.min(self.num_wanted(key, sequence))
        } else {
            left.min(1)
        };
        let fits = |rows| {
            let size = self.size + self.costs.chunk(kv_len, rows);
            self.costs.milliseconds(size) <= limit_ms
        };
        let rows = most_that_fit(1, most, fits);
        if rows == 0 {
            return false;
        }
        if is_prompt {
            self.push_chunk(key, sequence, rows);
        } else {
            self.add_row(key, kv_len);
        }
        true
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
