//! The features of one candidate of a node, beside its rivals.

use crate::score::calibration::Calibration;
use crate::score::evidence::{Context, Evidence, Gathered};
use crate::score::inputs::{
    BOTH_NEWEST, DEPTH, Features, HINTS, LAST_ALONE, LATELY, NEWEST_AND_LIKELY, NUM_FEATURES, OWN,
    PAIR_IN_TEXT, RECYCLED, RIVALS, SHARED, TEXT, logit,
};
use crate::sources::hints::KINDS;

/// More occurrences than this are not distinguished.
const NUM_LOGS: usize = 256;

/// Logarithms of small counts, which scores need by the hundred.
#[derive(Debug)]
pub(crate) struct Logs {
    /// ln(n + 1).
    plus_one: [f32; NUM_LOGS],
    /// ln(n + 0.4), for shares among the longest matches.
    share: [f32; NUM_LOGS],
    /// ln(n + 0.2) and ln(n + 1.3), for shares among hints.
    hint: [[f32; NUM_LOGS]; 2],
}

impl Default for Logs {
    fn default() -> Self {
        let table = |offset: f32| std::array::from_fn(|n| (n as f32 + offset).ln());
        Self {
            plus_one: table(1.0),
            share: table(0.4),
            hint: [table(0.2), table(1.3)],
        }
    }
}

fn at(table: &[f32; NUM_LOGS], count: impl Into<u32>) -> f32 {
    table[(count.into() as usize).min(NUM_LOGS - 1)]
}

/// What the candidates of a node have in common.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Node {
    /// Highest level matched, own and shared.
    tops: [Option<usize>; 2],
    /// Occurrences at any level and at the highest, own and shared.
    totals: [[u32; 2]; 2],
    /// Longest match, own and shared.
    longest: [u16; 2],
    /// Logarithm of the candidates that some text names.
    rivals: f32,
    /// Whether the model answered this pair, this token, and this token alone before.
    answered: [bool; 3],
    num_hints: [u8; KINDS],
    /// How right the request's scores have been.
    lately: [f32; Calibration::NUM_INPUTS],
    /// ln(1 + distance from the root).
    depth: f32,
}

impl Node {
    /// Adds up what the candidates that texts name were seen with.
    pub(crate) fn new(
        gathered: Gathered,
        in_text: &[Evidence],
        context: Context<'_>,
        logs: &Logs,
    ) -> Self {
        let mut node = Self {
            tops: gathered.tops,
            totals: [[0; 2]; 2],
            longest: [0; 2],
            rivals: (in_text.len().max(1) as f32).ln(),
            answered: [0, 1, 2].map(|kind| context.answers[kind].is_some()),
            num_hints: gathered.num_hints,
            lately: context.lately,
            depth: at(&logs.plus_one, context.depth),
        };
        for kind in 0..2 {
            let Some(top) = node.tops[kind] else { continue };
            for evidence in in_text {
                node.totals[kind][0] += u32::from(evidence.counts[kind][0]);
                node.totals[kind][1] += u32::from(evidence.counts[kind][top]);
                node.longest[kind] = node.longest[kind].max(evidence.longest[kind]);
            }
        }
        node
    }

    /// The inputs of one candidate.
    pub(crate) fn features(&self, evidence: &Evidence, logs: &Logs) -> Features {
        let mut x = [0.0; NUM_FEATURES];
        x[0] = 1.0;
        if self.tops[0].max(self.tops[1]).is_some() {
            x[1] = logit(evidence.blends[0]);
        }
        for kind in 0..2 {
            if let Some(top) = self.tops[kind] {
                let text = self.text(evidence, kind, top, logit(evidence.blends[1 + kind]), logs);
                x[TEXT[kind]..TEXT[kind] + text.len()].copy_from_slice(&text);
            }
        }
        for (kind, first) in RECYCLED.into_iter().enumerate() {
            x[first..first + 2].copy_from_slice(&self.recycled(evidence, kind));
        }
        x[RIVALS] = self.rivals;
        x[DEPTH] = self.depth;
        let [own, shared] = evidence.newest;
        x[OWN] = flag(evidence.counts[0][0] > 0);
        x[SHARED] = flag(evidence.counts[1][0] > 0);
        x[BOTH_NEWEST] = flag(own && shared);
        x[NEWEST_AND_LIKELY] = flag(own && evidence.was_likely());
        x[PAIR_IN_TEXT] = flag(evidence.recycled[0] > 0.0 && evidence.is_in_text());
        for kind in 0..KINDS {
            let hints = self.hints(evidence, kind, logs);
            x[HINTS + 3 * kind..HINTS + 3 * kind + 3].copy_from_slice(&hints);
        }
        x[LAST_ALONE] = flag(evidence.recycled[1] > 0.0 && !evidence.is_in_text());
        x[LATELY..LATELY + self.lately.len()].copy_from_slice(&self.lately);
        x
    }

