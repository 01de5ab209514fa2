//! Steps of an engine and a decoder on this CPU, without the GIL.
//!
//! One thread runs them, and returns to Python only where there is no work. Whoever keeps the GIL
//! cannot delay it: it calls no Python, and no lock that it takes is held by a thread that waits for
//! the GIL. Outputs go through a queue to another thread, which is in Python. The queue is bounded: a
//! step waits for Python only where it is full.

mod gaps;
mod run;
mod signals;

use std::sync::Mutex;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{Receiver, sync_channel};
use std::time::Duration;

use pyo3::exceptions::{PyRuntimeError, PyValueError};
use pyo3::prelude::*;

use self::run::{Board, Clock, Outbox, Output, Run, RunEnd};
use self::signals::Signals;
use super::decoder::CpuDecoder;
use crate::engine::{Engine, StepOutput};
use crate::errors::{cpu_error, engine_error};
use crate::lock::lock;

/// The step loop of one engine and one decoder.
#[pyclass(frozen, module = "spectrie._core")]
pub(super) struct CpuSteps {
    engine: Py<Engine>,
    decoder: Py<CpuDecoder>,
    signals: Signals,
    board: Board,
    outbox: Mutex<Outbox>,
    outputs: Mutex<Receiver<Output>>,
}

#[pymethods]
impl CpuSteps {
    #[new]
    #[pyo3(signature = (engine, decoder, *, max_behind))]
    fn new(engine: Py<Engine>, decoder: Py<CpuDecoder>, max_behind: usize) -> PyResult<Self> {
        if decoder.get().is_part() {
            let message = "the decoder is one of several ranks, which meet in Python";
            return Err(PyValueError::new_err(message));
        }
        if max_behind == 0 {
            return Err(PyValueError::new_err("max_behind is 0; allowed: 1 or more"));
        }
        let (queue, outputs) = sync_channel(max_behind);
        Ok(Self {
            engine,
            decoder,
            signals: Signals::default(),
            board: Board::default(),
            outbox: Mutex::new(Outbox::new(queue)),
            outputs: Mutex::new(outputs),
        })
    }

    fn run(
        &self,
        py: Python<'_>,
        now_s: f64,
        rest_s: f64,
        rested: bool,
    ) -> PyResult<Option<(Option<u64>, PyErr)>> {
        let clock = Clock::at(now_s);
        let rest = Duration::try_from_secs_f64(rest_s).map_err(|_| {
            PyValueError::new_err(format!("rest_s is {rest_s}; allowed: 0 or more"))
        })?;
        let end = py.detach(|| {
            let mut run = Run {
                engine: &self.engine.get().engine,
                decoder: self.decoder.get(),
                signals: &self.signals,
                board: &self.board,
                outbox: &mut lock(&self.outbox),
                clock,
            };
            run.run(rest, rested)
        });
        match end.map_err(engine_error)? {
            RunEnd::Rested => Ok(None),
            RunEnd::Failed { plan_id, error } => Ok(Some((Some(plan_id), cpu_error(error)))),
            RunEnd::DrafterFailed { message } => Ok(Some((None, PyRuntimeError::new_err(message)))),
        }
    }

    fn fail(&self, py: Python<'_>, plan_id: u64, message: &str, now_s: f64) -> PyResult<()> {
        let output = py.detach(|| self.engine.get().engine.fail(plan_id, message, now_s));
        lock(&self.outbox).keep(output.map_err(engine_error)?);
        Ok(())
    }

    fn wake(&self) {
        self.signals.wake();
    }

    fn stop(&self) {
        self.signals.stop();
    }

    fn next_output(&self, py: Python<'_>) -> Option<StepOutput> {
        // Letting go of the GIL for something that is there costs a wait for it.
        let ready = self.outputs.try_lock().ok();
        let ready = ready.and_then(|outputs| outputs.try_recv().ok());
        // The lock is let go before the GIL is taken again: its holder may wait for the lock.
        let output = ready.or_else(|| py.detach(|| lock(&self.outputs).recv().ok()));
        output.map(StepOutput)
    }

    fn close(&self, py: Python<'_>) {
        py.detach(|| lock(&self.outbox).close());
        self.board.busy.store(false, Ordering::Relaxed);
    }

    #[getter]
    fn steps(&self) -> u64 {
        self.board.steps.load(Ordering::Relaxed)
    }

    #[getter]
    fn busy(&self) -> bool {
        self.board.busy.load(Ordering::Relaxed)
    }

    #[getter]
    fn gaps_ms(&self) -> Vec<f32> {
        lock(&self.board.gaps).last_ms()
    }

    #[getter]
    fn gap_seconds(&self) -> f64 {
        lock(&self.board.gaps).total().as_secs_f64()
    }
}
