//! The tables of options, and their values from Python.

use std::borrow::Cow;

use pyo3::prelude::*;
use pyo3::types::{PyBool, PyInt, PyList, PyMapping, PyString, PyTuple};
use spectrie_types::options::{self, Group, Kind, REQUEST, SamplingParameters, Value};

use crate::errors::engine_error;

/// One line of a table; see the stub file.
#[pyclass(frozen, get_all, module = "spectrie._core")]
struct OptionRow {
    table: &'static str,
    field: &'static str,
    summary: String,
    kind: &'static str,
    names: Vec<&'static str>,
    forms: Vec<&'static str>,
    minimum: Option<f64>,
    maximum: Option<f64>,
    is_open: bool,
    default: Option<Py<PyAny>>,
    default_text: String,
    unit: &'static str,
    group: &'static str,
    key: Option<&'static str>,
    commands: Vec<&'static str>,
    is_keyword: bool,
}

impl OptionRow {
    fn new(py: Python<'_>, table: &'static str, row: &options::OptionRow) -> PyResult<Self> {
        let kind = row.flag_kind;
        let range = kind.range();
        Ok(Self {
            table,
            field: row.field,
            summary: row.summary(),
            kind: kind.name(),
            names: match kind {
                Kind::Choice(names) => names.to_vec(),
                Kind::Text(name) | Kind::Texts(name) => vec![name],
                _ => Vec::new(),
            },
            forms: match kind {
                Kind::Address { unix, off } => {
                    let forms = [("unix", unix), ("off", off)];
                    let allowed = forms.into_iter().filter(|(_, is_allowed)| *is_allowed);
                    allowed.map(|(form, _)| form).collect()
                }
                _ => Vec::new(),
            },
            minimum: range.map(|range| range.low).filter(|low| low.is_finite()),
            maximum: range
                .map(|range| range.high)
                .filter(|high| high.is_finite()),
            is_open: range.is_some_and(|range| range.is_open),
            default: object(py, &(row.default)())?,
            default_text: row.default_text(),
            unit: row.unit,
            group: row.group.title(),
            key: row.key,
            commands: row.commands.to_vec(),
            is_keyword: row.is_keyword,
        })
    }
}

/// Every table, one row after another, in the order in which they are shown.
#[pyfunction]
fn option_rows(py: Python<'_>) -> PyResult<Vec<OptionRow>> {
    let of_requests = [
        ("sampling", SamplingParameters::rows()),
        ("request", REQUEST),
    ];
    let tables = options::tables().into_iter().chain(of_requests);
    let mut rows: Vec<_> = tables
        .flat_map(|(table, rows)| rows.iter().map(move |row| (table, row)))
        .collect();
    rows.sort_by_key(|(_, row)| row.group);
    rows.into_iter()
        .map(|(table, row)| OptionRow::new(py, table, row))
        .collect()
}

/// Checks options of an engine in this process: those of its model, itself and its host.
#[pyfunction]
fn check_options(values: &Bound<'_, PyMapping>) -> PyResult<()> {
    let of_engines = ["model", "engine", "host"];
    let tables = options::tables().into_iter();
    let rows: Vec<_> = tables
        .filter(|(table, _)| of_engines.contains(table))
        .flat_map(|(_, rows)| rows)
        .filter(|row| row.group != Group::Fact)
        .collect();
    let violations = options::check(&rows, &self::values(values)?);
    violations.check().map_err(engine_error)
}

/// The values of a mapping, by name.
pub(crate) fn values(mapping: &Bound<'_, PyMapping>) -> PyResult<Vec<(String, Value)>> {
    let items = mapping.items()?;
    items
        .iter()
        .map(|item| {
            let (name, given): (String, Bound<'_, PyAny>) = item.extract()?;
            Ok((name, value(&given)?))
        })
        .collect()
}

fn value(given: &Bound<'_, PyAny>) -> PyResult<Value> {
    if given.is_none() {
        return Ok(Value::None);
    }
    if given.is_instance_of::<PyBool>() {
        return given.extract().map(Value::Flag);
    }
    if given.is_instance_of::<PyInt>() {
        // A member of an enum stands for its name.
        if let Ok(name) = given.getattr("name") {
            let name: String = name.extract()?;
            return Ok(Value::Text(Cow::Owned(name.to_lowercase())));
        }
    }
    // NumPy's numbers are none of Python's classes.
    let integer = given.extract::<i64>().map(i128::from);
    if let Ok(integer) = integer.or_else(|_| given.extract::<u64>().map(i128::from)) {
        return Ok(Value::Integer(integer));
    }
    if let Ok(number) = given.extract::<f64>() {
        return Ok(Value::Number(number));
    }
    if given.is_instance_of::<PyList>() || given.is_instance_of::<PyTuple>() {
        let items = given.try_iter()?;
        let items: PyResult<Vec<_>> = items.map(|item| value(&item?)).collect();
        return items.map(Value::List);
    }
    let text = if given.is_instance_of::<PyString>() {
        given.extract()?
    } else {
        given.repr()?.to_string()
    };
    Ok(Value::Text(Cow::Owned(text)))
}

/// The Python object of a value; none for none.
fn object(py: Python<'_>, value: &Value) -> PyResult<Option<Py<PyAny>>> {
    let object = match value {
        Value::None => return Ok(None),
        Value::Flag(flag) => flag.into_pyobject(py)?.to_owned().into_any(),
        Value::Integer(integer) => match i64::try_from(*integer) {
            Ok(integer) => integer.into_pyobject(py)?.into_any(),
            Err(_) => u64::try_from(*integer)
                .unwrap_or(u64::MAX)
                .into_pyobject(py)?
                .into_any(),
        },
        Value::Number(number) => number.into_pyobject(py)?.into_any(),
        Value::Text(text) => text.into_pyobject(py)?.into_any(),
        Value::List(items) => {
            let items: PyResult<Vec<_>> = items.iter().map(|item| object(py, item)).collect();
            PyTuple::new(py, items?)?.into_any()
        }
    };
    Ok(Some(object.unbind()))
}

pub(crate) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<OptionRow>()?;
    module.add_function(wrap_pyfunction!(check_options, module)?)?;
    module.add_function(wrap_pyfunction!(option_rows, module)?)
}
