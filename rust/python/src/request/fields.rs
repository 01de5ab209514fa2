//! Reading Python values option by option; what is wrong is gathered.

use pyo3::prelude::*;
use pyo3::types::{PyBool, PyMapping, PyString};
use spectrie_request::Violation;

/// Longest value that is shown in a message, in characters.
const SHOWN_CHARS: usize = 80;

/// Reads options. One that is absent or None has no value; one of a wrong type is refused.
pub(super) struct Fields<'a, 'py> {
    options: &'a Bound<'py, PyMapping>,
    pub(super) violations: Vec<Violation>,
}

impl<'a, 'py> Fields<'a, 'py> {
    pub(super) fn new(options: &'a Bound<'py, PyMapping>) -> Self {
        Self {
            options,
            violations: Vec::new(),
        }
    }

    pub(super) fn get(&self, name: &str) -> Option<Bound<'py, PyAny>> {
        let value = self.options.get_item(name).ok()?;
        (!value.is_none()).then_some(value)
    }

    pub(super) fn refuse(&mut self, field: &str, given: &Bound<'py, PyAny>, allowed: &str) {
        let message = format!("given {}; allowed: {allowed}", shown(given));
        self.violations.push(Violation::new(field, message));
    }

    pub(super) fn number(&mut self, name: &str) -> Option<f64> {
        let value = self.get(name)?;
        let number = (!value.is_instance_of::<PyBool>())
            .then(|| value.extract().ok())
            .flatten();
        if number.is_none() {
            self.refuse(name, &value, "a number");
        }
        number
    }

    pub(super) fn integer<T: Integer>(&mut self, name: &str) -> Option<T> {
        let value = self.get(name)?;
        self.integer_of(name, &value)
    }

    pub(super) fn integer_of<T: Integer>(
        &mut self,
        field: &str,
        value: &Bound<'py, PyAny>,
    ) -> Option<T> {
        let integer = (!value.is_instance_of::<PyBool>())
            .then(|| value.extract::<i128>().ok())
            .flatten();
        let integer = integer.and_then(|integer| T::try_from(integer).ok());
        if integer.is_none() {
            self.refuse(field, value, &format!("a whole number {}", T::RANGE));
        }
        integer
    }

    pub(super) fn flag(&mut self, name: &str) -> Option<bool> {
        let value = self.get(name)?;
        let flag = value.extract().ok();
        if flag.is_none() {
            self.refuse(name, &value, "True or False");
        }
        flag
    }

    pub(super) fn text(&mut self, name: &str) -> Option<String> {
        let value = self.get(name)?;
        self.text_of(name, &value)
    }

    pub(super) fn text_of(&mut self, field: &str, value: &Bound<'py, PyAny>) -> Option<String> {
        let text = value.extract().ok();
        if text.is_none() {
            self.refuse(field, value, "text");
        }
        text
    }

    /// A text, or several.
    pub(super) fn texts(&mut self, name: &str) -> Vec<String> {
        match self.get(name) {
            None => Vec::new(),
            Some(value) if value.is_instance_of::<PyString>() => {
                self.text_of(name, &value).into_iter().collect()
            }
            Some(value) => self.list(name, &value, "a text or a list of texts", Self::text_of),
        }
    }

    pub(super) fn ids(&mut self, name: &str, value: &Bound<'py, PyAny>) -> Vec<u32> {
        self.list(name, value, "a list of token ids", Self::integer_of)
    }

    /// The items of a list, up to the first that `read` refuses.
    fn list<T>(
        &mut self,
        name: &str,
        value: &Bound<'py, PyAny>,
        allowed: &str,
        mut read: impl FnMut(&mut Self, &str, &Bound<'py, PyAny>) -> Option<T>,
    ) -> Vec<T> {
        let items = if value.is_instance_of::<PyString>() {
            None
        } else {
            value.try_iter().ok()
        };
        let Some(items) = items else {
            self.refuse(name, value, allowed);
            return Vec::new();
        };
        let mut values = Vec::new();
        for (index, item) in items.enumerate() {
            let Ok(item) = item else {
                self.refuse(name, value, allowed);
                return Vec::new();
            };
            let known = self.violations.len();
            let Some(item) = read(self, name, &item) else {
                for violation in &mut self.violations[known..] {
                    violation.field = format!("{name}[{index}]");
                }
                return Vec::new();
            };
            values.push(item);
        }
        values
    }
}

/// Whole numbers of a field, with what is allowed.
pub(super) trait Integer: TryFrom<i128> {
    const RANGE: &'static str;
}

impl Integer for u32 {
    const RANGE: &'static str = "from 0 to 4294967295";
}

/// A whole number of 31 bits.
pub(super) struct Count(pub(super) u32);

impl TryFrom<i128> for Count {
    type Error = std::num::TryFromIntError;

    fn try_from(integer: i128) -> Result<Self, Self::Error> {
        let integer = i32::try_from(integer)?;
        Ok(Self(u32::try_from(integer)?))
    }
}

impl Integer for Count {
    const RANGE: &'static str = "from 0 to 2147483647";
}

impl Integer for i32 {
    const RANGE: &'static str = "from -2147483648 to 2147483647";
}

impl Integer for u64 {
    const RANGE: &'static str = "from 0 to 18446744073709551615";
}

/// A value as it would be written, cut where it is long.
fn shown(value: &Bound<'_, PyAny>) -> String {
    let shown = value.repr().map(|text| text.to_string());
    let shown = shown.unwrap_or_else(|_| "a value that cannot be shown".into());
    if shown.chars().count() <= SHOWN_CHARS {
        return shown;
    }
    let beginning: String = shown.chars().take(SHOWN_CHARS - 3).collect();
    format!("{beginning}...")
}
