//! The fields of one table of a keys file, taken out one by one.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;

use toml::Spanned;
use toml::de::{DeTable, DeValue};
use toml::value::{Datetime, Offset};

/// Every field, in the order that an error names them in.
const NAMES: &str = "sha256, tenant, expires, models, max_priority, requests_per_minute, \
    tokens_per_minute, requests_at_once";

/// What is wrong, and where, as an offset in the text.
#[derive(Debug)]
pub(super) struct Fault {
    pub(super) at: Option<usize>,
    pub(super) reason: String,
}

/// A table whose fields are taken out as they are read.
#[derive(Debug)]
pub(super) struct Fields<'a> {
    left: BTreeMap<&'a str, &'a Spanned<DeValue<'a>>>,
    table: &'a DeTable<'a>,
}

impl<'a> Fields<'a> {
    pub(super) fn new(value: &'a Spanned<DeValue<'a>>) -> Result<Self, Fault> {
        let DeValue::Table(table) = value.get_ref() else {
            let reason = "allowed: a table".into();
            let at = Some(value.span().start);
            return Err(Fault { at, reason });
        };
        let fields = table.iter();
        let left = fields.map(|(name, value)| (name.get_ref().as_ref(), value));
        Ok(Self {
            left: left.collect(),
            table,
        })
    }

    /// A fault of a field, at its place if it is there.
    pub(super) fn fault(&self, name: &str, reason: impl AsRef<str>) -> Fault {
        let at = self.table.get(name).map(|value| value.span().start);
        let reason = format!("{name}: {}", reason.as_ref());
        Fault { at, reason }
    }

    pub(super) fn required<T>(&self, name: &str, value: Option<T>) -> Result<T, Fault> {
        value.ok_or_else(|| self.fault(name, "required"))
    }

    /// Reads a field by `read`, which gives nothing for what is not `allowed`.
    fn field<T>(
        &mut self,
        name: &str,
        allowed: &str,
        read: impl FnOnce(&DeValue<'a>) -> Option<T>,
    ) -> Result<Option<T>, Fault> {
        let Some(value) = self.left.remove(name) else {
            return Ok(None);
        };
        let read = read(value.get_ref());
        let wrong = || self.fault(name, format!("allowed: {allowed}"));
        read.ok_or_else(wrong).map(Some)
    }

    pub(super) fn text(&mut self, name: &str) -> Result<Option<String>, Fault> {
        self.field(name, "a string", |value| value.as_str().map(Into::into))
    }

    /// A list of names, none of them empty.
    pub(super) fn texts(&mut self, name: &str) -> Result<Option<Vec<String>>, Fault> {
        self.field(name, "a list of at least one name", |value| {
            let items = value.as_array()?.iter();
            let names = items.map(|item| item.get_ref().as_str().map(Into::into));
            let names = names.collect::<Option<Vec<String>>>()?;
            let is_good = !names.is_empty() && names.iter().all(|name| !name.is_empty());
            is_good.then_some(names)
        })
    }

    /// A whole number from `least` on.
    pub(super) fn number<T>(&mut self, name: &str, least: T) -> Result<Option<T>, Fault>
    where
        T: TryFrom<i64> + PartialOrd + std::fmt::Display + Copy,
    {
        let allowed = format!("a whole number from {least} on, of 32 bits");
        self.field(name, &allowed, |value| {
            let integer = value.as_integer()?;
            let number = i64::from_str_radix(integer.as_str(), integer.radix()).ok()?;
            let number = T::try_from(number).ok()?;
            (number >= least).then_some(number)
        })
    }

    /// A SHA-256 in hexadecimal digits.
    pub(super) fn digest(&mut self, name: &str) -> Result<Option<[u8; 32]>, Fault> {
        self.field(name, "64 hexadecimal digits", |value| {
            let digits = value.as_str()?;
            let is_hex = digits.bytes().all(|digit| digit.is_ascii_hexdigit());
            if digits.len() != 64 || !is_hex {
                return None;
            }
            let mut digest = [0; 32];
            for (index, byte) in digest.iter_mut().enumerate() {
                let pair = digits.get(2 * index..2 * index + 2)?;
                *byte = u8::from_str_radix(pair, 16).ok()?;
            }
            Some(digest)
        })
    }

    /// A moment, as seconds of Unix time; a date alone is its beginning, and no offset means UTC.
    pub(super) fn moment(&mut self, name: &str) -> Result<Option<i64>, Fault> {
        let allowed = "a date, with or without a time, such as 2027-01-31T00:00:00Z";
        self.field(name, allowed, |value| unix_seconds(value.as_datetime()?))
    }

    /// # Errors
    /// A field that no entry has.
    pub(super) fn end(self) -> Result<(), Fault> {
        let Some((_, value)) = self.left.first_key_value() else {
            return Ok(());
        };
        Err(Fault {
            at: Some(value.span().start),
            reason: format!("unknown field; allowed: {NAMES}"),
        })
    }
}

fn unix_seconds(moment: &Datetime) -> Option<i64> {
    const YEARS: RangeInclusive<u16> = 1970..=9999;
    let date = moment.date.filter(|date| YEARS.contains(&date.year))?;
    // Days since 1970 of a date of the Gregorian calendar, counted in years that begin in March.
    let (year, month, day) = (
        i64::from(date.year),
        i64::from(date.month),
        i64::from(date.day),
    );
    let year = if month <= 2 { year - 1 } else { year };
    let day_of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    let days = 365 * year + year / 4 - year / 100 + year / 400 + day_of_year - 719_468;
    let time = moment.time.map_or(0, |time| {
        let minutes = i64::from(time.hour) * 60 + i64::from(time.minute);
        minutes * 60 + i64::from(time.second.unwrap_or(0))
    });
    let offset = match moment.offset {
        Some(Offset::Custom { minutes }) => i64::from(minutes) * 60,
        Some(Offset::Z) | None => 0,
    };
    Some(days * 86_400 + time - offset)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments_are_counted_from_1970_in_utc() {
        for (text, seconds) in [
            ("1970-01-01", 0),
            ("2000-02-29T00:00:00Z", 951_782_400),
            ("2000-03-01", 951_868_800),
            ("2026-12-31T23:59:59", 1_798_761_599),
            ("2027-01-01T01:30:00+02:30", 1_798_758_000),
        ] {
            let moment: Datetime = text.parse().unwrap();
            assert_eq!(unix_seconds(&moment), Some(seconds), "{text}");
        }
    }
}
