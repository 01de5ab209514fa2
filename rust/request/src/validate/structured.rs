//! The form of an answer.

use spectrie_proto::v1;
use spectrie_proto::v1::structured::Constraint;
use spectrie_types::limits::{MAX_STRUCTURED_BYTES, MAX_STRUCTURED_CHOICES};

use super::checker::Checker;

/// Checks the sizes of a constraint; whether it means anything is for the worker to say.
pub(super) fn check_structured(checker: &mut Checker, structured: &v1::Structured) {
    let (field, text) = match &structured.constraint {
        None => {
            return checker.refuse(
                "structured",
                "given no constraint; allowed: one of json_schema, json_object, regex, grammar and \
                 choice",
            );
        }
        Some(Constraint::JsonObject(wanted)) => {
            return checker.check(*wanted, "structured.json_object", || {
                "given false; allowed: true or no constraint at all".into()
            });
        }
        Some(Constraint::Choice(choices)) => return check_choices(checker, &choices.texts),
        Some(Constraint::JsonSchema(text)) => ("structured.json_schema", text),
        Some(Constraint::Regex(text)) => ("structured.regex", text),
        Some(Constraint::Grammar(text)) => ("structured.grammar", text),
    };
    let num_bytes = text.len();
    checker.check(
        (1..=MAX_STRUCTURED_BYTES).contains(&num_bytes),
        field,
        || format!("given {num_bytes} bytes; allowed: 1 to {MAX_STRUCTURED_BYTES}"),
    );
}

fn check_choices(checker: &mut Checker, texts: &[String]) {
    const FIELD: &str = "structured.choice.texts";
    let count = texts.len();
    checker.check((1..=MAX_STRUCTURED_CHOICES).contains(&count), FIELD, || {
        format!("given {count} texts; allowed: 1 to {MAX_STRUCTURED_CHOICES}")
    });
    if let Some(index) = texts.iter().position(String::is_empty) {
        checker.refuse(
            format!("{FIELD}[{index}]"),
            "given no text; allowed: 1 byte or more",
        );
    }
    let num_bytes: usize = texts.iter().map(String::len).sum();
    checker.check(num_bytes <= MAX_STRUCTURED_BYTES, FIELD, || {
        format!("given {num_bytes} bytes in all; allowed: up to {MAX_STRUCTURED_BYTES}")
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fields(constraint: Option<Constraint>) -> Vec<String> {
        let mut checker = Checker::default();
        check_structured(&mut checker, &v1::Structured { constraint });
        let violations = checker.into_violations().into_iter();
        violations.map(|violation| violation.field).collect()
    }

    fn choice(texts: &[&str]) -> Constraint {
        let texts = texts.iter().map(ToString::to_string).collect();
        Constraint::Choice(v1::Choices { texts })
    }

    #[test]
    fn every_kind_of_constraint_is_allowed() {
        for constraint in [
            Constraint::JsonSchema("{}".into()),
            Constraint::JsonObject(true),
            Constraint::Regex("a+".into()),
            Constraint::Grammar("start: \"a\"".into()),
        ] {
            assert!(fields(Some(constraint)).is_empty());
        }
        assert!(fields(Some(choice(&["yes", "no"]))).is_empty());
    }

    #[test]
    fn constraints_without_content_are_refused_by_name() {
        assert_eq!(fields(None), ["structured"]);
        assert_eq!(
            fields(Some(Constraint::JsonObject(false))),
            ["structured.json_object"]
        );
        assert_eq!(
            fields(Some(Constraint::Regex(String::new()))),
            ["structured.regex"]
        );
        assert_eq!(fields(Some(choice(&[]))), ["structured.choice.texts"]);
        assert_eq!(
            fields(Some(choice(&["a", ""]))),
            ["structured.choice.texts[1]"]
        );
    }

    #[test]
    fn long_constraints_are_refused_by_name() {
        let long = "x".repeat(MAX_STRUCTURED_BYTES + 1);
        assert_eq!(
            fields(Some(Constraint::JsonSchema(long.clone()))),
            ["structured.json_schema"]
        );
        assert_eq!(fields(Some(choice(&[&long]))), ["structured.choice.texts"]);
        assert_eq!(
            fields(Some(choice(&vec!["a"; 1025]))),
            ["structured.choice.texts"]
        );
    }
}
