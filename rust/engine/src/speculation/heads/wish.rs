//! What a drafter might be asked.

use spectrie_trie::Inquiry;

/// Committed tokens of a request that the drafter lacks keys of.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(in crate::speculation) struct Missing {
    pub(in crate::speculation) total: usize,
    /// Those that the last step gave.
    pub(in crate::speculation) fresh: usize,
}

/// What an inquiry of the level in question is worth.
#[derive(Debug)]
pub(in crate::speculation) struct Wish {
    pub(in crate::speculation) candidate: usize,
    pub(in crate::speculation) inquiry: Inquiry,
    /// What is to be made up before; nothing in later levels.
    pub(in crate::speculation) missing: Missing,
}
