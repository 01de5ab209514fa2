//! How draft trees are grown.

use std::fmt;
use std::str::FromStr;

use crate::UnknownName;

/// How draft trees are grown; the numbers are those of `SpeculationMode` in
/// `proto/spectrie/v1/inference.proto`, where 0 leaves it to the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum SpeculationMode {
    /// Calibrated scores, and as many nodes as the measured cost of a step justifies.
    Auto = 1,
    /// No drafts.
    Off = 2,
    /// Fixed breadth-first trees in recency order.
    Bfs = 3,
    /// Fixed trees by observed frequency.
    Prob = 4,
    /// Calibrated scores, and 0, 1, 3 or 7 nodes of each request by how many were accepted lately:
    /// what others do, to compare with.
    Tiers = 5,
}

impl SpeculationMode {
    /// Every mode, in the order of the numbers.
    pub const ALL: [Self; 5] = [Self::Auto, Self::Off, Self::Bfs, Self::Prob, Self::Tiers];

    /// Every name, in the same order.
    pub const NAMES: [&'static str; 5] = {
        let mut names = [""; 5];
        let mut index = 0;
        while index < names.len() {
            names[index] = Self::ALL[index].name();
            index += 1;
        }
        names
    };

    /// The name used in options and JSON.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Auto => "auto",
            Self::Off => "off",
            Self::Bfs => "bfs",
            Self::Prob => "prob",
            Self::Tiers => "tiers",
        }
    }

    /// The number on the wire.
    #[must_use]
    pub const fn number(self) -> u8 {
        self as u8
    }
}

impl fmt::Display for SpeculationMode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for SpeculationMode {
    type Err = UnknownName;

    fn from_str(name: &str) -> Result<Self, UnknownName> {
        let mut all = Self::ALL.into_iter();
        all.find(|mode| mode.name() == name)
            .ok_or_else(|| UnknownName::new("speculation", name, Self::NAMES))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_and_names_map_both_ways() {
        for (index, mode) in SpeculationMode::ALL.into_iter().enumerate() {
            assert_eq!(usize::from(mode.number()), index + 1);
            assert_eq!(mode.name().parse(), Ok(mode));
        }
        let error = "fast".parse::<SpeculationMode>().unwrap_err();
        assert_eq!(
            error.to_string(),
            "speculation is \"fast\"; allowed: auto, off, bfs, prob, tiers"
        );
    }
}
