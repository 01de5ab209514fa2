//! Python face of `spectrie-router`.

use pyo3::create_exception;
use pyo3::exceptions::PyException;
use pyo3::prelude::*;
use spectrie_router::{Bound as Addresses, Ending, RouterConfig, Shutdown};

create_exception!(
    _core,
    RouterError,
    PyException,
    "The router could not start or had to end; the message names the option at fault."
);

/// Exit code when requests were cut off.
const EXIT_CUT: i32 = 1;

/// Asks a router of this process to end, from any thread.
#[pyclass(frozen, module = "spectrie._core")]
#[derive(Default)]
struct RouterHandle {
    shutdown: Shutdown,
}

#[pymethods]
impl RouterHandle {
    #[new]
    fn new() -> Self {
        Self::default()
    }

    /// Asks to drain; asked again, to stop at once.
    fn shutdown(&self) {
        self.shutdown.request();
    }
}

/// Runs a router to its end; see the stub file.
#[pyfunction]
#[pyo3(signature = (config_json, on_ready, handle=None))]
fn run_router(
    py: Python<'_>,
    config_json: &str,
    on_ready: &Bound<'_, PyAny>,
    handle: Option<&RouterHandle>,
) -> PyResult<i32> {
    let to_py = |error: spectrie_router::RouterError| RouterError::new_err(error.to_string());
    let config = RouterConfig::from_json(config_json).map_err(to_py)?;
    let shutdown = handle
        .map(|handle| handle.shutdown.clone())
        .unwrap_or_default();
    let on_ready = on_ready.clone().unbind();
    let mut raised = None;
    let ending = py.detach(|| {
        let stop = shutdown.clone();
        let announce = |addresses: &Addresses| {
            if let Err(error) = announce(&on_ready, addresses) {
                raised = Some(error);
                stop.request();
            }
        };
        spectrie_router::run(config, announce, shutdown)
    });
    match (raised, ending.map_err(to_py)?) {
        (Some(error), _) => Err(error),
        (None, Ending::Drained) => Ok(0),
        (None, Ending::Cut { .. }) => Ok(EXIT_CUT),
    }
}

/// Entries of a keys file as JSON; see the stub file.
#[pyfunction]
fn read_api_keys(path: std::path::PathBuf) -> PyResult<String> {
    let failed = |error: &dyn std::fmt::Display| RouterError::new_err(error.to_string());
    let entries = spectrie_router::access::read_keys(&path).map_err(|error| failed(&error))?;
    serde_json::to_string(&entries).map_err(|error| failed(&error))
}

/// Hands the addresses to Python as JSON.
fn announce(on_ready: &Py<PyAny>, addresses: &Addresses) -> PyResult<()> {
    let json = addresses
        .to_json()
        .map_err(|error| RouterError::new_err(error.to_string()))?;
    Python::attach(|py| on_ready.call1(py, (json,)).map(drop))
}

/// Adds this file's classes and functions to the module.
pub(crate) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add("RouterError", module.py().get_type::<RouterError>())?;
    module.add_class::<RouterHandle>()?;
    module.add_function(wrap_pyfunction!(read_api_keys, module)?)?;
    module.add_function(wrap_pyfunction!(run_router, module)?)
}
