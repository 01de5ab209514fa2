//! What a request has of the drafters of the runner's.

use spectrie_types::sizes::MAX_DRAFTERS;

use crate::TokenId;
use crate::score::calibration::Calibration;
use crate::score::head_gains::HeadGains;
use crate::score::head_prior::HeadCounts;
use crate::score::weights::LearnedWeights;
use crate::sources::asked::{Asked, HeadAnswer};
use crate::sources::head_place::{Came, Place};

/// Tokens without a question after which a request forgets most of how far it believed a drafter: its text may be another.
const OLD_TOKENS: usize = 64;

/// What a request has of the drafters of the runner's. One of them has the turn: it is asked in a step.
#[derive(Debug)]
pub(crate) struct Head {
    /// What the one that has the turn answered.
    pub(crate) asked: Asked,
    /// How right scores with the answers of each have been.
    pub(crate) calibrations: [Calibration; MAX_DRAFTERS],
    turn: usize,
    gains: [HeadGains; MAX_DRAFTERS],
    /// All that they added to this request.
    pub(crate) counts: HeadCounts,
    /// Tokens that the request had when each was asked last.
    asked_at: [usize; MAX_DRAFTERS],
    /// Whether each was ever asked.
    is_used: [bool; MAX_DRAFTERS],
    /// Whether the namespace hears what they were worth.
    pub(crate) judges: bool,
}

impl Head {
    /// Starts from what the requests of a namespace found.
    pub(crate) fn new(learned: Option<&LearnedWeights>) -> Self {
        Self {
            asked: Asked::default(),
            calibrations: <_>::default(),
            turn: 0,
            gains: learned.map(LearnedWeights::gains).unwrap_or_default(),
            counts: HeadCounts::default(),
            asked_at: [0; MAX_DRAFTERS],
            is_used: [false; MAX_DRAFTERS],
            judges: true,
        }
    }

    /// Gives a drafter the turn; answers of another are forgotten. Numbers beyond the last are that of the last.
    pub(crate) fn turn_to(&mut self, drafter: usize) {
        let drafter = drafter.min(MAX_DRAFTERS - 1);
        if drafter != self.turn {
            self.asked.clear();
            self.turn = drafter;
        }
    }

    /// Who has the turn.
    pub(crate) fn turn(&self) -> usize {
        self.turn
    }

    /// How right scores with the answers of who has the turn have been.
    pub(crate) fn calibration(&self) -> Calibration {
        self.calibrations[self.turn]
    }

    /// Surplus, in accepted tokens, that an answer is expected to add at a node that is reached.
    pub(crate) fn expected_gain(&self, place: Place) -> f32 {
        self.gains[self.turn].expected(place)
    }

    /// Notes that who has the turn is asked when the request has so many tokens, and returns whether it was not for long.
    pub(crate) fn note_question(&mut self, num_tokens: usize) -> bool {
        let before = std::mem::replace(&mut self.asked_at[self.turn], num_tokens);
        self.is_used[self.turn] && num_tokens.saturating_sub(before) >= OLD_TOKENS
    }

    /// Takes an answer after `token` below `parent`; gives its number.
    pub(crate) fn push(&mut self, parent: Option<u32>, token: TokenId, answer: HeadAnswer) -> u32 {
        self.is_used[self.turn] = true;
        self.asked.push(parent, token, answer)
    }

    /// Notes what children drafted with an answer came to, where a drafter was asked.
    pub(crate) fn note(&mut self, drafter: usize, place: Place, came: Came) {
        self.gains[drafter].note(place, came);
        self.counts.note(place, came);
    }

    /// Notes that there was no answer where it was asked.
    pub(crate) fn note_silence(&mut self, place: Place) {
        self.is_used[self.turn] = true;
        self.gains[self.turn].note_silence(place);
    }

    /// Leaves a namespace what it found.
    pub(crate) fn leave(&self, learned: &LearnedWeights) {
        let used = self.is_used.iter().zip(&self.gains).enumerate();
        for (drafter, (_, gains)) in used.filter(|(_, (is_used, _))| **is_used && self.judges) {
            learned.leave_gains(drafter, gains);
        }
    }
}
