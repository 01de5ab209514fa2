//! The tokens that may be drawn at a place in a grammar.

use std::fmt;

use llguidance::toktrie::SimpleVob;

use super::vocabulary::Vocabulary;

/// The tokens that may be drawn at a place in a grammar, one at least.
pub struct AllowedTokens(SimpleVob);

impl AllowedTokens {
    /// Those of a mask of the library; `None` where it leaves no token but ends of an answer. Answers
    /// that heed them may take those too.
    pub(super) fn new(
        mut mask: SimpleVob,
        vocabulary: &Vocabulary,
        heeds_eos: bool,
    ) -> Option<Self> {
        let eos = vocabulary.eos_token_ids();
        let can_end = eos.iter().any(|&token| mask.is_allowed(token));
        for &token in eos {
            mask.disallow_token(token);
        }
        if mask.is_zero() {
            return None;
        }
        vocabulary.allow_twins(&mut mask);
        if can_end && heeds_eos {
            for &token in eos {
                mask.allow_token(token);
            }
        }
        Some(Self(mask))
    }

    /// Bit `v % 32` of word `v / 32` for token `v`; tokens past the last word are not allowed.
    pub fn words(&self) -> &[u32] {
        self.0.as_slice()
    }
}

impl fmt::Debug for AllowedTokens {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AllowedTokens").finish_non_exhaustive()
    }
}
