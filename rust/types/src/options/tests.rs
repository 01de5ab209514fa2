//! What holds for every table.

use std::collections::BTreeSet;

use super::*;

fn every_row() -> impl Iterator<Item = &'static OptionRow> {
    let started = tables().into_iter().flat_map(|(_, rows)| rows);
    started.chain(SamplingParameters::rows()).chain(REQUEST)
}

fn config(values: &[(&str, Value)]) -> Result<EngineConfig, Violations> {
    let facts = [
        ("vocabulary_size", Value::Integer(50)),
        ("eos_token_ids", Value::List(vec![Value::Integer(0)])),
        ("num_pages", Value::Integer(8)),
        ("max_context", Value::Integer(64)),
        ("max_running", Value::Integer(4)),
    ];
    let given = facts.into_iter().chain(values.iter().cloned());
    EngineConfig::from_values(given.map(|(name, value)| (name.to_owned(), value)))
}

#[test]
fn every_default_is_allowed_and_every_text_is_a_sentence() {
    for row in every_row() {
        let default = (row.default)();
        assert!(
            row.is_required || default == Value::None || row.flag_kind.takes(&default),
            "{}: {default}",
            row.field
        );
        assert!(row.summary().ends_with('.'), "{}", row.field);
    }
}

#[test]
fn defaults_are_shown_as_a_user_would_write_them() {
    let shown = |field: &str| {
        let row = every_row().find(|row| row.field == field);
        row.unwrap().default_text()
    };
    assert_eq!(shown("memory_bytes"), "256MiB");
    assert_eq!(
        (shown("age_s"), shown("snapshot_every_s")),
        ("10s".into(), "5m".into())
    );
    assert_eq!(
        (shown("max_step_ms"), shown("corpora")),
        ("200".into(), "none".into())
    );
    assert_eq!(shown("threads"), "measured once");
}

#[test]
fn keys_and_fields_are_unique_where_they_apply() {
    for command in ["serve", "router", "worker", "generate", "demo"] {
        let rows = tables().into_iter().flat_map(|(_, rows)| rows);
        let known: Vec<_> = rows
            .filter(|row| row.commands.contains(&command))
            .map(|row| row.key.unwrap())
            .collect();
        assert!(!known.is_empty(), "{command}");
        assert_eq!(
            known.iter().collect::<BTreeSet<_>>().len(),
            known.len(),
            "{command}"
        );
    }
    let options = every_row().filter(|row| !matches!(row.group, Group::Fact | Group::Request));
    let fields: Vec<_> = options.map(|row| row.field).collect();
    assert_eq!(fields.iter().collect::<BTreeSet<_>>().len(), fields.len());
}

#[test]
fn a_flag_takes_nothing_that_the_engine_refuses() {
    for row in every_row().filter(|row| row.key.is_some()) {
        let (Some(range), Some(flags)) = (row.kind.range(), row.flag_kind.range()) else {
            continue;
        };
        assert!(
            flags.low >= range.low && flags.high <= range.high,
            "{}",
            row.field
        );
    }
}

#[test]
fn a_configuration_takes_what_is_given_and_defaults_the_rest() {
    let config = config(&[
        ("chunk_tokens", Value::Integer(7)),
        ("max_step_ms", Value::Integer(50)),
        ("speculation", Value::text("off")),
    ])
    .unwrap();
    let mut expected = EngineConfig::new(50, 8, 64, 4);
    expected.eos_token_ids = vec![0];
    expected.chunk_tokens = 7;
    expected.max_step_ms = 50.0;
    expected.speculation = crate::SpeculationMode::Off;
    assert_eq!(config, expected);
}

#[test]
fn everything_wrong_with_a_configuration_is_named_at_once() {
    let error = config(&[
        ("chunk_token", Value::Integer(7)),
        ("colour", Value::Flag(true)),
        ("recycle", Value::text("never")),
        ("max_depth", Value::text("deep")),
    ])
    .unwrap_err();
    assert_eq!(
        error.to_string(),
        "chunk_token is no option; did you mean chunk_tokens?\n\
         colour is no option; docs/options.md lists them\n\
         recycle is \"never\"; allowed: off, decode, all\n\
         max_depth is \"deep\"; allowed: a whole number, 1 to 63"
    );
    let error = config(&[
        ("max_draft_tokens", Value::Integer(64)),
        ("age_s", Value::Number(0.0)),
    ])
    .unwrap_err();
    assert_eq!(
        error.to_string(),
        "max_draft_tokens is 64; allowed: 0 to 63\nage_s is 0; allowed: above 0"
    );
    let error = EngineConfig::from_values([]).unwrap_err();
    assert_eq!(
        error.to_string().lines().next(),
        Some("vocabulary_size is missing; it must be given")
    );
}
