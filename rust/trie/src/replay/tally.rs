//! Counts of a replay while it runs.

use std::time::Duration;

use spectrie_types::Source;

use super::report::{Bin, ReplayReport};
use crate::{DraftTree, HeadCounts, TokenId};

/// Bins of conditional probability, of equal width.
const BINS: usize = 10;

#[derive(Debug, Default)]
pub(super) struct Tally {
    pub(super) requests: u64,
    pub(super) output_tokens: u64,
    steps: u64,
    drafted: u64,
    accepted: u64,
    by_source: [u64; Source::ALL.len()],
    bins: [Bin; BINS],
    /// Steps that did not ask a head, up to and with the one in the making.
    unasked: u64,
    head_levels: u64,
    head_rows: u64,
    pub(super) head_answers: u64,
    /// What was counted of what they added.
    pub(super) head_counts: HeadCounts,
    /// Steps by the number of nodes they drafted.
    steps_by_drafted: Vec<u64>,
    draft_us: Vec<f32>,
    update_us: Vec<f32>,
    pub(super) inserted_tokens: u64,
    pub(super) insert_time: Duration,
}

impl Tally {
    /// Counts one step: `path` are the nodes of `tree` that `rest`, the output still to come,
    /// takes.
    pub(super) fn step(&mut self, tree: &DraftTree, path: &[u32], rest: &[TokenId]) {
        self.steps += 1;
        self.drafted += tree.len() as u64;
        self.accepted += path.len() as u64;
        if self.steps_by_drafted.len() <= tree.len() {
            self.steps_by_drafted.resize(tree.len() + 1, 0);
        }
        self.steps_by_drafted[tree.len()] += 1;
        for &index in path {
            self.by_source[tree.nodes[index as usize].source as usize - 1] += 1;
        }
        self.calibrate(tree, path, rest);
    }

    /// Counts what each node whose parent was reached promised, and what came. Nodes beyond the
    /// end of the output have no answer.
    fn calibrate(&mut self, tree: &DraftTree, path: &[u32], rest: &[TokenId]) {
        for node in &tree.nodes {
            let depth = usize::from(node.depth);
            let reached = node.parent.is_none_or(|parent| path.contains(&parent));
            if !reached || depth > rest.len() {
                continue;
            }
            let above = node
                .parent
                .map_or(1.0, |parent| tree.nodes[parent as usize].value);
            let probability = f64::from(node.value / above).clamp(0.0, 1.0);
            let bin = &mut self.bins[((probability * BINS as f64) as usize).min(BINS - 1)];
            bin.trials += 1;
            bin.expected += probability;
            bin.actual += u64::from(rest[depth - 1] == node.token);
        }
    }

    /// Begins a step that may ask a head; whether so many steps did not, this one included.
    pub(super) fn is_unasked(&mut self, steps: u64) -> bool {
        self.unasked += 1;
        self.unasked >= steps
    }

    /// Counts a level that asks about so many nodes.
    pub(super) fn ask(&mut self, rows: usize) {
        self.unasked = 0;
        self.head_levels += 1;
        self.head_rows += rows as u64;
    }

    pub(super) fn times(&mut self, draft: Duration, update: Duration) {
        self.draft_us.push(draft.as_secs_f32() * 1e6);
        self.update_us.push(update.as_secs_f32() * 1e6);
    }

    /// Everything but what the memory itself says.
    pub(super) fn report(&self) -> ReplayReport {
        let steps = self.steps as f64;
        let per_step = |count: u64| (self.steps > 0).then(|| count as f64 / steps);
        let accepted_per_drafted =
            (self.drafted > 0).then(|| self.accepted as f64 / self.drafted as f64);
        let seconds = self.insert_time.as_secs_f64();
        let overall = self.bins.iter().fold(Bin::default(), |sum, bin| Bin {
            trials: sum.trials + bin.trials,
            expected: sum.expected + bin.expected,
            actual: sum.actual + bin.actual,
        });
        ReplayReport {
            requests: self.requests,
            output_tokens: self.output_tokens,
            steps: self.steps,
            drafted_tokens: self.drafted,
            accepted_tokens: self.accepted,
            accepted_per_step: per_step(self.accepted),
            tokens_per_step: per_step(self.output_tokens),
            drafted_per_step: per_step(self.drafted),
            accepted_per_drafted,
            head_levels: self.head_levels,
            head_rows: self.head_rows,
            head_answers: self.head_answers,
            draft_us_p50: quantile(&self.draft_us, 0.5),
            draft_us_p99: quantile(&self.draft_us, 0.99),
            update_us_p50: quantile(&self.update_us, 0.5),
            insert_tokens_per_second: (seconds > 0.0)
                .then(|| self.inserted_tokens as f64 / seconds),
            bytes_per_token: None,
            memory_bytes: 0,
            memory_tokens: 0,
            evicted_tokens: 0,
            calibration: self.bins,
            calibration_overall: overall,
            accepted_by_source: self.by_source,
            steps_by_drafted: self.steps_by_drafted.clone(),
        }
    }
}

/// The value below which a share of `values` lies; `None` without values.
fn quantile(values: &[f32], share: f64) -> Option<f64> {
    let mut sorted = values.to_vec();
    let index = (((sorted.len() as f64) * share) as usize).min(sorted.len().checked_sub(1)?);
    let (_, value, _) = sorted.select_nth_unstable_by(index, f32::total_cmp);
    Some(f64::from(*value))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::DraftNode;

    #[test]
    fn only_nodes_with_a_reached_parent_and_a_known_answer_are_trials() {
        // 7 (0.5) -> 8 (0.475: 0.95 after 7) -> 9 (0.38: 0.8 after 8); 6 (0.25) -> 5, never reached.
        let tree = DraftTree {
            nodes: vec![
                DraftNode::own(7, None, 1, 0.5),
                DraftNode::own(8, Some(0), 2, 0.475),
                DraftNode::own(9, Some(1), 3, 0.38),
                DraftNode::own(6, None, 1, 0.25),
                DraftNode::own(5, Some(3), 2, 0.2),
            ],
        };
        let mut tally = Tally::default();
        let rest = [7, 8];
        tally.step(&tree, &tree.walk(&rest), &rest);
        let report = tally.report();
        let trials: Vec<u64> = report.calibration.iter().map(|bin| bin.trials).collect();
        // 9 lies beyond the end of the output, and 5 below a token that was not taken.
        assert_eq!(trials, [0, 0, 1, 0, 0, 1, 0, 0, 0, 1]);
        let overall = report.calibration_overall;
        assert_eq!((overall.trials, overall.actual), (3, 2));
        assert!((overall.expected - (0.5 + 0.95 + 0.25)).abs() < 1e-6);
        assert_eq!((report.accepted_tokens, report.drafted_tokens), (2, 5));
        assert_eq!(report.steps_by_drafted, [0, 0, 0, 0, 0, 1]);
        assert_eq!(report.accepted_by_source[Source::Request as usize - 1], 2);
    }

    #[test]
    fn quantiles_are_values_that_were_measured() {
        assert_eq!(quantile(&[], 0.5), None);
        assert_eq!(quantile(&[3.0], 0.99), Some(3.0));
        assert_eq!(quantile(&[4.0, 1.0, 3.0, 2.0], 0.5), Some(3.0));
    }

    #[test]
    fn nothing_replayed_gives_no_rates() {
        let report = Tally::default().report();
        assert_eq!(report.accepted_per_step, None);
        assert_eq!(report.accepted_per_drafted, None);
        assert_eq!(report.insert_tokens_per_second, None);
    }
}
