//! Refused requests as Python's exceptions.

use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};
use spectrie_proto::worker_v1::FinishKind;
use spectrie_request::{Refusal, RefusalKind, Violation};

pyo3::import_exception!(spectrie.errors, ModelError);

/// `InvalidArgument` with every violation; the message is the first one's.
pub(super) fn invalid_argument(py: Python<'_>, violations: &[Violation]) -> PyErr {
    build(py, violations).unwrap_or_else(|error| error)
}

/// What a resolved request was refused for, its fields named as the options are.
pub(super) fn refused(py: Python<'_>, refusal: Refusal) -> PyErr {
    match (refusal.kind, refusal.violations.as_slice()) {
        // The model's files are at fault, not the request.
        (RefusalKind::Unsupported, [only]) => ModelError::new_err(only.message.clone()),
        _ => invalid_argument(py, &named(refusal.violations)),
    }
}

/// The violations under the names of `GenerateOptions`.
pub(super) fn named(violations: Vec<Violation>) -> Vec<Violation> {
    let named = violations.into_iter();
    named
        .map(|violation| Violation {
            field: option_name(&violation.field),
            ..violation
        })
        .collect()
}

/// How a request ended without an answer.
pub(super) fn ended_badly(
    py: Python<'_>,
    kind: FinishKind,
    message: Option<String>,
    timeout_s: Option<f64>,
    request_id: &str,
) -> PyErr {
    let message = message.unwrap_or_else(|| "the request ended without an answer".into());
    let (class, message) = match (kind, timeout_s) {
        (FinishKind::FinishCancelled, _) => ("Cancelled", "the request was cancelled".into()),
        (FinishKind::FinishDeadline, Some(timeout_s)) => (
            "DeadlineExceeded",
            format!("no answer within {timeout_s} s"),
        ),
        (FinishKind::FinishDeadline, None) => ("DeadlineExceeded", message),
        (FinishKind::FinishRefused, _) => ("InvalidArgument", message),
        _ => ("Internal", message),
    };
    let build = || {
        let keywords = PyDict::new(py);
        keywords.set_item("request_id", request_id)?;
        if class == "DeadlineExceeded" {
            keywords.set_item("timeout_s", timeout_s)?;
        }
        let class = py.import("spectrie.errors")?.getattr(class)?;
        class
            .call((message,), Some(&keywords))
            .map(PyErr::from_value)
    };
    build().unwrap_or_else(|error| error)
}

fn build(py: Python<'_>, violations: &[Violation]) -> PyResult<PyErr> {
    let errors = py.import("spectrie.errors")?;
    let field_violation = errors.getattr("FieldViolation")?;
    let fields = violations
        .iter()
        .map(|violation| field_violation.call1((&violation.field, &violation.message)))
        .collect::<PyResult<Vec<_>>>()?;
    let message = violations.first().map(ToString::to_string);
    let keywords = PyDict::new(py);
    keywords.set_item("field_violations", PyTuple::new(py, fields)?)?;
    let error = errors.getattr("InvalidArgument")?;
    let error = error.call((message.unwrap_or_default(),), Some(&keywords))?;
    Ok(PyErr::from_value(error))
}

/// The option that sets a field of the proto file.
fn option_name(field: &str) -> String {
    const SECTIONS: [&str; 4] = ["sampling.", "stopping.", "output.", "structured."];
    const RENAMED: [(&str, &str); 8] = [
        ("token_ids.ids", "prompt_token_ids"),
        ("text", "prompt"),
        ("chat.messages", "messages"),
        ("chat", "messages"),
        ("choice.texts", "choice"),
        ("speculation.prediction.token_ids.ids", "prediction"),
        ("speculation.prediction.token_ids", "prediction"),
        ("speculation.prediction.text", "prediction"),
    ];
    let mut sections = SECTIONS.iter();
    let field = sections
        .find_map(|section| field.strip_prefix(section))
        .unwrap_or(field);
    for (name, option) in RENAMED {
        if let Some(rest) = field.strip_prefix(name)
            && (rest.is_empty() || rest.starts_with(['[', '.']))
        {
            return format!("{option}{rest}");
        }
    }
    field.to_owned()
}
