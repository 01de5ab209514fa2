//! Arbitrary templates and chats: each renders, or is refused, within its fuel.

#![allow(clippy::unwrap_used)] // helpers of tests fail by panicking

use std::collections::BTreeMap;

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::{Index, select};
use serde_json::{Value, json};
use spectrie_text::{ChatTemplate, TemplateOptions};

/// Parts of templates as models ship them, and of hostile ones.
const PARTS: &[&str] = &[
    "{% for message in messages %}",
    "{% for x in range(3) %}",
    "{% endfor %}",
    "{% if add_generation_prompt %}",
    "{% if message['role'] == 'user' %}",
    "{% elif x is defined %}",
    "{% else %}",
    "{% endif %}",
    "{{ message['content'] }}",
    "{{ message.content | trim | upper | tojson(indent=2) }}",
    "{{ messages[0].role * 3 }}",
    "{{ ('x' * 10) | length }}",
    "{{ raise_exception('no') }}",
    "{{ strftime_now('%Y-%m-%d %q') }}",
    "{% set x = x ~ x %}",
    "{% set ns = namespace(a=0) %}{% set ns.a = ns.a + 1 %}",
    "{% macro m(a) %}{{ m(a) }}{% endmacro %}{{ m(1) }}",
    "{% break %}",
    "{{ 1 / 0 }}",
    "{{ -9223372036854775808 // -1 }}",
    "{{ 2 ** 9999 }}",
    "{{ 'a,b'.split(',')[-3] }}",
    "{{ messages[1:-1][::0] }}",
    "{# comment",
    "#}",
    "{%- generation -%}",
    "{% endgeneration %}",
    "\n  text \u{301}",
];

fn template() -> impl Strategy<Value = String> {
    let change = (any::<Index>(), 0..2_u8, any::<char>());
    (vec(select(PARTS), 0..10), vec(change, 0..3)).prop_map(|(parts, changes)| {
        let mut text: Vec<char> = parts.concat().chars().collect();
        for (at, kind, with) in changes {
            if text.is_empty() {
                break;
            }
            let at = at.index(text.len());
            if kind == 0 {
                text[at] = with;
            } else {
                text.remove(at);
            }
        }
        text.into_iter().collect()
    })
}

fn messages() -> impl Strategy<Value = Value> {
    let message = (select(vec!["user", "system", "tool", ""]), ".{0,12}")
        .prop_map(|(role, content)| json!({"role": role, "content": content}));
    vec(message, 0..4).prop_map(Value::from)
}

fn renders_or_is_refused(source: &str, messages: &Value) {
    let special = BTreeMap::from([("bos_token".to_owned(), "<s>".to_owned())]);
    let Ok(template) = ChatTemplate::new(source, special) else {
        return;
    };
    let options = TemplateOptions::default();
    let first = template.render(messages, &options);
    assert!(first.as_ref().map_or(true, |text| text.len() < 256 << 20));
    // A template that shows no time says the same again.
    if !source.contains("strftime_now") {
        let again = template.render(messages, &options);
        assert_eq!(first.ok(), again.ok());
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, cases: 5_000, ..ProptestConfig::default() })]

    #[test]
    fn any_template_renders_or_is_refused(source in template(), messages in messages()) {
        renders_or_is_refused(&source, &messages);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, cases: 1_000_000, ..ProptestConfig::default() })]

    #[test]
    #[ignore = "deep: a million inputs"]
    fn any_of_a_million_templates_renders_or_is_refused(source in template(), messages in messages()) {
        renders_or_is_refused(&source, &messages);
    }
}
