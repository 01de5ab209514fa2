//! How honest the values of draft nodes are.

use spectrie_trie::DraftNode;
use spectrie_types::NUM_SOURCES;

use super::super::tree::SentTree;
use crate::output::{CalibrationBin, Load, NUM_BINS};

/// What the trees of mode auto promised, and what became of them.
#[derive(Debug, Default)]
pub(crate) struct Calibration {
    /// Sum of the values of the nodes sent.
    expected_accepted: f64,
    accepted_by_source: [u64; NUM_SOURCES],
    /// By tenths of the conditional probability.
    bins: [CalibrationBin; NUM_BINS],
}

impl Calibration {
    /// Counts what a tree promised and what became of it: `path` are its accepted rows.
    ///
    /// A sent node is a trial of its value given its parent's if the model came to the parent and
    /// said what follows; `ended` says that it ended at the last row of the path instead, where
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
                let bin = &mut self.bins[bin];
                bin.trials += 1;
                bin.expected += promise;
                bin.actual += u64::from(path.contains(&row));
            }
        }
        for &row in path {
            self.accepted_by_source[tree.node(row).source as usize] += 1;
        }
    }

    /// Writes its figures into `load`.
    pub(crate) fn report(&self, load: &mut Load) {
        load.expected_accepted = self.expected_accepted;
        load.accepted_by_source = self.accepted_by_source;
        load.calibration = self.bins;
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
    use spectrie_trie::DraftTree;
    use spectrie_types::Source;

    use super::*;

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
        let mut calibration = Calibration::default();
        calibration.note_tree(&tree(), &[1], false);
        let trials: Vec<u64> = calibration.bins.iter().map(|bin| bin.trials).collect();
        // 0.25 and 0.5 under the root, 0.8 under row 1; row 4 was never reached.
        assert_eq!(trials, [0, 0, 1, 0, 0, 1, 0, 0, 1, 0]);
        let actual: Vec<u64> = calibration.bins.iter().map(|bin| bin.actual).collect();
        assert_eq!(actual, [0, 0, 0, 0, 0, 1, 0, 0, 0, 0]);
        assert!((calibration.expected_accepted - 1.4).abs() < 1e-6);
        assert_eq!(calibration.accepted_by_source[Source::Request as usize], 1);
    }

    #[test]
    fn rows_where_the_answer_ended_judge_no_child() {
        let mut calibration = Calibration::default();
        calibration.note_tree(&tree(), &[1], true);
        assert_eq!(
            calibration.bins.iter().map(|bin| bin.trials).sum::<u64>(),
            2
        );
        let mut calibration = Calibration::default();
        calibration.note_tree(&tree(), &[], true);
        assert_eq!(
            calibration.bins.iter().map(|bin| bin.trials).sum::<u64>(),
            0
        );
    }

    #[test]
    fn certain_nodes_fall_into_the_last_bin() {
        let mut calibration = Calibration::default();
        calibration.note_tree(&tree(), &[3, 4], false);
        assert_eq!(
            (calibration.bins[9].trials, calibration.bins[9].actual),
            (1, 1)
        );
        assert!((calibration.bins[9].expected - 1.0).abs() < 1e-9);
    }
}
