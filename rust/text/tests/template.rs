//! Chat templates as models ship them.

#![allow(clippy::unwrap_used)] // helpers of tests fail by panicking

use serde_json::{Value, json};
use spectrie_text::{ChatTemplate, TemplateOptions, TextError};
use std::collections::BTreeMap;

const CHATML: &str = "{% for message in messages %}{% if loop.first and messages[0]['role'] != 'system' %}{{ '<|im_start|>system\nBe brief.<|im_end|>\n' }}{% endif %}{{'<|im_start|>' + message['role'] + '\n' + message['content'] + '<|im_end|>' + '\n'}}{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}";

fn render(source: &str, messages: &Value, options: &TemplateOptions) -> Result<String, TextError> {
    let special = BTreeMap::from([("bos_token".to_owned(), "<s>".to_owned())]);
    ChatTemplate::new(source, special)?.render(messages, options)
}

fn plain(source: &str) -> String {
    render(source, &json!([]), &TemplateOptions::default()).unwrap()
}

#[test]
fn chatml_with_and_without_the_assistants_turn() {
    let messages = json!([{"role": "user", "content": "hi <b> & 'you'"}]);
    let mut options = TemplateOptions::default();
    let start =
        "<|im_start|>system\nBe brief.<|im_end|>\n<|im_start|>user\nhi <b> & 'you'<|im_end|>\n";
    let prompt = render(CHATML, &messages, &options).unwrap();
    assert_eq!(prompt, format!("{start}<|im_start|>assistant\n"));
    options.add_generation_prompt = false;
    assert_eq!(render(CHATML, &messages, &options).unwrap(), start);
}

#[test]
fn blocks_are_trimmed_as_transformers_does() {
    assert_eq!(
        plain("a\n  {% if true %}\n  b\n  {% endif %}\nc\n"),
        "a\n  b\nc"
    );
}

#[test]
fn a_tag_that_ends_where_it_begins_is_refused() {
    for source in [
        "{%}",
        "a{%}b{% generation %}c{% endgeneration %}",
        "{%",
        "{%}{%%}",
    ] {
        let refused = ChatTemplate::new(source, BTreeMap::new());
        assert!(
            matches!(refused, Err(TextError::InvalidTemplate { .. })),
            "{source}: {refused:?}"
        );
    }
}

#[test]
fn values_print_as_python_prints_them() {
    assert_eq!(
        plain("{{ none }} {{ true }} {{ false }} {{ 1 }} {{ missing }}"),
        "None True False 1 "
    );
}

#[test]
fn python_methods_and_loop_controls_work() {
    let source = "{% for x in ['a ', 'b', 'c'] %}{% if x == 'c' %}{% break %}{% endif %}{{ x.strip().upper() }}{% endfor %}{{ {'k': 1}.items() | list | length }}{{ 'a,b'.split(',')[1] }}";
    assert_eq!(plain(source), "AB1b");
}

#[test]
fn tojson_is_pythons_and_keeps_the_order_of_keys() {
    let options = TemplateOptions {
        variables: BTreeMap::from([(
            "v".to_owned(),
            json!({"a": [1, 2.5, null, true], "b": "é<&'\""}),
        )]),
        ..TemplateOptions::default()
    };
    let one = render("{{ v | tojson }}", &json!([]), &options).unwrap();
    assert_eq!(one, r#"{"a": [1, 2.5, null, true], "b": "é<&'\""}"#);
    let many = render("{{ v | tojson(indent=2) }}", &json!([]), &options).unwrap();
    assert_eq!(
        many,
        "{\n  \"a\": [\n    1,\n    2.5,\n    null,\n    true\n  ],\n  \"b\": \"é<&'\\\"\"\n}"
    );
}

#[test]
fn tools_are_none_unless_given() {
    let source = "{% if tools is not none %}{{ tools[0].function.name }}{% else %}none{% endif %}";
    assert_eq!(plain(source), "none");
    let options = TemplateOptions {
        tools: Some(json!([{"type": "function", "function": {"name": "find"}}])),
        ..TemplateOptions::default()
    };
    assert_eq!(render(source, &json!([]), &options).unwrap(), "find");
}

#[test]
fn special_tokens_dates_and_training_marks_are_known() {
    let source =
        "{{ bos_token }}{%- generation -%} x {%- endgeneration %}{{ strftime_now('%Y') | length }}";
    assert_eq!(plain(source), "<s>x4");
}

#[test]
fn a_refusal_of_the_template_keeps_its_words() {
    let source = "{% if true %}{{ raise_exception('roles must alternate') }}{% endif %}";
    let error = render(source, &json!([]), &TemplateOptions::default()).unwrap_err();
    let TextError::TemplateRefused { message } = error else {
        panic!("{error}");
    };
    assert_eq!(message, "roles must alternate");
}

#[test]
fn a_refusal_within_a_macro_is_still_a_refusal() {
    let source = "{% macro m() %}{{ raise_exception('no') }}{% endmacro %}{{ m() }}";
    let error = render(source, &json!([]), &TemplateOptions::default()).unwrap_err();
    assert!(
        matches!(error, TextError::TemplateRefused { .. }),
        "{error}"
    );
}

#[test]
fn a_template_without_end_is_stopped() {
    let source = "{% for a in range(9999) %}{% for b in range(9999) %}{% for c in range(9999) %}{% endfor %}{% endfor %}{% endfor %}";
    let error = render(source, &json!([]), &TemplateOptions::default()).unwrap_err();
    assert!(
        matches!(error, TextError::TemplateEndless { .. }),
        "{error}"
    );
}

#[test]
fn a_template_that_does_not_parse_or_fails_says_so() {
    let error = ChatTemplate::new("{% if %}", BTreeMap::new()).unwrap_err();
    assert!(
        matches!(error, TextError::InvalidTemplate { .. }),
        "{error}"
    );
    let messages = json!([{"role": "user", "content": [1]}]);
    let error = render(CHATML, &messages, &TemplateOptions::default()).unwrap_err();
    assert!(matches!(error, TextError::TemplateFailed { .. }), "{error}");
}
