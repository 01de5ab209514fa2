//! What drafts gain, and how honest their values are.

use spectrie_trie::DraftNode;

use crate::output::{Load, NUM_BINS};
use crate::speculation::tree::SentTree;

/// What a step of nothing but decoding says about the gain of drafts. Steps that compute prompts
/// say nothing, nor do those in which no request leaves its drafts to the budget.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Trial {
    /// The budget chose the drafts.
    Offered,
    /// There were to be none.
    Holdout,
}

impl Load {
    /// Counts a step that emitted `tokens` and took `step_ms` from its plan to its results.
    pub(crate) fn note_trial(&mut self, trial: Trial, tokens: u64, step_ms: f64) {
        let step_ms = step_ms.max(0.0);
        match trial {
            Trial::Offered => {
                self.offered_steps += 1;
                self.offered_tokens += tokens;
                self.step_ms_total += step_ms;
            }
            Trial::Holdout => {
                self.holdout_steps += 1;
                self.holdout_tokens += tokens;
                self.holdout_ms_total += step_ms;
            }
        }
    }

    /// Counts what a tree promised and what became of it: `path` are its accepted rows.
    ///
    /// A sent node is a trial of its value given its parent's if the model came to the parent and
    /// said what follows; `ended` tells that it ended at the last row of the path instead, where
    /// no child could be accepted.
    pub(crate) fn note_tree(&mut self, tree: &SentTree, path: &[usize], ended: bool) {
        let visited = if ended { path.len() } else { path.len() + 1 };
        for row in 1..=tree.num_nodes() {
            let node = tree.node(row);
            self.expected_accepted += f64::from(node.value);
            let parent = tree.parent(row);
            let reached = if parent == 0 {
                Some(0)
            } else {
                path.iter().position(|&at| at == parent).map(|at| at + 1)
            };
            if reached.is_some_and(|depth| depth < visited) {
                let promise = conditional(node, (parent > 0).then(|| tree.node(parent)));
                let bin = ((promise * NUM_BINS as f64) as usize).min(NUM_BINS - 1);
                let bin = &mut self.calibration[bin];
                bin.trials += 1;
                bin.expected += promise;
                bin.actual += u64::from(path.contains(&row));
            }
        }
        for &row in path {
            self.accepted_by_source[tree.node(row).source as usize] += 1;
        }
    }
}

/// The probability of a node given its parent.
fn conditional(node: &DraftNode, parent: Option<&DraftNode>) -> f64 {
    let above = parent.map_or(1.0, |parent| f64::from(parent.value));
    if above > 0.0 {
        (f64::from(node.value) / above).clamp(0.0, 1.0)
    } else {
        0.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use spectrie_trie::DraftTree;
    use spectrie_types::Source;

    fn tree() -> SentTree {
        let node = |token, parent, depth, value| DraftNode {
            token,
            parent,
            depth,
            value,
            source: Source::Request,
        };
        let nodes = vec![
            node(1, None, 1, 0.5),
            node(2, Some(0), 2, 0.4),
            node(3, None, 1, 0.25),
            node(4, Some(2), 2, 0.25),
        ];
        SentTree::new(DraftTree { nodes }, |_| true)
    }

    #[test]
    fn children_of_reached_rows_alone_are_trials() {
        let mut load = Load::default();
        load.note_tree(&tree(), &[1], false);
        let trials: Vec<u64> = load.calibration.iter().map(|bin| bin.trials).collect();
        // 0.25 and 0.5 under the root, 0.8 under row 1; row 4 was never reached.
        assert_eq!(trials, [0, 0, 1, 0, 0, 1, 0, 0, 1, 0]);
        let actual: Vec<u64> = load.calibration.iter().map(|bin| bin.actual).collect();
        assert_eq!(actual, [0, 0, 0, 0, 0, 1, 0, 0, 0, 0]);
        assert!((load.expected_accepted - 1.4).abs() < 1e-6);
        assert_eq!(load.accepted_by_source[Source::Request as usize], 1);
    }

    #[test]
    fn rows_where_the_answer_ended_judge_no_child() {
        let mut load = Load::default();
        load.note_tree(&tree(), &[1], true);
        assert_eq!(
            load.calibration.iter().map(|bin| bin.trials).sum::<u64>(),
            2
        );
        let mut load = Load::default();
        load.note_tree(&tree(), &[], true);
        assert_eq!(
            load.calibration.iter().map(|bin| bin.trials).sum::<u64>(),
            0
        );
    }

    #[test]
    fn certain_nodes_fall_into_the_last_bin() {
        let mut load = Load::default();
        load.note_tree(&tree(), &[3, 4], false);
        assert_eq!(
            (load.calibration[9].trials, load.calibration[9].actual),
            (1, 1)
        );
        assert!((load.calibration[9].expected - 1.0).abs() < 1e-9);
    }
}
