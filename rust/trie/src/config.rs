//! The settings of drafting and of shared memory.

use std::str::FromStr;

use spectrie_types::limits;
use spectrie_types::options::MEMORY_BYTES;
use spectrie_types::sizes::TOP_K;

use crate::TrieError;

/// Maximum length of a matched context, in tokens.
pub const MAX_MATCH: usize = limits::MAX_MATCH;

/// Maximum depth of a tree, in draft tokens: an ancestor word has 64 bits, one for the root.
pub const MAX_DEPTH: usize = limits::MAX_DRAFT_TOKENS;

/// Strategy that selects the nodes of a tree.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum DraftMode {
    /// Best-first by calibrated path probability, all match lengths blended. The default.
    #[default]
    Auto,
    /// Longest match first, newest continuation first, breadth by match length.
    Bfs,
    /// Longest match first, then the likeliest path by plain counts.
    Prob,
    /// EAGLE-2's tree of a drafter's answers alone: the paths with the largest products of probabilities.
    Eagle2,
    /// The likeliest token of each of a drafter's answers, one behind the other.
    Chain,
}

impl FromStr for DraftMode {
    type Err = TrieError;

    fn from_str(name: &str) -> Result<Self, TrieError> {
        match name {
            "auto" => Ok(Self::Auto),
            "bfs" => Ok(Self::Bfs),
            "prob" => Ok(Self::Prob),
            _ => Err(TrieError::UnknownMode {
                given: name.to_owned(),
            }),
        }
    }
}

/// Settings of the drafts of one request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DraftConfig {
    /// Strategy that selects the nodes. Default [`DraftMode::Auto`].
    pub mode: DraftMode,
    /// Maximum path length in draft tokens, 1 to [`MAX_DEPTH`]. Default 18.
    pub max_depth: usize,
    /// Minimum length of a match in the fixed modes, in tokens. Default 1.
    pub min_match: usize,
    /// Maximum length of a match in the fixed modes, in tokens, up to [`MAX_MATCH`]. Default 16.
    pub max_match: usize,
    /// Minimum number of children of a node in `bfs`, used at the longest match. Default 1.
    pub min_breadth: usize,
    /// Maximum number of children of a node in the fixed modes. Default 10.
    pub max_breadth: usize,
    /// Also drafts from sparse context in `auto`: recently used tokens, and tokens that followed
    /// across a changed one. Default true.
    pub hints: bool,
    /// Levels that a drafter of the runner's is asked in `eagle2` and `chain`. Default 5.
    pub head_steps: usize,
    /// Nodes of a level that it is asked about, and tokens taken of each answer, in `eagle2`; up to
    /// [`TOP_K`]. Default 8.
    pub head_top_k: usize,
}

impl Default for DraftConfig {
    fn default() -> Self {
        Self {
            mode: DraftMode::Auto,
            max_depth: 18,
            min_match: 1,
            max_match: 16,
            min_breadth: 1,
            max_breadth: 10,
            hints: true,
            head_steps: 5,
            head_top_k: TOP_K,
        }
    }
}

impl DraftConfig {
    /// Checks every setting.
    ///
    /// # Errors
    ///
    /// [`TrieError::OutOfRange`] or [`TrieError::Inverted`], naming the setting.
    pub fn validate(&self) -> Result<(), TrieError> {
        let ranges = [
            ("max_depth", self.max_depth, MAX_DEPTH),
            ("min_match", self.min_match, MAX_MATCH),
            ("max_match", self.max_match, MAX_MATCH),
            ("min_breadth", self.min_breadth, MAX_DEPTH),
            ("max_breadth", self.max_breadth, MAX_DEPTH),
            ("head_steps", self.head_steps, MAX_DEPTH),
            ("head_top_k", self.head_top_k, TOP_K),
        ];
        for (name, given, max) in ranges {
            if !(1..=max).contains(&given) {
                return Err(TrieError::OutOfRange {
                    name,
                    given,
                    min: 1,
                    max,
                });
            }
        }
        let pairs = [
            ("min_match", self.min_match, "max_match", self.max_match),
            (
                "min_breadth",
                self.min_breadth,
                "max_breadth",
                self.max_breadth,
            ),
        ];
        for (low_name, low, high_name, high) in pairs {
            if low > high {
                return Err(TrieError::Inverted {
                    low_name,
                    low,
                    high_name,
                    high,
                });
            }
        }
        Ok(())
    }

