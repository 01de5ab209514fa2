//! Which rows' likeliest tokens become draft material.

use std::fmt;
use std::str::FromStr;

use crate::UnknownName;

/// Which rows report their likeliest tokens to the drafters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Recycle {
    /// None.
    Off,
    /// Every row that is sampled: decode rows, rejected nodes, the ends of prompts.
    Decode,
    /// Prompt rows as well. That costs the product with the vocabulary for each: 30 % of the
    /// prefill of SmolLM2-135M, for -1 to +4 % of accepted tokens.
    All,
}

impl Recycle {
    /// Every choice, the least first.
    pub const ALL: [Self; 3] = [Self::Off, Self::Decode, Self::All];

    /// Every name, in the same order.
    pub const NAMES: [&'static str; 3] = {
        let mut names = [""; 3];
        let mut index = 0;
        while index < names.len() {
            names[index] = Self::ALL[index].name();
            index += 1;
        }
        names
    };

    /// The name used in options.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Off => "off",
            Self::Decode => "decode",
            Self::All => "all",
        }
    }
}

impl fmt::Display for Recycle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Recycle {
    type Err = UnknownName;

    fn from_str(name: &str) -> Result<Self, UnknownName> {
        let mut all = Self::ALL.into_iter();
        all.find(|choice| choice.name() == name)
            .ok_or_else(|| UnknownName::new("recycle", name, Self::NAMES))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_map_both_ways() {
        for choice in Recycle::ALL {
            assert_eq!(choice.to_string().parse(), Ok(choice));
        }
        let error = "none".parse::<Recycle>().unwrap_err();
        assert_eq!(
            error.to_string(),
            "recycle is \"none\"; allowed: off, decode, all"
        );
    }
}