    /// What one kind of text says: the log-odds of its `blend`, times seen, all occurrences, newest, share of the
    /// longest matches, own longest match, whether that is the longest, and the weight of the
    /// longest matches that do not name the candidate.
    fn text(
        &self,
        evidence: &Evidence,
        kind: usize,
        top: usize,
        blend: f32,
        logs: &Logs,
    ) -> [f32; 8] {
        let count = u32::from(evidence.counts[kind][top]);
        let [all, longest] = self.totals[kind];
        [
            blend,
            at(&logs.plus_one, evidence.counts[kind][0]),
            at(&logs.plus_one, all),
            flag(evidence.newest[kind]),
            at(&logs.share, count) - at(&logs.share, longest - count),
            at(&logs.plus_one, evidence.longest[kind]),
            flag(evidence.longest[kind] == self.longest[kind]),
            if count > 0 {
                0.0
            } else {
                -at(&logs.plus_one, longest)
            },
        ]
    }

    /// What the model answered before: its log-odds, or that it did not name the candidate.
    fn recycled(&self, evidence: &Evidence, kind: usize) -> [f32; 2] {
        if evidence.recycled[kind] > 0.0 {
            [logit(evidence.recycled[kind]), 0.0]
        } else {
            [0.0, flag(self.answered[kind])]
        }
    }

    /// What one kind of hint says: its share of them, newest, and their number.
    fn hints(&self, evidence: &Evidence, kind: usize, logs: &Logs) -> [f32; 3] {
        let total = self.num_hints[kind];
        if total == 0 {
            return [0.0; 3];
        }
        let count = evidence.hints[kind];
        [
            at(&logs.hint[0], count) - at(&logs.hint[1], total - count),
            flag(evidence.newest_hint >> kind & 1 == 1),
            if count > 0 {
                at(&logs.plus_one, count)
            } else {
                -at(&logs.plus_one, total)
            },
        ]
    }
}

/// The log-odds of all candidates of a node: those of a candidate that nothing names, and what
/// each source that does name it changes. Most candidates are named by one source or two.
#[derive(Debug)]
pub(crate) struct LogOdds<'a> {
    node: &'a Node,
    weights: &'a Features,
    logs: &'a Logs,
    nothing: f32,
    /// What a source that is silent about a candidate adds.
    silent_text: [f32; 2],
    silent_blend: f32,
    silent_recycled: [f32; 3],
    silent_hints: [f32; KINDS],
}

fn dot(weights: &[f32], inputs: &[f32]) -> f32 {
    weights.iter().zip(inputs).map(|(w, x)| w * x).sum()
}

impl<'a> LogOdds<'a> {
    pub(crate) fn new(node: &'a Node, weights: &'a Features, logs: &'a Logs) -> Self {
        let nobody = Evidence::default();
        let silent_text = [0, 1].map(|kind| {
            node.tops[kind].map_or(0.0, |top| {
                let text = node.text(&nobody, kind, top, logit(0.0), logs);
                dot(&weights[TEXT[kind]..TEXT[kind] + text.len()], &text)
            })
        });
        let silent_blend = match node.tops {
            [None, None] => 0.0,
            _ => weights[1] * logit(0.0),
        };
        let silent_recycled =
            [0, 1, 2].map(|kind| weights[RECYCLED[kind] + 1] * flag(node.answered[kind]));
        let silent_hints = std::array::from_fn(|kind| {
            let first = HINTS + 3 * kind;
            dot(&weights[first..first + 3], &node.hints(&nobody, kind, logs))
        });
        let lately = &weights[LATELY..LATELY + node.lately.len()];
        Self {
            node,
            weights,
            logs,
            nothing: weights[0]
                + weights[RIVALS] * node.rivals
                + weights[DEPTH] * node.depth
                + dot(lately, &node.lately)
                + silent_blend
                + silent_text.iter().sum::<f32>()
                + silent_recycled.iter().sum::<f32>()
                + silent_hints.iter().sum::<f32>(),
            silent_text,
            silent_blend,
            silent_recycled,
            silent_hints,
        }
    }

