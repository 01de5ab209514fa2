//! `docs/options.md`.

use std::fmt::Write as _;

use spectrie_types::options::{Group, Kind, OptionRow, REQUEST, SamplingParameters, Value, tables};

use crate::text::capital;

const HEAD: &str = "\
# Options

<!-- Generated from rust/types/src/options by `make generate`: do not edit. -->

A flag wins over its environment variable, that over the `--config` file, that over the default.
`--max-context` is the variable `SPECTRIE_MAX_CONTEXT` and the key `max_context` of the TOML file.
Sizes take a unit (`512MiB`, `4G`, `1GB`), times too (`500ms`, `10s`, `2m`). `auto` stands for a
default in words.

`LLM` in the last column: `spectrie.LLM` takes the option as a keyword, under this name.
";

const REQUESTS: &str = "
## Requests

gRPC and HTTP take these for each request ([docs/http-api.md](http-api.md), `proto/`). `Client`,
`AsyncClient` and `LLM` take them as keywords, `max_draft_tokens` inside `speculation`. The last column
names the flag of `spectrie generate`.

| option | values | default | meaning | flag |
|---|---|---|---|---|
";

/// The page.
pub(crate) fn page() -> String {
    let mut text = HEAD.to_owned();
    let mut rows: Vec<&OptionRow> = tables().into_iter().flat_map(|(_, rows)| rows).collect();
    rows.sort_by_key(|row| row.group);
    let mut group = None;
    for row in rows.into_iter().filter(|row| row.key.is_some()) {
        if group != Some(row.group) {
            group = Some(row.group);
            push_heading(&mut text, row.group);
        }
        push_row(&mut text, row);
    }
    text.push_str(REQUESTS);
    for row in SamplingParameters::rows().iter().chain(REQUEST) {
        let _ = writeln!(
            text,
            "| `{}` | {} | {} | {} | {} |",
            row.field,
            values(row),
            default(row),
            meaning(row),
            flag(row)
        );
    }
    text
}

fn push_heading(text: &mut String, group: Group) {
    let _ = writeln!(
        text,
        "\n## {}\n\n| flag | values | default | commands | meaning | `LLM` |\n|---|---|---|---|---|---|",
        group.title()
    );
}

fn push_row(text: &mut String, row: &OptionRow) {
    let key = row.key.unwrap_or_default();
    let keyword = if row.is_keyword {
        format!("`{}`", row.field)
    } else {
        String::new()
    };
    let _ = writeln!(
        text,
        "| `--{}` | {} | {} | {} | {} | {keyword} |",
        key.replace('_', "-"),
        values(row),
        default(row),
        row.commands.join(", "),
        meaning(row)
    );
}

/// Its flag of `spectrie generate`, if there is one.
fn flag(row: &OptionRow) -> String {
    let is_flag = row.commands.contains(&"generate");
    let key = row.key.filter(|_| is_flag);
    key.map_or_else(String::new, |key| format!("`--{}`", key.replace('_', "-")))
}

fn values(row: &OptionRow) -> String {
    match row.flag_kind {
        Kind::Integer(range) | Kind::Number(range) => format!("{} {}", range.text(), row.unit)
            .trim_end()
            .to_owned(),
        Kind::Duration(_) => "time".into(),
        Kind::Size => "size".into(),
        Kind::Choice(names) => {
            let names: Vec<_> = names.iter().map(|name| format!("`{name}`")).collect();
            names.join(", ")
        }
        Kind::Flag => "flag".into(),
        Kind::Address { unix, off } => {
            let forms = [("`HOST:PORT`", true), ("`unix:PATH`", unix), ("`off`", off)];
            let allowed = forms.into_iter().filter(|(_, is_allowed)| *is_allowed);
            let allowed: Vec<_> = allowed.map(|(form, _)| form).collect();
            allowed.join(", ")
        }
        Kind::Text(name) => format!("`{name}`"),
        Kind::Texts(name) => format!("`{name}`, repeatable"),
        Kind::TokenIds => "token ids".into(),
    }
}

fn default(row: &OptionRow) -> String {
    match ((row.default)(), row.shown) {
        (Value::Text(text), None) => format!("`{text}`"),
        _ => row.default_text(),
    }
}

fn meaning(row: &OptionRow) -> String {
    capital(&row.paragraphs().join(" ")).replace('|', "\\|")
}
