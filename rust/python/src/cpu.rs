//! Python face of `spectrie-cpu`.
//!
//! Tensors arrive as addresses: bfloat16 has no NumPy type, and a call must cost less than the work.
//! The Python wrapper (`spectrie.model.operators.cpu`) owns the tensors and checks their shapes, dtypes
//! and strides; here addresses are checked for null and alignment, and sizes against each other.
#![allow(unsafe_code)] // slices are made from addresses given by the wrapper

use std::sync::{Mutex, MutexGuard, PoisonError};

use numpy::{Element as NumpyElement, PyReadonlyArray1, PyReadonlyArray2};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use spectrie_cpu::{
    Attention, AttentionConfig, Batch, BatchArrays, Bf16, CpuError, Element, LayerConfig, Level,
    PAGE_SIZE, TOP_K, add_rms_norm, rms_norm, silu_mul, top_k, use_huge_pages,
};

/// Rows from which a call lets other Python threads run: below, the switch costs more than the work.
const DETACH_ROWS: usize = 4;

#[allow(clippy::needless_pass_by_value)] // the shape `map_err` wants
fn to_py(error: CpuError) -> PyErr {
    PyValueError::new_err(error.to_string())
}

fn check<T>(address: usize) -> PyResult<()> {
    if address == 0 || !address.is_multiple_of(align_of::<T>()) {
        return Err(PyValueError::new_err(format!(
            "tensor address is {address:#x}, expected non-zero and a multiple of {}",
            align_of::<T>()
        )));
    }
    Ok(())
}

/// # Safety
/// `address` is the start of `len` elements that stay alive and unwritten during the call.
unsafe fn read<'a, T>(address: usize, len: usize) -> PyResult<&'a [T]> {
    check::<T>(address)?;
    // SAFETY: by the caller's promise and the check.
    Ok(unsafe { std::slice::from_raw_parts(address as *const T, len) })
}

/// # Safety
/// `address` is the start of `len` elements that stay alive and untouched by others during the call.
unsafe fn write<'a, T>(address: usize, len: usize) -> PyResult<&'a mut [T]> {
    check::<T>(address)?;
    // SAFETY: by the caller's promise and the check.
    Ok(unsafe { std::slice::from_raw_parts_mut(address as *mut T, len) })
}

fn run<T: Send>(py: Python<'_>, rows: usize, work: impl FnOnce() -> T + Send) -> T {
    if rows < DETACH_ROWS {
        work()
    } else {
        py.detach(work)
    }
}

/// A checked plan for the CPU operators.
#[pyclass(frozen)]
struct CpuBatch {
    batch: Batch,
}

fn array<'py, T: NumpyElement>(
    plan: &Bound<'py, PyAny>,
    name: &str,
) -> PyResult<PyReadonlyArray1<'py, T>> {
    plan.getattr(name)?
        .extract()
        .map_err(|error| PyValueError::new_err(format!("plan.{name}: {error}")))
}

#[pymethods]
impl CpuBatch {
    #[new]
    fn new(plan: &Bound<'_, PyAny>, num_pages: usize, max_context: usize) -> PyResult<Self> {
        let numbers = |name| array::<i32>(plan, name);
        let (row_position, row_slot) = (numbers("row_position")?, numbers("row_slot")?);
        let row_parent = numbers("row_parent")?;
        let row_ancestors = array::<i64>(plan, "row_ancestors")?;
        let request_row_start = numbers("request_row_start")?;
        let request_row_count = numbers("request_row_count")?;
        let request_kv_len = numbers("request_kv_len")?;
        let request_kind = numbers("request_kind")?;
        let (page_indptr, page_ids) = (numbers("page_indptr")?, numbers("page_ids")?);
        let (kv_move_src, kv_move_dst) = (numbers("kv_move_src")?, numbers("kv_move_dst")?);
        let arrays = BatchArrays {
            row_position: row_position.as_slice()?,
            row_slot: row_slot.as_slice()?,
            row_parent: row_parent.as_slice()?,
            row_ancestors: row_ancestors.as_slice()?,
            request_row_start: request_row_start.as_slice()?,
            request_row_count: request_row_count.as_slice()?,
            request_kv_len: request_kv_len.as_slice()?,
            request_kind: request_kind.as_slice()?,
            page_indptr: page_indptr.as_slice()?,
            page_ids: page_ids.as_slice()?,
            kv_move_src: kv_move_src.as_slice()?,
            kv_move_dst: kv_move_dst.as_slice()?,
        };
        Ok(Self {
            batch: Batch::new(&arrays, num_pages, max_context).map_err(to_py)?,
        })
    }