    /// The same settings with every value moved into its range.
    pub(crate) fn clamped(self) -> Self {
        let max_match = self.max_match.clamp(1, MAX_MATCH);
        let max_breadth = self.max_breadth.clamp(1, MAX_DEPTH);
        Self {
            mode: self.mode,
            max_depth: self.max_depth.clamp(1, MAX_DEPTH),
            min_match: self.min_match.clamp(1, max_match),
            max_match,
            min_breadth: self.min_breadth.clamp(1, max_breadth),
            max_breadth,
            hints: self.hints,
            head_steps: self.head_steps.clamp(1, MAX_DEPTH),
            head_top_k: self.head_top_k.clamp(1, TOP_K),
        }
    }

    /// Nodes of a level that a drafter of the runner's is asked about in a mode that drafts from it alone; `None`
    /// in others.
    pub(crate) fn beams(&self) -> Option<usize> {
        match self.mode {
            DraftMode::Eagle2 => Some(self.head_top_k),
            DraftMode::Chain => Some(1),
            DraftMode::Auto | DraftMode::Bfs | DraftMode::Prob => None,
        }
    }
}

/// The bounds of shared memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemoryConfig {
    /// Total bytes of the arenas of all namespaces: 0 to keep no text, or at least
    /// [`MemoryConfig::MIN_CAPACITY_BYTES`]. Default 256 MiB.
    pub capacity_bytes: usize,
    /// Maximum number of namespaces; a new one replaces the one idle longest. Default 1024.
    pub max_namespaces: usize,
}

impl MemoryConfig {
    /// Smallest capacity above zero.
    pub const MIN_CAPACITY_BYTES: usize = 64 << 10;

    /// Checks both bounds.
    ///
    /// # Errors
    ///
    /// [`TrieError::OutOfRange`], naming the setting.
    pub fn validate(&self) -> Result<(), TrieError> {
        if self.capacity_bytes != 0 && self.capacity_bytes < Self::MIN_CAPACITY_BYTES {
            return Err(TrieError::OutOfRange {
                name: "capacity_bytes",
                given: self.capacity_bytes,
                min: Self::MIN_CAPACITY_BYTES,
                max: usize::MAX,
            });
        }
        if self.max_namespaces == 0 {
            return Err(TrieError::OutOfRange {
                name: "max_namespaces",
                given: 0,
                min: 1,
                max: usize::MAX,
            });
        }
        Ok(())
    }
}

impl Default for MemoryConfig {
    fn default() -> Self {
        Self {
            capacity_bytes: MEMORY_BYTES,
            max_namespaces: 1024,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn modes_parse_by_name_and_unknown_names_are_quoted() {
        assert_eq!("auto".parse(), Ok(DraftMode::Auto));
        assert_eq!("bfs".parse(), Ok(DraftMode::Bfs));
        assert_eq!("prob".parse(), Ok(DraftMode::Prob));
        let error = "greedy".parse::<DraftMode>().unwrap_err();
        assert_eq!(
            error.to_string(),
            "mode is \"greedy\"; allowed: auto, bfs, prob"
        );
    }

    #[test]
    fn defaults_are_valid() {
        assert_eq!(DraftConfig::default().validate(), Ok(()));
        assert_eq!(MemoryConfig::default().validate(), Ok(()));
    }

    #[test]
    fn settings_out_of_range_are_named_with_their_bounds() {
        let config = DraftConfig {
            max_depth: 64,
            ..DraftConfig::default()
        };
        let message = config.validate().unwrap_err().to_string();
        assert_eq!(message, "max_depth is 64; allowed: 1 to 63");
        let config = DraftConfig {
            min_match: 9,
            max_match: 4,
            ..DraftConfig::default()
        };
        let message = config.validate().unwrap_err().to_string();
        assert_eq!(
            message,
            "min_match is 9; allowed: at most max_match, which is 4"
        );
        let config = MemoryConfig {
            capacity_bytes: 10,
            ..MemoryConfig::default()
        };
        assert!(
            config
                .validate()
                .unwrap_err()
                .to_string()
                .starts_with("capacity_bytes is 10")
        );
        let config = MemoryConfig {
            max_namespaces: 0,
            ..MemoryConfig::default()
        };
        assert!(config.validate().is_err());
    }

    #[test]
    fn clamped_settings_are_valid() {
        let config = DraftConfig {
            mode: DraftMode::Bfs,
            max_depth: 0,
            min_match: 99,
            max_match: 0,
            min_breadth: 99,
            max_breadth: 2,
            hints: false,
            head_steps: 0,
            head_top_k: 99,
        };
        assert_eq!(config.clamped().validate(), Ok(()));
    }
}
