//! Python bindings: converts, releases the GIL, maps errors. No logic but the step loop on a CPU
//! (`cpu/steps`), which is here because it joins an engine and a decoder.

#![allow(clippy::needless_pass_by_value)] // PyO3 hands arguments over by value

mod bigrams;
mod corpus;
mod cpu;
mod engine;
mod enums;
mod errors;
mod grammar;
mod lock;
mod options;
mod replay;
mod request;
mod router;
mod start;
mod stops;
mod text;

use pyo3::prelude::*;

/// The compiled core of Spectrie.
#[pymodule(gil_used = false)]
fn _core(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add("__version__", env!("CARGO_PKG_VERSION"))?;
    bigrams::register(module)?;
    corpus::register(module)?;
    cpu::register(module)?;
    engine::register(module)?;
    enums::register(module)?;
    grammar::register(module)?;
    options::register(module)?;
    replay::register(module)?;
    request::register(module)?;
    router::register(module)?;
    start::register(module)?;
    text::register(module)
}