    #[getter]
    fn num_rows(&self) -> usize {
        self.batch.num_rows()
    }
}

enum AnyAttention {
    F32(Attention<f32>),
    Bf16(Attention<Bf16>),
}

/// Attention of all layers, with the key-value cache it owns.
#[pyclass(frozen)]
struct CpuAttention {
    inner: Mutex<AnyAttention>,
    row_len: usize,
    out_len: usize,
}

impl CpuAttention {
    fn lock(&self) -> MutexGuard<'_, AnyAttention> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

type LayerTuple = (bool, Option<usize>, Option<Vec<f32>>, Option<Vec<f32>>);

#[pymethods]
impl CpuAttention {
    #[new]
    #[pyo3(signature = (*, heads, kv_heads, head_dim, num_pages, max_context, scale, norm_epsilon,
                        cosines, sines, layers, bfloat16))]
    #[allow(clippy::too_many_arguments)] // keyword-only: the fields of one config
    fn new(
        heads: usize,
        kv_heads: usize,
        head_dim: usize,
        num_pages: usize,
        max_context: usize,
        scale: f32,
        norm_epsilon: f32,
        cosines: PyReadonlyArray2<'_, f32>,
        sines: PyReadonlyArray2<'_, f32>,
        layers: Vec<LayerTuple>,
        bfloat16: bool,
    ) -> PyResult<Self> {
        let layers = layers
            .into_iter()
            .map(|(rotary, window, query_norm, key_norm)| LayerConfig {
                rotary,
                window,
                query_norm,
                key_norm,
            })
            .collect();
        let config = AttentionConfig {
            heads,
            kv_heads,
            head_dim,
            num_pages,
            max_context,
            scale,
            norm_epsilon,
            cosines: cosines.as_slice()?.to_vec(),
            sines: sines.as_slice()?.to_vec(),
            layers,
        };
        let (row_len, out_len) = ((heads + 2 * kv_heads) * head_dim, heads * head_dim);
        let inner = if bfloat16 {
            AnyAttention::Bf16(Attention::new(config).map_err(to_py)?)
        } else {
            AnyAttention::F32(Attention::new(config).map_err(to_py)?)
        };
        Ok(Self {
            inner: Mutex::new(inner),
            row_len,
            out_len,
        })
    }

    fn move_slots(&self, batch: &CpuBatch) {
        match &mut *self.lock() {
            AnyAttention::F32(attention) => attention.move_slots(&batch.batch),
            AnyAttention::Bf16(attention) => attention.move_slots(&batch.batch),
        }
    }

    #[allow(clippy::too_many_arguments)] // addresses and sizes of one call on the step path
    fn attend(
        &self,
        py: Python<'_>,
        layer: usize,
        batch: &CpuBatch,
        first_row: usize,
        num_rows: usize,
        qkv: usize,
        out: usize,
        threads: usize,
    ) -> PyResult<()> {
        /// Rows of the batch, and address and row length of their tensors.
        struct Call {
            layer: usize,
            rows: (usize, usize),
            qkv: (usize, usize),
            out: (usize, usize),
            threads: usize,
        }
        fn go<E: Element>(
            attention: &mut Attention<E>,
            py: Python<'_>,
            batch: &Batch,
            call: &Call,
        ) -> PyResult<()> {
            let (first, rows) = call.rows;
            if first
                .checked_add(rows)
                .is_none_or(|end| end > batch.num_rows())
            {
                let end = first.saturating_add(rows);
                let message = format!("rows end at {end}, the batch has {}", batch.num_rows());
                return Err(PyValueError::new_err(message));
            }
            // SAFETY: the wrapper passes contiguous tensors of these shapes and keeps them alive.
            let (qkv, out) = unsafe {
                (
                    read::<E>(call.qkv.0, rows * call.qkv.1)?,
                    write::<E>(call.out.0, rows * call.out.1)?,
                )
            };
            run(py, rows, || {
                attention.attend(
                    call.layer,
                    batch,
                    first..first + rows,
                    qkv,
                    out,
                    call.threads,
                )
            })
            .map_err(to_py)
        }
        let call = Call {
            layer,
            rows: (first_row, num_rows),
            qkv: (qkv, self.row_len),
            out: (out, self.out_len),
            threads,
        };
        match &mut *self.lock() {
            AnyAttention::F32(attention) => go(attention, py, &batch.batch, &call),
            AnyAttention::Bf16(attention) => go(attention, py, &batch.batch, &call),
        }
    }
}

