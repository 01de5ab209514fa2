//! Options of an engine as Python declares them.

use std::fmt::Write as _;

use spectrie_types::options::{Group, Kind, OptionRow, Value, tables};

use crate::text::{described, wrapped};

const NOTE: &str = "Generated from rust/types/src/options by `make generate`: do not edit.";

/// The tables that an engine in this process is built from, with the names of their fields.
const TABLES: [(&str, &str, &str); 3] = [
    ("model", "MODEL", "Options of how the model is loaded."),
    (
        "engine",
        "ENGINE",
        "Options that the engine takes as they are.",
    ),
    ("host", "HOST", "Options that the engine's host decides by."),
];

/// `python/spectrie/engine/options.py`.
pub(crate) fn engine_options() -> String {
    let mut text = format!(
        "\"\"\"Options of an engine in this process. {NOTE}\"\"\"\n\n\
         from __future__ import annotations\n\n\
         from collections.abc import Iterable\n\
         from dataclasses import dataclass\n\
         from typing import Any, Literal\n\n\
         __all__ = [\"ENGINE\", \"HOST\", \"MODEL\", \"EngineOptions\"]\n\n\n\
         @dataclass(frozen=True, slots=True, kw_only=True)\n\
         class EngineOptions:\n    \
             \"\"\"How a model is loaded, requests are scheduled and drafts are grown.\n\n    \
             Attributes:\n"
    );
    let options = || TABLES.iter().flat_map(|(table, ..)| rows(table));
    for row in options() {
        push_attribute(&mut text, row);
    }
    text.push_str("    \"\"\"\n\n");
    for row in options() {
        let _ = writeln!(
            text,
            "    {}: {} = {}",
            row.field,
            annotation(row),
            literal(&(row.default)())
        );
    }
    text.push_str(
        "\n    def pick(self, names: Iterable[str]) -> dict[str, Any]:\n        \
             \"\"\"The options of these names.\"\"\"\n        \
             return {name: getattr(self, name) for name in names}\n\n\n",
    );
    for (table, name, about) in TABLES {
        let _ = writeln!(text, "{name} = (");
        for row in rows(table) {
            let _ = writeln!(text, "    \"{}\",", row.field);
        }
        let _ = writeln!(text, ")\n\"\"\"{about}\"\"\"");
    }
    text
}

/// `python/spectrie/llm/keywords.py`.
pub(crate) fn keywords() -> String {
    let mut text = format!(
        "\"\"\"Options that `LLM` takes as keywords. {NOTE}\"\"\"\n\n\
         from __future__ import annotations\n\n\
         from collections.abc import Sequence\n\
         from pathlib import Path\n\
         from typing import Literal, TypedDict\n\n\
         __all__ = [\"EngineKeywords\"]\n\n\n\
         class EngineKeywords(TypedDict, total=False):\n    \
             \"\"\"How a model is loaded, requests are scheduled and drafts are grown.\n\n    \
             Attributes:\n"
    );
    let options = || {
        TABLES
            .iter()
            .flat_map(|(table, ..)| rows(table))
            .filter(|row| row.is_keyword)
    };
    for row in options() {
        push_attribute(&mut text, row);
    }
    text.push_str("    \"\"\"\n\n");
    for row in options() {
        let annotation = match row.field {
            "speculation" => format!("{} | bool", annotation(row)),
            // Given at command lines, as text.
            "device" | "dtype" => "str".into(),
            "corpora" => "Sequence[str | Path]".into(),
            "drafter" => "str | Path | Sequence[str | Path]".into(),
            "state_dir" => "str | Path | None".into(),
            _ => annotation(row),
        };
        let _ = writeln!(text, "    {}: {annotation}", row.field);
    }
    text
}

fn push_attribute(text: &mut String, row: &OptionRow) {
    let first = format!("        {}: ", row.field);
    text.push_str(&wrapped(&first, "            ", &described(row)));
    text.push('\n');
}

/// The options of a table, facts about the model left out.
fn rows(table: &str) -> impl Iterator<Item = &'static OptionRow> {
    let found = tables().into_iter().find(|(name, _)| *name == table);
    let rows = found.map_or(&[] as &[OptionRow], |(_, rows)| rows);
    rows.iter().filter(|row| row.group != Group::Fact)
}

fn annotation(row: &OptionRow) -> String {
    let text = match row.kind {
        Kind::Integer(_) | Kind::Size => "int".into(),
        Kind::Number(_) | Kind::Duration(_) => "float".into(),
        Kind::Choice(names) => {
            let names: Vec<_> = names.iter().map(|name| format!("\"{name}\"")).collect();
            format!("Literal[{}]", names.join(", "))
        }
        Kind::Flag => "bool".into(),
        Kind::Address { .. } | Kind::Text(_) => "str".into(),
        Kind::Texts(_) => "tuple[str, ...]".into(),
        Kind::TokenIds => "tuple[int, ...]".into(),
    };
    match (row.default)() {
        Value::None => format!("{text} | None"),
        _ => text,
    }
}

fn literal(value: &Value) -> String {
    match value {
        Value::None => "None".into(),
        Value::Flag(true) => "True".into(),
        Value::Flag(false) => "False".into(),
        Value::Integer(integer) if *integer >= 1 << 20 && integer % (1 << 20) == 0 => {
            format!("{} << 20", integer >> 20)
        }
        Value::Integer(integer) => integer.to_string(),
        Value::Number(number) => format!("{number:?}"),
        Value::Text(text) => format!("\"{text}\""),
        Value::List(_) => "()".into(),
    }
}
