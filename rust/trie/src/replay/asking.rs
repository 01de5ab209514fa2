//! When a replay asks a drafter of the runner's, and where its recorded answers are.

use std::str::FromStr;

use spectrie_types::Source;

use super::head_answers::HeadAnswers;
use super::tally::Tally;
use crate::{DraftTree, Drafter, TokenId, TrieError};

/// Whether a replay drafts from recorded answers of a head.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum HeadMode {
    /// Not at all. The default.
    #[default]
    Off,
    /// Beside everything else.
    On,
    /// From nothing else.
    Only,
}

impl FromStr for HeadMode {
    type Err = TrieError;

    fn from_str(name: &str) -> Result<Self, TrieError> {
        match name {
            "off" => Ok(Self::Off),
            "on" => Ok(Self::On),
            "only" => Ok(Self::Only),
            _ => Err(TrieError::UnknownName {
                what: "head",
                given: name.to_owned(),
                allowed: "off, on, only",
            }),
        }
    }
}

/// The levels that a replay asks in each step. A server weighs what a level adds against its milliseconds; a replay
/// knows no times, so it asks by this rule.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct AskRule {
    /// Levels at most. Default 5.
    pub levels: usize,
    /// Nodes of a level at most, those first that are expected to gain most. Default 4.
    pub rows: usize,
    /// Nodes that are expected to gain fewer accepted tokens than this are not asked about. Default 0.02.
    pub least_gain: f32,
    /// What a row costs, in accepted tokens: the gain is less that of the rows that an answer adds. Default 0.
    pub price: f32,
    /// The root is asked about whatever it is expected to gain where so many steps, this one included, did not ask:
    /// so what was wrong for long is found right again. Default 1: in every step. A server waits for 64.
    pub probe_every: u64,
}

impl Default for AskRule {
    fn default() -> Self {
        Self {
            levels: 5,
            rows: 4,
            least_gain: 0.02,
            price: 0.0,
            probe_every: 1,
        }
    }
}

/// One step: where it is, and how it may draft.
#[derive(Clone, Copy, Debug)]
pub(super) struct Asking<'a> {
    pub(super) rule: AskRule,
    /// Most nodes, and the least value of one.
    pub(super) max_nodes: usize,
    pub(super) min_value: f32,
    pub(super) answers: &'a HeadAnswers,
    /// Output tokens so far.
    pub(super) index: usize,
}

impl Asking<'_> {
    /// Asks level by level, as the engine does; gives the last draft, `tree` if nothing was asked. `rest` is the output
    /// still to come: answers are known along it alone. Elsewhere the head is taken to be as sure as on the output at
    /// that level, so that wrong paths compete for nodes as they would live.
    pub(super) fn ask(
        self,
        drafter: &mut Drafter,
        mut tree: DraftTree,
        rest: &[TokenId],
        tally: &mut Tally,
    ) -> DraftTree {
        let (mut above, mut is_on_output) = (None, true);
        let probes = tally.is_unasked(self.rule.probe_every);
        for level in 1..=self.rule.levels.min(rest.len()) {
            let mut wishes = drafter.frontier(level as u16, self.rule.price);
            wishes.retain(|wish| wish.gain >= self.rule.least_gain || (level == 1 && probes));
            wishes.sort_by(|a, b| b.gain.total_cmp(&a.gain));
            wishes.truncate(self.rule.rows);
            if wishes.is_empty() {
                break;
            }
            tally.ask(wishes.len());
            let Some(answer) = self.answers.get(self.index, level) else {
                break;
            };
            let taken = level.checked_sub(2).map(|before| rest[before]);
            let mut known_above = None;
            for wish in &wishes {
                let is_taken = is_on_output
                    && wish.parent == above
                    && taken.is_none_or(|token| token == wish.token);
                let known = |&token: &TokenId| Some((token, answer.probability(token)?));
                let named = wish.named.iter().filter(|_| is_taken).filter_map(known);
                let named = named.collect();
                let asked = drafter.answer(wish, &answer.likeliest, named, Source::Head);
                if is_taken {
                    known_above = Some(asked);
                    tally.head_answers += 1;
                }
            }
            (above, is_on_output) = (known_above, known_above.is_some());
            tree = drafter.draft(self.max_nodes, self.min_value);
        }
        tree
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_parse_and_unknown_ones_are_answered_with_the_known() {
        let parsed: [HeadMode; 3] = ["off", "on", "only"].map(|name| name.parse().unwrap());
        assert_eq!(parsed, [HeadMode::Off, HeadMode::On, HeadMode::Only]);
        let message = "auto".parse::<HeadMode>().unwrap_err().to_string();
        assert_eq!(message, "head is \"auto\"; allowed: off, on, only");
    }
}
