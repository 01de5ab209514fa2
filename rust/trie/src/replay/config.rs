//! The settings of a replay.

use std::str::FromStr;

use super::asking::{AskRule, HeadMode};
use crate::{DraftConfig, MemoryConfig, TrieError};

/// Most draft nodes of a step that a replay takes.
const MAX_NODES: usize = 1024;

/// Whether requests see the text of earlier ones.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum MemoryMode {
    /// Each request stands alone, apart from corpora. The default.
    #[default]
    Cold,
    /// Each request reads the text of the finished requests of its namespace.
    Online,
}

impl FromStr for MemoryMode {
    type Err = TrieError;

    fn from_str(name: &str) -> Result<Self, TrieError> {
        match name {
            "cold" => Ok(Self::Cold),
            "online" => Ok(Self::Online),
            _ => Err(TrieError::UnknownName {
                what: "memory",
                given: name.to_owned(),
                allowed: "cold, online",
            }),
        }
    }
}

/// Settings of a replay.
#[derive(Clone, Debug, PartialEq)]
pub struct ReplayConfig {
    /// Settings of the drafts.
    pub draft: DraftConfig,
    /// Maximum draft nodes per step, 0 to 1024. Default 16.
    pub max_nodes: usize,
    /// Minimum probability of a draft node, 0 to 1. Default 0.
    pub min_value: f32,
    /// Time of a forward of 1, 2 ... rows, in any unit. Each step then sends the number of nodes
    /// with the most expected tokens per time. Empty (the default) sends every drafted node.
    pub costs: Vec<f64>,
    /// Whether requests see the text of earlier ones.
    pub memory: MemoryMode,
    /// Bounds of the memory that requests share.
    pub bounds: MemoryConfig,
    /// Drafts from the model's recorded top tokens where a request has them. Default true.
    pub recycle: bool,
    /// Whether recorded answers of a head are drafted from, in mode `auto`. Default off.
    pub head: HeadMode,
    /// The levels of answers that each step asks for.
    pub ask: AskRule,
}

impl Default for ReplayConfig {
    fn default() -> Self {
        Self {
            draft: DraftConfig::default(),
            max_nodes: 16,
            min_value: 0.0,
            costs: Vec::new(),
            memory: MemoryMode::default(),
            bounds: MemoryConfig::default(),
            recycle: true,
            head: HeadMode::default(),
            ask: AskRule::default(),
        }
    }
}

impl ReplayConfig {
    /// Checks every setting.
    ///
    /// # Errors
    ///
    /// [`TrieError::OutOfRange`], [`TrieError::NotAProbability`], [`TrieError::NoCost`] or
    /// [`TrieError::Inverted`], naming the setting.
    pub fn validate(&self) -> Result<(), TrieError> {
        self.draft.validate()?;
        self.bounds.validate()?;
        if self.max_nodes > MAX_NODES {
            return Err(TrieError::OutOfRange {
                name: "nodes",
                given: self.max_nodes,
                min: 0,
                max: MAX_NODES,
            });
        }
        for (name, given) in [
            ("min_value", self.min_value),
            ("least_gain", self.ask.least_gain),
        ] {
            if !(0.0..=1.0).contains(&given) {
                return Err(TrieError::NotAProbability {
                    name,
                    given: given.to_string(),
                });
            }
        }
        match self
            .costs
            .iter()
            .position(|cost| !(*cost > 0.0 && cost.is_finite()))
        {
            Some(index) => Err(TrieError::NoCost {
                rows: index + 1,
                given: self.costs[index].to_string(),
            }),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_parse_and_unknown_ones_are_answered_with_the_known() {
        assert_eq!("cold".parse(), Ok(MemoryMode::Cold));
        assert_eq!("online".parse(), Ok(MemoryMode::Online));
        let message = "warm".parse::<MemoryMode>().unwrap_err().to_string();
        assert_eq!(message, "memory is \"warm\"; allowed: cold, online");
    }

    #[test]
    fn settings_out_of_range_are_named() {
        let refused = |config: ReplayConfig| config.validate().unwrap_err().to_string();
        let config = ReplayConfig {
            max_nodes: 5000,
            ..ReplayConfig::default()
        };
        assert_eq!(refused(config), "nodes is 5000; allowed: 0 to 1024");
        let config = ReplayConfig {
            min_value: f32::NAN,
            ..ReplayConfig::default()
        };
        assert_eq!(refused(config), "min_value is NaN; allowed: 0 to 1");
        let config = ReplayConfig {
            costs: vec![1.0, 0.0],
            ..ReplayConfig::default()
        };
        assert_eq!(
            refused(config),
            "cost of 2 rows is 0; allowed: a finite time above 0"
        );
        assert_eq!(ReplayConfig::default().validate(), Ok(()));
    }
}
