//! The exchange between the parts of a divided decoder, through a Python function.

use std::sync::{Arc, Mutex};

use pyo3::prelude::*;
use spectrie_cpu::{Columns, Exchange, Split, Whole};

use crate::lock::lock;

/// First column, number of columns, columns of the whole.
type ColumnTuple = (usize, usize, usize);

/// One part of a decoder, as `spectrie.model.decoder.cpu` describes it.
#[derive(FromPyObject)]
pub(super) struct Part {
    attended: ColumnTuple,
    hidden: ColumnTuple,
    gated: ColumnTuple,
    expert: ColumnTuple,
    vocabulary: ColumnTuple,
    gather: Py<PyAny>,
}

/// The Python function that gathers, and the first error it raised.
pub(super) struct Gather {
    function: Py<PyAny>,
    error: Mutex<Option<PyErr>>,
}

impl Gather {
    pub(super) fn take_error(&self) -> Option<PyErr> {
        lock(&self.error).take()
    }
}

struct Gathering(Arc<Gather>);

impl Exchange for Gathering {
    fn gather(&self, whole: Whole, address: usize, rows: usize) {
        let mut error = lock(&self.0.error);
        // Where one gather failed, the other parts are not at the same place any more.
        if error.is_none() {
            *error = Python::attach(|py| {
                let arguments = (whole as usize, address, rows);
                self.0.function.call1(py, arguments).err()
            });
        }
    }
}

impl Part {
    pub(super) fn split(self) -> (Split, Arc<Gather>) {
        let columns = |(first, count, total)| Columns {
            first,
            count,
            total,
        };
        let gather = Arc::new(Gather {
            function: self.gather,
            error: Mutex::new(None),
        });
        let split = Split {
            attended: columns(self.attended),
            hidden: columns(self.hidden),
            gated: columns(self.gated),
            expert: columns(self.expert),
            vocabulary: columns(self.vocabulary),
            exchange: Some(Box::new(Gathering(Arc::clone(&gather)))),
        };
        (split, gather)
    }
}
