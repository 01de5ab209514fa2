//! The settings of a replay.

use std::str::FromStr;

use crate::{DraftConfig, MemoryConfig, TrieError};

/// Most draft nodes of a step that a replay takes.
const MAX_NODES: usize = 1024;

/// What a request may know of the others.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum MemoryMode {
    /// Nothing: each request stands alone. Corpora are read. The default.
    #[default]
    Cold,
    /// The text of the finished requests of its namespace.
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
                allowed: "\"cold\" and \"online\"",
            }),
        }
    }
}

/// How requests are replayed.
#[derive(Clone, Debug, PartialEq)]
pub struct ReplayConfig {
    /// How trees are chosen.
    pub draft: DraftConfig,
    /// Most draft nodes of a step, 0 to 1024. Default 16.
    pub max_nodes: usize,
    /// Price of a node in accepted tokens, 0 to 1: less likely ones are not drafted. Default 0.
    pub min_value: f32,
    /// Time of a forward of 1, 2 ... rows, in any unit: each step sends only as many nodes as
    /// promise the most tokens per time. Empty (the default) sends every drafted node.
    pub costs: Vec<f64>,
    /// What requests know of each other.
    pub memory: MemoryMode,
    /// Bounds of the memory they share.
    pub bounds: MemoryConfig,
    /// Whether the model's likeliest tokens, where a request has them, are drafted from.
    /// Default true.
    pub recycle: bool,
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
        if !(0.0..=1.0).contains(&self.min_value) {
            return Err(TrieError::NotAProbability {
                name: "min_value",
                given: self.min_value.to_string(),
            });
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
        assert_eq!(
            message,
            "memory \"warm\" is unknown: allowed are \"cold\" and \"online\""
        );
    }

    #[test]
    fn settings_out_of_range_are_named() {
        let refused = |config: ReplayConfig| config.validate().unwrap_err().to_string();
        let config = ReplayConfig {
            max_nodes: 5000,
            ..ReplayConfig::default()
        };
        assert_eq!(refused(config), "nodes is 5000: allowed are 0 to 1024");
        let config = ReplayConfig {
            min_value: f32::NAN,
            ..ReplayConfig::default()
        };
        assert_eq!(refused(config), "min_value is NaN: allowed are 0 to 1");
        let config = ReplayConfig {
            costs: vec![1.0, 0.0],
            ..ReplayConfig::default()
        };
        assert_eq!(
            refused(config),
            "a forward of 2 rows costs 0: expected a finite time above 0"
        );
        assert_eq!(ReplayConfig::default().validate(), Ok(()));
    }
}
