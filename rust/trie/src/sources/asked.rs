//! What a drafter of the runner's answered in this step, by the path that it was asked after.

use crate::TokenId;
use crate::sources::head_place::Place;
use crate::sources::recycled::answer::Answer;

/// What was answered after one path.
#[derive(Clone, Debug)]
pub(crate) struct HeadAnswer {
    /// Its likeliest tokens, descending.
    pub(crate) likeliest: Answer,
    /// Tokens that others named, and their probabilities.
    pub(crate) named: Vec<(TokenId, f32)>,
    /// Levels up to this one: 1 for what follows the root.
    pub(crate) level: u16,
    /// Who gave it.
    pub(crate) drafter: usize,
    /// What its tokens are credited to where nobody else named them.
    pub(crate) origin: u16,
    /// Where that was, and what others offered there before this was known.
    pub(crate) place: Place,
}

#[derive(Debug)]
struct AskedNode {
    /// `None` for the root.
    parent: Option<u32>,
    token: TokenId,
    answer: HeadAnswer,
}

/// The paths of one step that were asked after, parents before children.
#[derive(Debug, Default)]
pub(crate) struct Asked {
    nodes: Vec<AskedNode>,
}

impl Asked {
    pub(crate) fn clear(&mut self) {
        self.nodes.clear();
    }

    /// The root, if it was asked after.
    pub(crate) fn root(&self) -> Option<u32> {
        (!self.nodes.is_empty()).then_some(0)
    }

    /// The path of `parent` and `token`, if it was asked after.
    pub(crate) fn child(&self, parent: u32, token: TokenId) -> Option<u32> {
        let after = self.nodes.iter().skip(parent as usize + 1);
        let index = after
            .clone()
            .position(|node| node.parent == Some(parent) && node.token == token)?;
        Some(parent + 1 + index as u32)
    }

    pub(crate) fn answer(&self, index: u32) -> &HeadAnswer {
        &self.nodes[index as usize].answer
    }

    /// Appends an answer after `token` below `parent`, or after the root; gives its number.
    pub(crate) fn push(&mut self, parent: Option<u32>, token: TokenId, answer: HeadAnswer) -> u32 {
        self.nodes.push(AskedNode {
            parent,
            token,
            answer,
        });
        (self.nodes.len() - 1) as u32
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_found_by_their_parent_and_token() {
        let answer = |level| HeadAnswer {
            likeliest: Answer::default(),
            named: Vec::new(),
            level,
            drafter: 0,
            origin: 0,
            place: Place::new(level, 0.0, 0.0, 0.0),
        };
        let mut asked = Asked::default();
        assert_eq!(asked.root(), None);
        let root = asked.push(None, 1, answer(1));
        let first = asked.push(Some(root), 7, answer(2));
        let second = asked.push(Some(root), 8, answer(2));
        let below = asked.push(Some(second), 7, answer(3));
        assert_eq!(
            (asked.root(), asked.child(root, 7)),
            (Some(root), Some(first))
        );
        assert_eq!(asked.child(first, 7), None);
        assert_eq!(asked.child(second, 7), Some(below));
        assert_eq!(asked.answer(below).level, 3);
        asked.clear();
        assert_eq!(asked.root(), None);
    }
}
