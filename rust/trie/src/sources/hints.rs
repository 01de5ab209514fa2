//! Sparse context: evidence from the request's own text for a node whose last tokens match nothing.
//!
//! Text that repeats itself seldom does so word by word: a name changes and the rest stays. So a
//! node also asks what followed its last token anywhere, what came two tokens after its parent
//! (whatever was between), and which tokens were used a moment ago. Compressors call the second
//! kind sparse contexts.

use spectrie_types::sizes::TOP_K;

use crate::sources::text::Text;
use crate::store::chains::{Chains, suffix_hashes};
use crate::{SEPARATOR, TokenId};

/// Kinds of hints.
pub(crate) const KINDS: usize = 5;
/// The last tokens of the text, whatever the context.
pub(crate) const RECENT: usize = 0;
/// What followed the last token.
pub(crate) const AFTER_LAST: usize = 1;
/// What came one token after what followed the parent's last token.
pub(crate) const ACROSS: usize = 2;
/// The same where the token before agrees too.
pub(crate) const ACROSS_PAIR: usize = 3;

/// What the model thought likely at the last steps, taken or not (as in arXiv 2507.01449).
pub(crate) const RUNNER_UP: usize = 4;

/// Most hints of each kind, the newest.
pub(crate) const MAX_HINTS: usize = 16;

/// Last steps whose runners-up are hints.
pub(crate) const RUNNER_UP_STEPS: usize = 4;

/// Links followed per hint wanted, so that a crowded bucket cannot make a draft slow.
const VISITS_PER_HINT: usize = 2;

/// One token that a kind of hint names; a token may come several times.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Hint {
    pub(crate) token: TokenId,
    pub(crate) kind: u8,
}

/// Hints of the nodes of one draft, in one list. Kept between drafts for its memory.
#[derive(Debug, Default)]
pub(crate) struct Hints {
    list: Vec<Hint>,
    /// How many of them belong to every node: the head of the list.
    num_recent: usize,
}

/// The hints a node takes over from its parent, as a range.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Inherited {
    first: u32,
    last: u32,
}

impl Hints {
    /// Starts again with the recent tokens of `text` and the `runners_up` of the last steps, the
    /// newest first.
    pub(crate) fn start(&mut self, text: &Text, runners_up: impl Iterator<Item = TokenId>) {
        self.list.clear();
        let recent = text.tokens().iter().rev().take(MAX_HINTS);
        self.list.extend(
            recent
                .take_while(|&&token| token != SEPARATOR)
                .map(|&token| Hint {
                    token,
                    kind: RECENT as u8,
                }),
        );
        self.list
            .extend(runners_up.take(RUNNER_UP_STEPS * TOP_K).map(|token| Hint {
                token,
                kind: RUNNER_UP as u8,
            }));
        self.num_recent = self.list.len();
    }

    /// Appends to `hints` what `text` says of a node whose token is `last`: its own hints, behind
    /// the recent tokens and those it inherits. Gives the hints that its children inherit.
    pub(crate) fn expand(
        &mut self,
        text: &Text,
        before: Option<TokenId>,
        last: TokenId,
        inherited: Inherited,
        with_recent: bool,
        hints: &mut Vec<Hint>,
    ) -> Inherited {
        hints.clear();
        if with_recent {
            hints.extend_from_slice(&self.list[..self.num_recent]);
        }
        hints.extend_from_slice(&self.list[inherited.first as usize..inherited.last as usize]);
        self.walk(text, before, last, Some(hints))
    }

    /// Gives the hints that children of a node inherit, its token being `last`.
    pub(crate) fn inherit(
        &mut self,
        text: &Text,
        before: Option<TokenId>,
        last: TokenId,
    ) -> Inherited {
        self.walk(text, before, last, None)
    }

    fn walk(
        &mut self,
        text: &Text,
        before: Option<TokenId>,
        last: TokenId,
        mut own: Option<&mut Vec<Hint>>,
    ) -> Inherited {
        let first = self.list.len() as u32;
        let tokens = text.tokens();
        let (hashes, _) = suffix_hashes(&[last]);
        // What begins a document does not follow the end of another.
        let mut position = match last {
            SEPARATOR => 0,
            _ => text.head(0, hashes[0]) as usize,
        };
        let mut visits = MAX_HINTS * VISITS_PER_HINT;
        let mut count = 0;
        while position != 0 && visits > 0 && count < MAX_HINTS {
            visits -= 1;
            if tokens[position - 1] == last {
                count += 1;
                if let Some(own) = &mut own {
                    own.push(Hint {
                        token: tokens[position],
                        kind: AFTER_LAST as u8,
                    });
                }
                if let Some(&token) = tokens.get(position + 1)
                    && token != SEPARATOR
                {
                    let pair =
                        before.is_some() && position >= 2 && before == Some(tokens[position - 2]);
                    self.list.push(Hint {
                        token,
                        kind: ACROSS as u8,
                    });
                    if pair {
                        self.list.push(Hint {
                            token,
                            kind: ACROSS_PAIR as u8,
                        });
                    }
                }
            }
            position = text.previous(0, position as u32) as usize;
        }
        Inherited {
            first,
            last: self.list.len() as u32,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn named(hints: &[Hint], kind: usize) -> Vec<TokenId> {
        let of_kind = hints.iter().filter(|hint| usize::from(hint.kind) == kind);
        of_kind.map(|hint| hint.token).collect()
    }

    #[test]
    fn hints_name_what_followed_and_what_came_across_a_gap() {
        let mut text = Text::default();
        text.extend(&[1, 2, 3, 9, 2, 4, 5, 1, 2]);
        let mut hints = Hints::default();
        hints.start(&text, std::iter::empty());
        let mut found = Vec::new();
        let inherited = hints.expand(&text, Some(1), 2, Inherited::default(), true, &mut found);
        assert_eq!(named(&found, RECENT), [2, 1, 5, 4, 2, 9, 3, 2, 1]);
        assert_eq!(named(&found, AFTER_LAST), [4, 3]);
        // A child of this node, whatever its token.
        let mut below = Vec::new();
        hints.expand(&text, Some(2), 7, inherited, false, &mut below);
        assert_eq!(named(&below, ACROSS), [5, 9]);
        assert_eq!(named(&below, ACROSS_PAIR), [9]);
        assert_eq!(named(&below, RECENT), []);
    }

    #[test]
    fn hints_do_not_cross_a_separator() {
        let mut text = Text::default();
        text.extend(&[1, 2, SEPARATOR, 8, 1]);
        let mut hints = Hints::default();
        hints.start(&text, std::iter::empty());
        let mut found = Vec::new();
        let inherited = hints.expand(&text, None, 1, Inherited::default(), true, &mut found);
        assert_eq!(named(&found, RECENT), [1, 8]);
        assert_eq!(named(&found, AFTER_LAST), [2]);
        let mut below = Vec::new();
        hints.expand(&text, None, 5, inherited, false, &mut below);
        assert_eq!(below, []);
    }
}
