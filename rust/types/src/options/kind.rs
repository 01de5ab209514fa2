//! Kinds of option values: what is allowed, and how that is said.

use super::Value;

/// A range of numbers.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Range {
    /// The least number.
    pub low: f64,
    /// Whether `low` itself is not allowed.
    pub is_open: bool,
    /// The greatest number; infinite when there is none.
    pub high: f64,
}

impl Range {
    /// From `low` to `high`, both allowed.
    #[must_use]
    pub const fn new(low: f64, high: f64) -> Self {
        Self {
            low,
            is_open: false,
            high,
        }
    }

    /// Above `low`, up to `high`.
    #[must_use]
    pub const fn above(low: f64, high: f64) -> Self {
        Self {
            low,
            is_open: true,
            high,
        }
    }

    /// Whether a number is in it; infinite ones and NaN never are.
    #[must_use]
    pub fn holds(&self, number: f64) -> bool {
        let is_above = number > self.low || (!self.is_open && number >= self.low);
        number.is_finite() && is_above && number <= self.high
    }

    /// In words, such as `0 to 100`, `above 0, up to 1` or `1 or more`.
    #[must_use]
    pub fn text(&self) -> String {
        /// A bound beyond this is that of the type and never reached.
        const FAR: f64 = (1_u64 << 53) as f64;
        let Self { low, is_open, high } = *self;
        match (is_open, high < FAR) {
            (true, true) => format!("above {low}, up to {high}"),
            (true, false) => format!("above {low}"),
            (false, true) => format!("{low} to {high}"),
            (false, false) => format!("{low} or more"),
        }
    }
}

/// What values an option takes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Kind {
    /// A whole number.
    Integer(Range),
    /// A number.
    Number(Range),
    /// A time in seconds, written with a unit at the command line.
    Duration(Range),
    /// A number of bytes, written with a unit at the command line.
    Size,
    /// One of some names.
    Choice(&'static [&'static str]),
    /// True or false.
    Flag,
    /// `HOST:PORT`, and `unix:PATH` or `off` where allowed.
    Address {
        /// Whether a Unix socket is allowed.
        unix: bool,
        /// Whether `off` is allowed.
        off: bool,
    },
    /// A text, shown under this name.
    Text(&'static str),
    /// Several texts, each shown under this name.
    Texts(&'static str),
    /// Several token ids.
    TokenIds,
}

impl Kind {
    /// The range of a number.
    #[must_use]
    pub fn range(&self) -> Option<Range> {
        match self {
            Self::Integer(range) | Self::Number(range) | Self::Duration(range) => Some(*range),
            _ => None,
        }
    }

    /// The name that other languages know it by.
    #[must_use]
    pub fn name(&self) -> &'static str {
        match self {
            Self::Integer(_) => "integer",
            Self::Number(_) => "number",
            Self::Duration(_) => "duration",
            Self::Size => "size",
            Self::Choice(_) => "choice",
            Self::Flag => "flag",
            Self::Address { .. } => "address",
            Self::Text(_) => "text",
            Self::Texts(_) => "texts",
            Self::TokenIds => "token_ids",
        }
    }

    /// What is allowed, in words that end the sentence "allowed: ...".
    #[must_use]
    pub fn allowed(&self) -> String {
        match self {
            Self::Integer(range) => format!("a whole number, {}", range.text()),
            Self::Number(range) => format!("a number, {}", range.text()),
            Self::Duration(range) => format!("seconds, {}", range.text()),
            Self::Size => "a number of bytes".into(),
            Self::Choice(names) => names.join(", "),
            Self::Flag => "true or false".into(),
            Self::Address { .. } => "an address".into(),
            Self::Text(_) => "a text".into(),
            Self::Texts(_) => "a list of texts".into(),
            Self::TokenIds => "a list of token ids".into(),
        }
    }

    /// Whether it takes `value`, of which only type and range are looked at.
    #[must_use]
    pub fn takes(&self, value: &Value) -> bool {
        match (self, value) {
            (Self::Integer(range), Value::Integer(_))
            | (Self::Number(range) | Self::Duration(range), Value::Integer(_) | Value::Number(_)) => {
                value.number().is_some_and(|number| range.holds(number))
            }
            (Self::Size, Value::Integer(bytes)) => *bytes >= 0,
            (Self::Choice(names), Value::Text(name)) => names.contains(&&**name),
            (Self::Flag, Value::Flag(_))
            | (Self::Address { .. } | Self::Text(_), Value::Text(_))
            | (Self::Texts(_) | Self::TokenIds, Value::List(_)) => true,
            _ => false,
        }
    }
}

/// Whole numbers from `low` to `high`, both allowed.
pub(super) const fn integer(low: u32, high: u32) -> Kind {
    Kind::Integer(Range::new(low as f64, high as f64))
}

/// Whole numbers from `low` on.
pub(super) const fn at_least(low: u32) -> Kind {
    Kind::Integer(Range::new(low as f64, f64::INFINITY))
}

/// Numbers from `low` to `high`, both allowed.
pub(super) const fn number(low: f64, high: f64) -> Kind {
    Kind::Number(Range::new(low, high))
}

/// Numbers above `low`, up to `high`.
pub(super) const fn above(low: f64, high: f64) -> Kind {
    Kind::Number(Range::above(low, high))
}

/// Times from 0 seconds on.
pub(super) const DURATION: Kind = Kind::Duration(Range::new(0.0, f64::INFINITY));

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_hold_their_ends_unless_open_and_nothing_infinite() {
        let range = Range::above(0.0, 1.0);
        assert!(range.holds(1.0) && range.holds(1e-9));
        assert!(!range.holds(0.0) && !range.holds(1.5) && !range.holds(f64::NAN));
        assert!(!Range::new(0.0, f64::INFINITY).holds(f64::INFINITY));
        assert_eq!(range.text(), "above 0, up to 1");
        assert_eq!(Range::new(-2.0, 2.0).text(), "-2 to 2");
        assert_eq!(Range::new(1.0, f64::INFINITY).text(), "1 or more");
    }

    #[test]
    fn values_of_another_type_or_out_of_range_are_not_taken() {
        assert!(integer(0, 63).takes(&Value::Integer(63)));
        assert!(!integer(0, 63).takes(&Value::Integer(64)));
        assert!(!integer(0, 63).takes(&Value::Number(1.0)));
        assert!(number(0.0, 1.0).takes(&Value::Integer(1)));
        assert!(!Kind::Flag.takes(&Value::Integer(1)));
        assert!(!Kind::Choice(&["on", "off"]).takes(&Value::text("maybe")));
        assert!(!Kind::Size.takes(&Value::Integer(-1)));
    }
}