    /// The log-odds of one candidate: the dot product of weights and [`Node::features`].
    pub(crate) fn of(&self, evidence: &Evidence) -> f32 {
        let weights = self.weights;
        let mut sum = self.nothing;
        let in_text = evidence.is_in_text();
        if in_text {
            let both = logit(evidence.blends[0]);
            sum += weights[1] * both - self.silent_blend;
            for kind in 0..2 {
                if evidence.counts[kind][0] > 0
                    && let Some(top) = self.node.tops[kind]
                {
                    // Text of one kind alone has one blend, and a logarithm takes long.
                    let alone = evidence.blends[1 + kind];
                    let is_alone = alone.to_bits() == evidence.blends[0].to_bits();
                    let blend = if is_alone { both } else { logit(alone) };
                    let text = self.node.text(evidence, kind, top, blend, self.logs);
                    sum += dot(&weights[TEXT[kind]..TEXT[kind] + 8], &text);
                    sum += weights[[OWN, SHARED][kind]] - self.silent_text[kind];
                }
            }
            let [own, shared] = evidence.newest;
            if own && shared {
                sum += weights[BOTH_NEWEST];
            }
            if own && evidence.was_likely() {
                sum += weights[NEWEST_AND_LIKELY];
            }
            if evidence.recycled[0] > 0.0 {
                sum += weights[PAIR_IN_TEXT];
            }
        } else if evidence.recycled[1] > 0.0 {
            sum += weights[LAST_ALONE];
        }
        for kind in 0..RECYCLED.len() {
            if evidence.recycled[kind] > 0.0 {
                sum += weights[RECYCLED[kind]] * logit(evidence.recycled[kind])
                    - self.silent_recycled[kind];
            }
        }
        for kind in 0..KINDS {
            if evidence.hints[kind] > 0 {
                let hints = self.node.hints(evidence, kind, self.logs);
                let first = HINTS + 3 * kind;
                sum += dot(&weights[first..first + 3], &hints) - self.silent_hints[kind];
            }
        }
        sum
    }
}

fn flag(is: bool) -> f32 {
    f32::from(u8::from(is))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::score::evidence::{Seen, gather};
    use crate::sources::hints::Hint;
    use crate::sources::recycled::answer::Answer;
    use crate::store::chains::Occurrence;

    #[test]
    fn log_odds_are_the_dot_product_of_weights_and_inputs() {
        let seen = |next, matched, origin| Occurrence {
            position: 1,
            next,
            origin,
            matched,
        };
        let occurrences = [seen(1, 3, 1), seen(2, 9, 2), seen(1, 12, 2), seen(4, 1, 1)];
        let hints = [(5, 0), (1, 0), (5, 2), (2, 3), (6, 4)];
        let hints = hints.map(|(token, kind)| Hint { token, kind });
        let answers = [
            Some(Answer::of(&[(1, 0.25), (7, 0.125)])),
            Some(Answer::of(&[(8, 0.5), (2, 0.25)])),
            Some(Answer::of(&[(1, 0.75), (3, 0.5), (5, 0.25)])),
        ];
        let context = Context {
            occurrences: &occurrences,
            answers: &answers,
            hints: &hints,
            depth: 2,
            lately: [0.5, -0.25, 1.0],
        };
        let mut seen = Seen::default();
        let gathered = gather(context, &mut Vec::new(), &mut seen);
        for (index, evidence) in seen.evidence.iter_mut().enumerate() {
            if evidence.is_in_text() {
                evidence.blends[0] = 0.1 + 0.1 * index as f32;
            }
            for kind in 0..2 {
                if evidence.counts[kind][0] > 0 {
                    evidence.blends[1 + kind] = 0.3;
                }
            }
        }
        let logs = Logs::default();
        let node = Node::new(
            gathered,
            &seen.evidence[..gathered.num_in_text],
            context,
            &logs,
        );
        let weights = std::array::from_fn(|index| (index as f32 * 0.7).sin());
        let odds = LogOdds::new(&node, &weights, &logs);
        assert_eq!(seen.evidence.len(), 8);
        for evidence in &seen.evidence {
            let slow = dot(&weights, &node.features(evidence, &logs));
            let fast = odds.of(evidence);
            assert!((slow - fast).abs() < 1e-3, "{slow} {fast} {evidence:?}");
        }
    }
}
