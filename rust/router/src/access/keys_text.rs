//! Reading a keys file: TOML, or lines of a key and its tenant.
//!
//! No error repeats what stands in the file, because it may be a key.

use std::collections::HashMap;

use sha2::{Digest as _, Sha256};
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::key_entry::KeyEntry;
use super::key_fields::{Fault, Fields};

/// What begins an entry of the TOML form.
const TABLE: &str = "[[keys]]";

/// Reads every entry of a file's text.
///
/// # Errors
/// Names the line at fault and why.
pub(super) fn parse(text: &str) -> Result<Vec<KeyEntry>, String> {
    let is_toml = text.lines().any(|line| line.trim().starts_with(TABLE));
    let entries = if is_toml {
        parse_toml(text)?
    } else {
        parse_lines(text)?
    };
    if entries.is_empty() {
        return Err(format!(
            "it holds no keys: add a {TABLE} table or a line KEY TENANT"
        ));
    }
    Ok(entries)
}

/// Reads lines `KEY TENANT`; empty lines and lines that begin with `#` are skipped.
fn parse_lines(text: &str) -> Result<Vec<KeyEntry>, String> {
    let mut entries = Vec::new();
    let mut lines = HashMap::new();
    for (line, content) in (1..).zip(text.lines()) {
        let content = content.trim();
        if content.is_empty() || content.starts_with('#') {
            continue;
        }
        let mut words = content.split_whitespace();
        let (Some(key), Some(tenant), None) = (words.next(), words.next(), words.next()) else {
            let words = content.split_whitespace().count();
            return Err(format!(
                "line {line} has {words} words; allowed: 2: KEY TENANT"
            ));
        };
        check_tenant(tenant).map_err(|reason| format!("line {line}: {reason}"))?;
        let digest: [u8; 32] = Sha256::digest(key.as_bytes()).into();
        if let Some(first) = lines.insert(digest, line) {
            return Err(same_key(line, first));
        }
        entries.push(KeyEntry {
            digest,
            tenant: tenant.to_owned(),
            ..KeyEntry::default()
        });
    }
    Ok(entries)
}

fn parse_toml(text: &str) -> Result<Vec<KeyEntry>, String> {
    let line_of = |at: usize| 1 + text.bytes().take(at).filter(|byte| *byte == b'\n').count();
    let document = DeTable::parse(text).map_err(|error| {
        let line = line_of(error.span().map_or(0, |span| span.start));
        format!("line {line}: it is not TOML: {}", error.message())
    })?;
    let mut entries = Vec::new();
    let mut lines = HashMap::new();
    for (name, value) in document.get_ref() {
        let line = line_of(name.span().start);
        let DeValue::Array(tables) = value.get_ref() else {
            return Err(format!("line {line}: unknown entry; allowed: {TABLE}"));
        };
        if name.get_ref() != "keys" {
            return Err(format!("line {line}: unknown entry; allowed: {TABLE}"));
        }
        for table in tables {
            let line = line_of(table.span().start);
            let entry = entry(table).map_err(|fault| {
                let line = fault.at.map_or(line, line_of);
                format!("line {line}: {}", fault.reason)
            })?;
            if let Some(first) = lines.insert(entry.digest, line) {
                return Err(same_key(line, first));
            }
            entries.push(entry);
        }
    }
    Ok(entries)
}

fn same_key(line: usize, first: usize) -> String {
    format!("line {line}: the same key as on line {first}")
}

fn entry(table: &Spanned<DeValue<'_>>) -> Result<KeyEntry, Fault> {
    let mut fields = Fields::new(table)?;
    let tenant = fields.text("tenant")?;
    let tenant = fields.required("tenant", tenant)?;
    check_tenant(&tenant).map_err(|reason| fields.fault("tenant", reason))?;
    let digest = fields.digest("sha256")?;
    let entry = KeyEntry {
        digest: fields.required("sha256", digest)?,
        tenant,
        expires: fields.moment("expires")?,
        models: fields.texts("models")?,
        max_priority: fields.number("max_priority", i32::MIN)?,
        requests_per_minute: fields.number("requests_per_minute", 1)?,
        tokens_per_minute: fields.number("tokens_per_minute", 1)?,
        requests_at_once: fields.number("requests_at_once", 1)?,
    };
    fields.end()?;
    Ok(entry)
}

