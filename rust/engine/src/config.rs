//! What an engine is built with: the checks that need more than one value.

use spectrie_trie::{DraftConfig, DraftMode, MemoryConfig};
use spectrie_types::SpeculationMode;

pub use spectrie_types::options::EngineConfig;

use crate::error::EngineError;

/// The bounds of the draft memory.
pub(crate) fn memory_config(config: &EngineConfig) -> MemoryConfig {
    MemoryConfig {
        capacity_bytes: config.memory_bytes,
        max_namespaces: config.max_namespaces,
    }
}

/// Checks every value.
///
/// # Errors
/// [`EngineError::Options`] with every value that is out of range, or [`EngineError::Drafting`].
pub(crate) fn check(config: &EngineConfig) -> Result<(), EngineError> {
    let mut violations = config.violations();
    violations.clone().check()?;
    let most_pages = i32::MAX as usize / config.page_size;
    if config.num_pages > most_pages {
        violations.refuse(
            "num_pages",
            config.num_pages,
            format!(
                "1 to {most_pages}, with pages of {} tokens",
                config.page_size
            ),
        );
    }
    if config.max_running > config.max_batch_rows {
        violations.refuse(
            "max_running",
            config.max_running,
            format!("1 to max_batch_rows, {}", config.max_batch_rows),
        );
    }
    if config.max_held < config.max_running {
        violations.refuse(
            "max_held",
            config.max_held,
            format!("max_running, {}, or more", config.max_running),
        );
    }
    let mut tokens = config.eos_token_ids.iter();
    if let Some(token) = tokens.find(|&&token| token as usize >= config.vocabulary_size) {
        violations.refuse(
            "eos_token_ids",
            token,
            format!("ids below the vocabulary size {}", config.vocabulary_size),
        );
    }
    violations.check()?;
    draft_config(config, config.speculation).validate()?;
    memory_config(config).validate()?;
    Ok(())
}

/// The settings of a drafter in a mode.
pub(crate) fn draft_config(config: &EngineConfig, mode: SpeculationMode) -> DraftConfig {
    DraftConfig {
        mode: match mode {
            SpeculationMode::Auto | SpeculationMode::Off | SpeculationMode::Tiers => {
                DraftMode::Auto
            }
            SpeculationMode::Bfs => DraftMode::Bfs,
            SpeculationMode::Prob => DraftMode::Prob,
            SpeculationMode::Eagle2 => DraftMode::Eagle2,
            SpeculationMode::Chain => DraftMode::Chain,
        },
        max_depth: config.max_depth,
        min_match: config.min_match,
        max_match: config.max_match,
        min_breadth: config.min_breadth,
        max_breadth: config.max_breadth,
        hints: true,
        head_steps: config.head_steps,
        head_top_k: config.head_top_k,
    }
}
