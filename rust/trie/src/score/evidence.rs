//! The evidence for each candidate of a node, collected from every source.

use crate::score::calibration::Calibration;
use crate::score::candidate::Candidate;
use crate::sources::all::{RECYCLED, REQUEST, SHARED};
use crate::sources::hints::{Hint, KINDS};
use crate::sources::recycled::answer::Answer;
use crate::store::chains::Occurrence;
use crate::{MAX_MATCH, TokenId};

/// Match lengths, in tokens, that are distinguished.
pub(crate) const LEVELS: [u16; 13] = [1, 2, 3, 4, 5, 6, 8, 10, 12, 16, 24, 40, 64];

/// Index of the longest level that a match of each length reaches.
const LEVEL_OF: [u8; MAX_MATCH + 1] = {
    let mut table = [0; MAX_MATCH + 1];
    let mut matched = 1;
    while matched <= MAX_MATCH {
        let mut level = 0;
        while level + 1 < LEVELS.len() && LEVELS[level + 1] as usize <= matched {
            level += 1;
        }
        table[matched] = level as u8;
        matched += 1;
    }
    table
};

/// What is known of a node when its continuations are scored.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Context<'a> {
    /// Positions whose text before them equals the path and the end of the request's text.
    pub(crate) occurrences: &'a [Occurrence],
    /// What the model gave before after the last pair, after the last token, and after that token
    /// alone.
    pub(crate) answers: &'a [Option<Answer>; 3],
    /// The newest first within each kind.
    pub(crate) hints: &'a [Hint],
    /// Distance from the root.
    pub(crate) depth: u16,
    /// How right the request's scores have been.
    pub(crate) lately: [f32; Calibration::NUM_INPUTS],
}

/// How often a candidate was seen. Of two numbers, the first is of the request's own texts and the
/// second of shared text.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Evidence {
    /// Occurrences at each level or above.
    pub(crate) counts: [[u16; LEVELS.len()]; 2],
    /// Longest match.
    pub(crate) longest: [u16; 2],
    /// Whether it is the newest continuation of the longest match.
    pub(crate) newest: [bool; 2],
    /// What the model gave it after this pair, after this token, and after this token alone; 0 =
    /// not among its likeliest.
    pub(crate) recycled: [f32; 3],
    /// Blends over both kinds of text and over each: see [`crate::score::scorer`].
    pub(crate) blends: [f32; 3],
    /// Hints of each kind that name it.
    pub(crate) hints: [u8; KINDS],
    /// Kinds whose newest hint names it, as bits.
    pub(crate) newest_hint: u8,
}

impl Evidence {
    /// Whether the model gave it more than half in this text or one of its namespace.
    pub(crate) fn was_likely(&self) -> bool {
        self.recycled[..2].iter().any(|&given| given > 0.5)
    }

    /// Whether a match of some length names it.
    pub(crate) fn is_in_text(&self) -> bool {
        self.counts[0][0] | self.counts[1][0] > 0
    }
}

/// The candidates of some nodes, those of one node after those of another, and what was seen of
/// each.
#[derive(Debug, Default)]
pub(crate) struct Seen {
    pub(crate) tokens: Vec<TokenId>,
    pub(crate) evidence: Vec<Evidence>,
    /// For each hash of a token, one more than where in `tokens` the last one with it is.
    places: Places,
}

/// Places for the candidates of a node, few of which share a hash.
const NUM_PLACES: usize = 256;

#[derive(Debug)]
struct Places([u32; NUM_PLACES]);

impl Default for Places {
    fn default() -> Self {
        Self([0; NUM_PLACES])
    }
}

impl Seen {
    pub(crate) fn clear(&mut self) {
        self.tokens.clear();
        self.evidence.clear();
        self.places = Places::default();
    }

    /// Which of the candidates from `first` on has `token`; the last one from now on, if none has.
    fn find_or_push(&mut self, first: usize, token: TokenId) -> Option<usize> {
        let hash = token.wrapping_mul(0x9E37_79B1) >> (u32::BITS - NUM_PLACES.ilog2());
        let place = &mut self.places.0[hash as usize];
        let last = *place as usize;
        if last > first {
            if self.tokens[last - 1] == token {
                return Some(last - 1 - first);
            }
            // Another one with this hash took the place of any before it.
            let index = self.tokens[first..].iter().position(|&one| one == token);
            if index.is_some() {
                return index;
            }
        }
        self.tokens.push(token);
        self.evidence.push(Evidence::default());
        *place = self.tokens.len() as u32;
        None
    }
}

/// What the candidates of a node have in common.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Gathered {
    /// How many of them some text names: the head of the list.
    pub(crate) num_in_text: usize,
    /// Highest level, own and shared.
    pub(crate) tops: [Option<usize>; 2],
    /// Hints by kind.
    pub(crate) num_hints: [u8; KINDS],
}

