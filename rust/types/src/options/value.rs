//! Values of options, as they come from another language.

use std::borrow::Cow;
use std::fmt;
use std::str::FromStr;

use crate::{Recycle, SpeculationMode};

/// The value of any option.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// Not set: the default follows from something else.
    None,
    /// True or false.
    Flag(bool),
    /// A whole number.
    Integer(i128),
    /// Any number.
    Number(f64),
    /// A text, or the name of a choice.
    Text(Cow<'static, str>),
    /// Several values.
    List(Vec<Value>),
}

impl Value {
    /// A text that is known beforehand.
    #[must_use]
    pub const fn text(text: &'static str) -> Self {
        Self::Text(Cow::Borrowed(text))
    }

    /// The number, of a whole one too.
    #[must_use]
    pub fn number(&self) -> Option<f64> {
        match self {
            Self::Integer(integer) => Some(*integer as f64),
            Self::Number(number) => Some(*number),
            _ => None,
        }
    }
}

impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::None => f.write_str("none"),
            Self::Flag(flag) => flag.fmt(f),
            Self::Integer(integer) => integer.fmt(f),
            // A number of 32 bits is shown as it was written: 0.1, not 0.10000000149011612.
            Self::Number(number) if f64::from(*number as f32).total_cmp(number).is_eq() => {
                (*number as f32).fmt(f)
            }
            Self::Number(number) => number.fmt(f),
            Self::Text(text) => write!(f, "{text:?}"),
            Self::List(items) => write!(f, "a list of {}", items.len()),
        }
    }
}

/// A type of a field that an option sets.
pub trait OptionValue: Sized {
    /// Reads a value; `None` when it is of another type.
    fn read(value: &Value) -> Option<Self>;
    /// The value as other languages get it.
    fn write(&self) -> Value;
}

macro_rules! integers {
    ($($integer:ty)+) => { $(
        impl OptionValue for $integer {
            fn read(value: &Value) -> Option<Self> {
                match value {
                    Value::Integer(integer) => Self::try_from(*integer).ok(),
                    _ => None,
                }
            }

            fn write(&self) -> Value {
                Value::Integer(*self as i128)
            }
        }
    )+ };
}

integers!(u32 u64 usize i32);

macro_rules! numbers {
    ($($number:ty)+) => { $(
        impl OptionValue for $number {
            fn read(value: &Value) -> Option<Self> {
                value.number().map(|number| number as Self)
            }

            fn write(&self) -> Value {
                Value::Number(f64::from(*self))
            }
        }
    )+ };
}

numbers!(f32 f64);

impl OptionValue for bool {
    fn read(value: &Value) -> Option<Self> {
        match value {
            Value::Flag(flag) => Some(*flag),
            _ => None,
        }
    }

    fn write(&self) -> Value {
        Value::Flag(*self)
    }
}

impl OptionValue for String {
    fn read(value: &Value) -> Option<Self> {
        match value {
            Value::Text(text) => Some(text.clone().into_owned()),
            _ => None,
        }
    }

    fn write(&self) -> Value {
        Value::Text(self.clone().into())
    }
}

impl<T: OptionValue> OptionValue for Option<T> {
    fn read(value: &Value) -> Option<Self> {
        match value {
            Value::None => Some(None),
            value => T::read(value).map(Some),
        }
    }

    fn write(&self) -> Value {
        self.as_ref().map_or(Value::None, T::write)
    }
}

impl<T: OptionValue> OptionValue for Vec<T> {
    fn read(value: &Value) -> Option<Self> {
        match value {
            Value::List(items) => items.iter().map(T::read).collect(),
            _ => None,
        }
    }

    fn write(&self) -> Value {
        Value::List(self.iter().map(T::write).collect())
    }
}

macro_rules! named {
    ($($choice:ty)+) => { $(
        impl OptionValue for $choice {
            fn read(value: &Value) -> Option<Self> {
                match value {
                    Value::Text(name) => Self::from_str(name).ok(),
                    _ => None,
                }
            }

            fn write(&self) -> Value {
                Value::text(self.name())
            }
        }
    )+ };
}

named!(SpeculationMode Recycle);