/// Norm of rows of the float32 residual stream; adds `delta` (0 = none) to it first.
#[pyfunction]
#[allow(clippy::too_many_arguments)] // addresses and sizes of one call on the step path
fn cpu_add_rms_norm(
    py: Python<'_>,
    residual: usize,
    delta: usize,
    weight: usize,
    out: usize,
    rows: usize,
    width: usize,
    epsilon: f32,
    bfloat16: bool,
    threads: usize,
) -> PyResult<()> {
    #[allow(clippy::too_many_arguments)]
    fn go<E: Element>(
        py: Python<'_>,
        x: &mut [f32],
        delta: usize,
        weight: &[f32],
        out: usize,
        rows: usize,
        epsilon: f32,
        threads: usize,
    ) -> PyResult<()> {
        // SAFETY: the wrapper passes contiguous tensors of these shapes and keeps them alive.
        let out = unsafe { write::<E>(out, x.len())? };
        if delta == 0 {
            return run(py, rows, || rms_norm(x, weight, epsilon, out, threads)).map_err(to_py);
        }
        // SAFETY: as above.
        let delta = unsafe { read::<E>(delta, x.len())? };
        run(py, rows, || {
            add_rms_norm(x, delta, weight, epsilon, out, threads)
        })
        .map_err(to_py)
    }
    // SAFETY: as above.
    let (x, weight) = unsafe { (write(residual, rows * width)?, read(weight, width)?) };
    if bfloat16 {
        go::<Bf16>(py, x, delta, weight, out, rows, epsilon, threads)
    } else {
        go::<f32>(py, x, delta, weight, out, rows, epsilon, threads)
    }
}

/// `silu(gate) * up` of rows `[gate | up]`.
#[pyfunction]
fn cpu_silu_mul(
    py: Python<'_>,
    gate_up: usize,
    out: usize,
    rows: usize,
    width: usize,
    bfloat16: bool,
    threads: usize,
) -> PyResult<()> {
    fn go<E: Element>(
        py: Python<'_>,
        gate_up: usize,
        out: usize,
        (rows, width): (usize, usize),
        threads: usize,
    ) -> PyResult<()> {
        // SAFETY: the wrapper passes contiguous tensors of these shapes and keeps them alive.
        let (gate_up, out) = unsafe {
            (
                read::<E>(gate_up, rows * 2 * width)?,
                write(out, rows * width)?,
            )
        };
        run(py, rows, || silu_mul(gate_up, width, out, threads)).map_err(to_py)
    }
    if bfloat16 {
        go::<Bf16>(py, gate_up, out, (rows, width), threads)
    } else {
        go::<f32>(py, gate_up, out, (rows, width), threads)
    }
}

/// The likeliest tokens of float32 rows `[rows, width]`: ids and probabilities `[rows, CPU_TOP_K]`.
#[pyfunction]
fn cpu_top_k(
    py: Python<'_>,
    logits: usize,
    ids: usize,
    probabilities: usize,
    rows: usize,
    width: usize,
    threads: usize,
) -> PyResult<()> {
    // SAFETY: the wrapper passes contiguous tensors of these shapes and keeps them alive.
    let (logits, ids, probabilities) = unsafe {
        (
            read::<f32>(logits, rows * width)?,
            write::<i32>(ids, rows * TOP_K)?,
            write::<f32>(probabilities, rows * TOP_K)?,
        )
    };
    run(py, rows, || {
        top_k(logits, width, ids, probabilities, threads)
    })
    .map_err(to_py)
}

/// Name of the operators' arithmetic: equal names give equal bits.
#[pyfunction]
fn cpu_arithmetic() -> &'static str {
    Level::detect().name()
}

/// Asks for large pages under the weights, and gives the bytes asked for.
#[pyfunction]
fn cpu_use_huge_pages(py: Python<'_>) -> usize {
    py.detach(use_huge_pages)
}

/// Adds this file's classes and functions to the module.
pub(crate) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add("CPU_PAGE_SIZE", PAGE_SIZE)?;
    module.add("CPU_TOP_K", TOP_K)?;
    module.add_class::<CpuBatch>()?;
    module.add_class::<CpuAttention>()?;
    module.add_function(wrap_pyfunction!(cpu_add_rms_norm, module)?)?;
    module.add_function(wrap_pyfunction!(cpu_silu_mul, module)?)?;
    module.add_function(wrap_pyfunction!(cpu_top_k, module)?)?;
    module.add_function(wrap_pyfunction!(cpu_use_huge_pages, module)?)?;
    module.add_function(wrap_pyfunction!(cpu_arithmetic, module)?)
}