fn check_tenant(tenant: &str) -> Result<(), String> {
    if tenant.contains('/') {
        // It divides tenant and namespace: `a/b` would be another tenant's namespace.
        return Err("the tenant contains /, which is not allowed".into());
    }
    if tenant.is_empty() || tenant.contains(|one: char| one.is_whitespace() || one.is_control()) {
        return Err("the tenant is empty or contains blanks, which is not allowed".into());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    const DIGEST: &str = "2bb80d537b1da3e38bd30361aa855686bde0eacd7162fef6a25fe97bf527a25b";

    #[test]
    fn lines_and_tables_say_the_same_of_a_key() {
        let lines = parse("# keys\nsecret ann\n\nother bob\n").unwrap();
        let tables = parse(&format!(
            "[[keys]]\nsha256 = \"{DIGEST}\"\ntenant = \"ann\"\n"
        ))
        .unwrap();
        assert_eq!(lines[..1], tables);
        assert_eq!(lines[1].tenant, "bob");
    }

    #[test]
    fn every_field_of_a_table_is_read() {
        let text = format!(
            "[[keys]]\nsha256 = \"{DIGEST}\"\ntenant = \"ann\"\nexpires = 2027-01-31T12:00:00+01:00\n\
             models = [\"small\", \"large\"]\nmax_priority = -3\nrequests_per_minute = 60\n\
             tokens_per_minute = 100_000\nrequests_at_once = 0x10\n"
        );
        let entry = parse(&text).unwrap().remove(0);
        let expected = KeyEntry {
            digest: Sha256::digest("secret").into(),
            tenant: "ann".into(),
            expires: Some(1_801_393_200),
            models: Some(vec!["small".into(), "large".into()]),
            max_priority: Some(-3),
            requests_per_minute: Some(60),
            tokens_per_minute: Some(100_000),
            requests_at_once: Some(16),
        };
        assert_eq!(entry, expected);
        let json = serde_json::to_value(&entry).unwrap();
        assert_eq!(json["sha256"], "2bb80d537b1d");
    }

    #[test]
    fn faults_are_named_with_their_line_and_never_with_what_stands_there() {
        let table =
            |rest: &str| format!("[[keys]]\ntenant = \"ann\"\nsha256 = \"{DIGEST}\"\n{rest}\n");
        let cases = [
            (
                "good ann\nsecret\n".to_owned(),
                "line 2 has 1 words; allowed: 2: KEY TENANT",
            ),
            ("secret a/b".into(), "line 1: the tenant contains /"),
            (
                "secret ann\nother bob\n\nsecret eve\n".into(),
                "line 4: the same key as on line 1",
            ),
            ("# none\n".into(), "it holds no keys"),
            (
                "[[keys]]\ntenant = \"ann\"\n".into(),
                "line 1: sha256: required",
            ),
            (
                "[[keys]]\nsha256 = \"secret\"\ntenant = \"a\"".into(),
                "line 2: sha256: allowed: 64",
            ),
            (
                table("key = \"secret\""),
                "line 4: unknown field; allowed: sha256, tenant",
            ),
            (table("secret"), "line 4: it is not TOML"),
            (
                table("requests_per_minute = \"secret\""),
                "line 4: requests_per_minute: allowed: a whole",
            ),
            (
                table("requests_per_minute = 0"),
                "line 4: requests_per_minute: allowed: a whole number from 1",
            ),
            (
                table("requests_at_once = 5000000000"),
                "line 4: requests_at_once",
            ),
            (
                table("max_priority = 1.5"),
                "line 4: max_priority: allowed: a whole",
            ),
            (
                table("models = []"),
                "line 4: models: allowed: a list of at least one name",
            ),
            (table("models = [1]"), "line 4: models"),
            (
                table("expires = \"secret\""),
                "line 4: expires: allowed: a date",
            ),
            (
                table("expires = 12:00:00"),
                "line 4: expires: allowed: a date",
            ),
            (table(&table("")), "line 4: the same key as on line 1"),
            (
                table("\n[limits]\nkey = \"secret\""),
                "line 5: unknown entry; allowed: [[keys]]",
            ),
        ];
        for (text, expected) in cases {
            let message = parse(&text).unwrap_err();
            assert!(message.starts_with(expected), "{text}\n{message}");
            assert!(!message.contains("secret"), "{message}");
        }
    }
}
