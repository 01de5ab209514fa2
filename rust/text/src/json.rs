//! JSON as Python's `json.dumps(value, ensure_ascii=False)` writes it, for templates.

use serde::Serialize;
use serde_json::ser::{Formatter, PrettyFormatter, Serializer};
use std::io;

/// Writes `value`: with `indent` spaces per level, or on one line with `, ` and `: `.
pub(crate) fn to_python_json<T: Serialize>(
    value: &T,
    indent: Option<usize>,
) -> Result<String, serde_json::Error> {
    let mut out = Vec::new();
    if let Some(width) = indent {
        let spaces = b" ".repeat(width);
        let formatter = PrettyFormatter::with_indent(&spaces);
        value.serialize(&mut Serializer::with_formatter(&mut out, formatter))?;
    } else {
        value.serialize(&mut Serializer::with_formatter(&mut out, OneLine))?;
    }
    Ok(String::from_utf8_lossy(&out).into_owned())
}

struct OneLine;

impl Formatter for OneLine {
    fn begin_array_value<W: ?Sized + io::Write>(
        &mut self,
        writer: &mut W,
        first: bool,
    ) -> io::Result<()> {
        separate(writer, first)
    }

    fn begin_object_key<W: ?Sized + io::Write>(
        &mut self,
        writer: &mut W,
        first: bool,
    ) -> io::Result<()> {
        separate(writer, first)
    }

    fn begin_object_value<W: ?Sized + io::Write>(&mut self, writer: &mut W) -> io::Result<()> {
        writer.write_all(b": ")
    }
}

fn separate<W: ?Sized + io::Write>(writer: &mut W, first: bool) -> io::Result<()> {
    writer.write_all(if first { b"" } else { b", " })
}
