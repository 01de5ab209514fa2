//! The settings that tests of matches draft with.

use spectrie_trie::DraftConfig;

/// Drafts of what matches alone, without hints.
pub(crate) fn matches_only() -> DraftConfig {
    DraftConfig {
        hints: false,
        ..DraftConfig::default()
    }
}