/// Replaces `candidates` by every continuation that `context` names, in the order of first sight,
/// and appends them to `seen` with what it says of each.
pub(crate) fn gather(
    context: Context<'_>,
    candidates: &mut Vec<Candidate>,
    seen: &mut Seen,
) -> Gathered {
    candidates.clear();
    let mut gathering = Gathering {
        first: seen.tokens.len(),
        candidates,
        seen,
    };
    let tops = gathering.count(context.occurrences);
    let num_in_text = gathering.candidates.len();
    gathering.recycle(context.answers);
    Gathered {
        num_in_text,
        tops,
        num_hints: gathering.hint(context.hints),
    }
}

/// The candidates of a node, of which more come.
struct Gathering<'a> {
    /// Where they begin in `seen`.
    first: usize,
    candidates: &'a mut Vec<Candidate>,
    seen: &'a mut Seen,
}

impl Gathering<'_> {
    /// The candidate with `token`, which is one from now on.
    fn index_of(&mut self, token: TokenId, origin: u16) -> usize {
        if let Some(index) = self.seen.find_or_push(self.first, token) {
            let credited = &mut self.candidates[index].origin;
            *credited = (*credited).min(origin);
            return index;
        }
        self.candidates.push(Candidate {
            token,
            probability: 0.0,
            origin,
        });
        self.candidates.len() - 1
    }

    fn evidence(&mut self, index: usize) -> &mut Evidence {
        &mut self.seen.evidence[self.first + index]
    }

    /// Counts what texts say, and gives the highest level of own and of shared text.
    fn count(&mut self, occurrences: &[Occurrence]) -> [Option<usize>; 2] {
        let mut longest = [0; 2];
        // How fresh the longest match so far is, and its candidate, own and shared.
        let mut newest: [Option<(u64, usize)>; 2] = [None; 2];
        for occurrence in occurrences {
            let matched = occurrence.matched.min(MAX_MATCH as u16);
            let kind = usize::from(occurrence.origin >= SHARED);
            let index = self.index_of(occurrence.next, occurrence.origin);
            let evidence = self.evidence(index);
            evidence.counts[kind][usize::from(LEVEL_OF[usize::from(matched)])] += 1;
            evidence.longest[kind] = evidence.longest[kind].max(matched);
            longest[kind] = longest[kind].max(matched);
            let freshness = u64::from(matched) << 48
                | u64::from(!occurrence.origin) << 32
                | u64::from(occurrence.position);
            if newest[kind].is_none_or(|(other, _)| freshness >= other) {
                newest[kind] = Some((freshness, index));
            }
        }
        for (kind, newest) in newest.iter().enumerate() {
            if let Some((_, index)) = newest {
                self.evidence(*index).newest[kind] = true;
            }
        }
        let tops = longest
            .map(|matched| (matched > 0).then(|| usize::from(LEVEL_OF[usize::from(matched)])));
        for evidence in &mut self.seen.evidence[self.first..] {
            for (counts, top) in evidence.counts.iter_mut().zip(tops) {
                for level in (0..top.unwrap_or(0)).rev() {
                    counts[level] += counts[level + 1];
                }
            }
        }
        tops
    }

    fn recycle(&mut self, answers: &[Option<Answer>; 3]) {
        for (kind, answer) in answers.iter().enumerate() {
            for &(token, given) in answer.iter().flat_map(Answer::tokens) {
                let index = self.index_of(token, RECYCLED);
                self.evidence(index).recycled[kind] = given;
            }
        }
    }

    /// Counts hints, and gives their number by kind.
    fn hint(&mut self, hints: &[Hint]) -> [u8; KINDS] {
        let mut num_hints = [0; KINDS];
        for &Hint { token, kind } in hints {
            let kind = usize::from(kind);
            let index = self.index_of(token, REQUEST);
            let is_newest = num_hints[kind] == 0;
            let evidence = self.evidence(index);
            evidence.hints[kind] += 1;
            evidence.newest_hint |= u8::from(is_newest) << kind;
            num_hints[kind] += 1;
        }
        num_hints
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn candidates_are_found_again_though_hashes_are_shared() {
        let mut seen = Seen::default();
        // More than there are hashes; of each node anew.
        let tokens = 0..3 * NUM_PLACES as u32;
        for first in [0, tokens.len(), 2 * tokens.len()] {
            for token in tokens.clone() {
                assert_eq!(seen.find_or_push(first, token), None);
            }
            for token in tokens.clone() {
                assert_eq!(seen.find_or_push(first, token), Some(token as usize));
            }
        }
        assert_eq!(seen.evidence.len(), 3 * tokens.len());
        seen.clear();
        assert_eq!(seen.find_or_push(0, 5), None);
    }
}
