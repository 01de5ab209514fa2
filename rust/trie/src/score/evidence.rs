//! The evidence for each candidate of a node, collected from every source.

use std::cmp::Reverse;

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
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Evidence {
    /// Occurrences at each level or above.
    pub(crate) counts: [[f32; LEVELS.len()]; 2],
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
        self.counts[0][0] + self.counts[1][0] > 0.0
    }
}

/// Evidence of all candidates of a node, in their order.
#[derive(Debug, Default)]
pub(crate) struct Gathering {
    pub(crate) all: Vec<Evidence>,
    /// How many of them some text names: the head of the list.
    pub(crate) num_in_text: usize,
    /// Highest level, own and shared.
    pub(crate) tops: [Option<usize>; 2],
    /// Hints by kind.
    pub(crate) num_hints: [u8; KINDS],
}

impl Gathering {
    /// Replaces `candidates` by every continuation that `context` names, in the order of first
    /// sight, and gathers what it says of each.
    pub(crate) fn gather(&mut self, context: Context<'_>, candidates: &mut Vec<Candidate>) {
        candidates.clear();
        self.all.clear();
        self.count(context.occurrences, candidates);
        self.num_in_text = self.all.len();
        self.recycle(context.answers, candidates);
        self.hint(context.hints, candidates);
    }

    fn index_of(&mut self, token: TokenId, origin: u16, candidates: &mut Vec<Candidate>) -> usize {
        if let Some(index) = candidates
            .iter()
            .position(|candidate| candidate.token == token)
        {
            candidates[index].origin = candidates[index].origin.min(origin);
            return index;
        }
        candidates.push(Candidate {
            token,
            probability: 0.0,
            origin,
        });
        self.all.push(Evidence::default());
        candidates.len() - 1
    }

    fn count(&mut self, occurrences: &[Occurrence], candidates: &mut Vec<Candidate>) {
        self.tops = [None; 2];
        // Freshness of the longest match so far and its candidate, own and shared.
        let mut newest = [None; 2];
        for occurrence in occurrences {
            let matched = occurrence.matched.min(MAX_MATCH as u16);
            let level = LEVEL_OF[usize::from(matched)] as usize;
            let kind = usize::from(occurrence.origin >= SHARED);
            let index = self.index_of(occurrence.next, occurrence.origin, candidates);
            let evidence = &mut self.all[index];
            evidence.counts[kind][level] += 1.0;
            evidence.longest[kind] = evidence.longest[kind].max(matched);
            let freshness = (matched, Reverse(occurrence.origin), occurrence.position);
            newest[kind] = newest[kind].max(Some((freshness, index)));
            self.tops[kind] = self.tops[kind].max(Some(level));
        }
        for (kind, newest) in newest.iter().enumerate() {
            if let Some((_, index)) = newest {
                self.all[*index].newest[kind] = true;
            }
        }
        for evidence in &mut self.all {
            for (counts, top) in evidence.counts.iter_mut().zip(self.tops) {
                for level in (0..top.unwrap_or(0)).rev() {
                    counts[level] += counts[level + 1];
                }
            }
        }
    }

    fn recycle(&mut self, answers: &[Option<Answer>; 3], candidates: &mut Vec<Candidate>) {
        for (kind, answer) in answers.iter().enumerate() {
            for &(token, given) in answer.iter().flat_map(Answer::tokens) {
                let index = self.index_of(token, RECYCLED, candidates);
                self.all[index].recycled[kind] = given;
            }
        }
    }

    fn hint(&mut self, hints: &[Hint], candidates: &mut Vec<Candidate>) {
        self.num_hints = [0; KINDS];
        for &Hint { token, kind } in hints {
            let kind = usize::from(kind);
            let index = self.index_of(token, REQUEST, candidates);
            let evidence = &mut self.all[index];
            evidence.hints[kind] += 1;
            evidence.newest_hint |= u8::from(self.num_hints[kind] == 0) << kind;
            self.num_hints[kind] += 1;
        }
    }
}
