//! Text of a bounded width.

use spectrie_types::options::{Kind, OptionRow, Value};

/// The longest line of a Python file.
const WIDTH: usize = 100;

/// `text` in lines of Python's width: the first one after `first`, the others after `rest`.
pub(crate) fn wrapped(first: &str, rest: &str, text: &str) -> String {
    let mut lines = Vec::new();
    let mut line = first.to_owned();
    let mut is_empty = true;
    for word in text.split_whitespace() {
        if !is_empty && line.chars().count() + 1 + word.chars().count() > WIDTH {
            lines.push(std::mem::replace(&mut line, rest.to_owned()));
            is_empty = true;
        }
        if !is_empty {
            line.push(' ');
        }
        line.push_str(word);
        is_empty = false;
    }
    lines.push(line);
    lines.join("\n")
}

/// What an option does and what is allowed, as one paragraph.
pub(crate) fn described(row: &OptionRow) -> String {
    let mut parts = row.paragraphs();
    if let Some(range) = row.kind.range() {
        let unit = if matches!(row.kind, Kind::Duration(_)) {
            "seconds"
        } else {
            row.unit
        };
        // The greatest number that fits is no limit that anybody meets.
        let text = range.text().replace(&format!("to {}", i32::MAX), "or more");
        parts.push(format!("{} {unit}.", capital(&text)).replace(" .", "."));
    }
    if let Kind::Size = row.kind {
        parts.push("In bytes.".into());
    }
    if let (Value::None, Some(shown)) = ((row.default)(), row.shown) {
        parts.push(format!("None: {shown}."));
    }
    parts.join(" ")
}

/// `text` with a capital first letter, unless it begins with a name such as gRPC.
pub(crate) fn capital(text: &str) -> String {
    if text.chars().nth(1).is_some_and(char::is_uppercase) {
        return text.to_owned();
    }
    let mut characters = text.chars();
    characters.next().map_or_else(String::new, |first| {
        first.to_uppercase().chain(characters).collect()
    })
}
