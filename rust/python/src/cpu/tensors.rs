//! Weights as Python hands them over.
//!
//! They arrive as addresses of a checkpoint's tensors: bfloat16 has no NumPy type, and they must not
//! be copied. The Python wrapper (`spectrie.model.decoder.cpu`) keeps the tensors alive and
//! contiguous; here addresses are checked for null and alignment.
#![allow(unsafe_code)] // slices are made from addresses given by the wrapper

use numpy::PyReadonlyArray1;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use spectrie_cpu::{Dtype, LinearSource, Stored};

/// A tensor of a checkpoint: address, dtype, number of elements.
pub(super) type Tensor = (usize, String, usize);

/// # Safety
/// `address` is the start of `len` elements that stay alive and unwritten during the call.
unsafe fn read<'a, T>(address: usize, len: usize) -> PyResult<&'a [T]> {
    if address == 0 || !address.is_multiple_of(align_of::<T>()) {
        return Err(PyValueError::new_err(format!(
            "tensor address is {address:#x}, expected non-zero and a multiple of {}",
            align_of::<T>()
        )));
    }
    // SAFETY: by the caller's promise and the check.
    Ok(unsafe { std::slice::from_raw_parts(address as *const T, len) })
}

pub(super) fn stored<'a>((address, dtype, len): &Tensor) -> PyResult<Stored<'a>> {
    // SAFETY: the wrapper passes contiguous tensors of these sizes and keeps them alive.
    unsafe {
        match dtype.as_str() {
            "float32" => Ok(Stored::F32(read(*address, *len)?)),
            "bfloat16" => Ok(Stored::Bf16(read(*address, *len)?)),
            "float16" => Ok(Stored::F16(read(*address, *len)?)),
            _ => Err(PyValueError::new_err(format!(
                "dtype is {dtype:?}; allowed: float32, bfloat16, float16"
            ))),
        }
    }
}

/// A copy of a tensor in a dtype.
pub(super) fn numbers<E: Dtype>(tensor: &Tensor) -> PyResult<Vec<E>> {
    let stored = stored(tensor)?;
    let mut values = Vec::with_capacity(stored.len());
    stored.append_to(&mut values);
    Ok(values)
}

pub(super) type Norm<'py> = PyReadonlyArray1<'py, f32>;

pub(super) fn vector(norm: &Norm<'_>) -> PyResult<Vec<f32>> {
    Ok(norm.as_slice()?.to_vec())
}

/// One product, as `spectrie.model.decoder.cpu` describes it.
#[derive(FromPyObject)]
pub(super) struct Product<'py> {
    parts: Vec<Tensor>,
    bias: Option<Norm<'py>>,
    in_features: usize,
}

impl Product<'_> {
    pub(super) fn source<'a>(&self) -> PyResult<LinearSource<'a>> {
        Ok(LinearSource {
            parts: self.parts.iter().map(stored).collect::<PyResult<_>>()?,
            bias: self.bias.as_ref().map(vector).transpose()?,
            in_features: self.in_features,
        })
    }
}

/// One gated MLP.
#[derive(FromPyObject)]
pub(super) struct DenseTensors<'py> {
    gate_up: Product<'py>,
    down: Product<'py>,
}

/// The experts of a layer, and the product that chooses among them.
#[derive(FromPyObject)]
pub(super) struct MixtureTensors<'py> {
    router: Product<'py>,
    pub(super) experts: Vec<DenseTensors<'py>>,
    pub(super) chosen: usize,
    pub(super) normalised: bool,
}

/// The part of a layer after its second norm.
#[derive(FromPyObject)]
pub(super) enum MlpTensors<'py> {
    Mixture(MixtureTensors<'py>),
    Dense(DenseTensors<'py>),
}

/// One layer.
#[derive(FromPyObject)]
pub(super) struct LayerTensors<'py> {
    pub(super) attention_norm: Option<Norm<'py>>,
    qkv: Product<'py>,
    output: Product<'py>,
    pub(super) mlp_norm: Norm<'py>,
    pub(super) mlp: MlpTensors<'py>,
}

impl LayerTensors<'_> {
    /// Appends the layer's products, in the order in which `weights.rs` takes them back.
    pub(super) fn add_to(&self, sources: &mut Vec<LinearSource<'_>>) -> PyResult<()> {
        let mut products = vec![&self.qkv, &self.output];
        match &self.mlp {
            MlpTensors::Dense(dense) => products.extend([&dense.gate_up, &dense.down]),
            MlpTensors::Mixture(mixture) => {
                products.push(&mixture.router);
                for expert in &mixture.experts {
                    products.extend([&expert.gate_up, &expert.down]);
                }
            }
        }
        for product in products {
            sources.push(product.source()?);
        }
        Ok(())
    }
}
