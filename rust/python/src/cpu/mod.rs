//! Python face of `spectrie-cpu`: the forward of a decoder on this CPU.

mod any;
mod decoder;
mod draft;
mod exchange;
mod plan;
mod steps;
mod tensors;
mod weights;

use pyo3::prelude::*;
use spectrie_cpu::{Isa, PAGE_SIZE, TOP_K, arithmetic};
use spectrie_types::sizes::MAX_DRAFTERS;

use self::decoder::CpuDecoder;
use self::steps::CpuSteps;
use self::weights::CpuWeights;

/// Name of the arithmetic of a dtype: equal names give equal bits.
#[pyfunction]
#[pyo3(signature = (*, bfloat16))]
fn cpu_arithmetic(bfloat16: bool) -> &'static str {
    arithmetic(Isa::detect(), bfloat16)
}

// The engine plans for what the forward has.
const _: () = assert!(PAGE_SIZE == spectrie_types::sizes::PAGE_SIZE);
const _: () = assert!(TOP_K == spectrie_types::sizes::TOP_K);

/// Adds this file's classes and functions to the module.
pub(crate) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add("CPU_PAGE_SIZE", PAGE_SIZE)?;
    module.add("MAX_DRAFTERS", MAX_DRAFTERS)?;
    module.add("MAX_PENDING_ENTRIES", spectrie_cpu::MAX_PENDING)?;
    module.add("CPU_TOP_K", TOP_K)?;
    module.add_class::<CpuWeights>()?;
    module.add_class::<CpuDecoder>()?;
    module.add_class::<CpuSteps>()?;
    module.add_function(wrap_pyfunction!(cpu_arithmetic, module)?)
}
