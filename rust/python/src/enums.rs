//! Enums of `spectrie-types` as Python's `IntEnum`, made once.

use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::PyDict;
use spectrie_types::{FinishKind, PackedSection, PackedWork, Source, SpeculationMode};

/// Members by number; those without a member are none.
type Members = Vec<Py<PyAny>>;

static FINISH_KINDS: PyOnceLock<Members> = PyOnceLock::new();
static SOURCES: PyOnceLock<Members> = PyOnceLock::new();

/// The Python member of a kind.
pub(crate) fn finish_kind(py: Python<'_>, kind: FinishKind) -> Py<PyAny> {
    member(py, &FINISH_KINDS, kind.number())
}

/// The Python member of a source's number.
pub(crate) fn source(py: Python<'_>, number: u8) -> Py<PyAny> {
    member(py, &SOURCES, number)
}

fn member(py: Python<'_>, members: &PyOnceLock<Members>, number: u8) -> Py<PyAny> {
    let member = members.get(py).and_then(|all| all.get(usize::from(number)));
    member.map_or_else(|| py.None(), |member| member.clone_ref(py))
}

pub(crate) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    let kinds = FinishKind::ALL.map(|kind| (kind.name(), kind.number()));
    let sources = Source::ALL.map(|source| (source.name(), source.number()));
    let modes = SpeculationMode::ALL.map(|mode| (mode.name(), mode.number()));
    let sections = PackedSection::ALL.map(|section| (section.name(), section.number()));
    let lists = PackedWork::ALL.map(|list| (list.name(), list.number()));
    let py = module.py();
    let kinds = add(module, "FinishKind", "Why a choice ended.", &kinds)?;
    let sources = add(module, "Source", "Where a token came from.", &sources)?;
    add(
        module,
        "SpeculationMode",
        "How draft trees are grown.",
        &modes,
    )?;
    add(
        module,
        "PackedSection",
        "Sections of a packed step; rust/types/src/packed_section.rs says their shapes.",
        &sections,
    )?;
    add(
        module,
        "PackedWork",
        "Lists of attention's work for one window, after those sections.",
        &lists,
    )?;
    // A second interpreter's import finds the first one's, which are equal.
    let _ = FINISH_KINDS.set(py, kinds);
    let _ = SOURCES.set(py, sources);
    Ok(())
}

/// Adds an `IntEnum` to the module and gives its members.
fn add(
    module: &Bound<'_, PyModule>,
    name: &str,
    about: &str,
    members: &[(&str, u8)],
) -> PyResult<Members> {
    let py = module.py();
    let named: Vec<_> = members
        .iter()
        .map(|(name, number)| (name.to_uppercase(), *number))
        .collect();
    let arguments = PyDict::new(py);
    arguments.set_item("module", "spectrie._core")?;
    let int_enum = py.import("enum")?.getattr("IntEnum")?;
    let class = int_enum.call((name, named), Some(&arguments))?;
    class.setattr("__doc__", about)?;
    let most = members.iter().map(|(_, number)| *number).max().unwrap_or(0);
    let mut by_number: Members = (0..=most).map(|_| py.None()).collect();
    for (_, number) in members {
        by_number[usize::from(*number)] = class.call1((*number,))?.unbind();
    }
    module.add(name, class)?;
    Ok(by_number)
}
