//! What a request has of a drafter of the runner's.

use crate::TokenId;
use crate::score::calibration::Calibration;
use crate::score::head_gains::HeadGains;
use crate::score::head_prior::HeadCounts;
use crate::score::weights::LearnedWeights;
use crate::sources::asked::{Asked, HeadAnswer};
use crate::sources::head_place::{Came, Place};

/// What a request has of a drafter of the runner's.
#[derive(Debug)]
pub(crate) struct Head {
    pub(crate) asked: Asked,
    /// How right scores with its answers have been.
    pub(crate) calibration: Calibration,
    gains: HeadGains,
    /// All that it added to this request.
    pub(crate) counts: HeadCounts,
    /// Whether it was ever asked.
    is_used: bool,
    /// Whether the namespace hears what it was worth.
    pub(crate) judges: bool,
}

impl Head {
    /// Starts from what the requests of a namespace found.
    pub(crate) fn new(learned: Option<&LearnedWeights>) -> Self {
        Self {
            asked: Asked::default(),
            calibration: Calibration::default(),
            gains: learned.map(LearnedWeights::gains).unwrap_or_default(),
            counts: HeadCounts::default(),
            is_used: false,
            judges: true,
        }
    }

    /// Surplus, in accepted tokens, that an answer is expected to add at a node that is reached.
    pub(crate) fn expected_gain(&self, place: Place) -> f32 {
        self.gains.expected(place)
    }

    /// Takes an answer after `token` below `parent`; gives its number.
    pub(crate) fn push(&mut self, parent: Option<u32>, token: TokenId, answer: HeadAnswer) -> u32 {
        self.is_used = true;
        self.asked.push(parent, token, answer)
    }

    /// Notes what children drafted with an answer came to, where it was asked.
    pub(crate) fn note(&mut self, place: Place, came: Came) {
        self.gains.note(place, came);
        self.counts.note(place, came);
    }

    /// Notes that there was no answer where it was asked.
    pub(crate) fn note_silence(&mut self, place: Place) {
        self.is_used = true;
        self.gains.note_silence(place);
    }

    /// Leaves a namespace what it found.
    pub(crate) fn leave(&self, learned: &LearnedWeights) {
        if self.is_used && self.judges {
            learned.leave_gains(&self.gains);
        }
    }
}
