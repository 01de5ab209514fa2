//! Weights of a decoder, packed layer by layer.

use std::sync::Mutex;

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use spectrie_cpu::{
    AttentionConfig, Bf16, CpuError, Decoder, DecoderParts, Dense, Dtype, Embedding, Layer, Linear,
    Mixture, Mlp, Split, Team, pack_all,
};

use super::tensors::{LayerTensors, MlpTensors, Norm, Product, Tensor, stored, vector};
use crate::errors::cpu_error;
use crate::lock::lock;

/// What packs tensors, with the GIL released.
pub(super) struct Packing<'py> {
    pub(super) py: Python<'py>,
    pub(super) team: &'py Team,
}

impl Packing<'_> {
    pub(super) fn product<E: Dtype>(&self, product: &Product<'_>) -> PyResult<Linear<E>> {
        let sources = [product.source()?];
        let packed = self.py.detach(|| pack_all::<E>(self.team, &sources));
        let packed = packed.map_err(cpu_error)?.pop();
        packed.ok_or_else(|| cpu_error(CpuError::Panicked))
    }

    pub(super) fn layers<E: Dtype>(&self, layers: &[LayerTensors<'_>]) -> PyResult<Vec<Layer<E>>> {
        let mut sources = Vec::new();
        for layer in layers {
            layer.add_to(&mut sources)?;
        }
        let packed = self
            .py
            .detach(|| pack_all::<E>(self.team, &sources))
            .map_err(cpu_error)?;
        let mut packed = packed.into_iter();
        let mut next = || packed.next().ok_or_else(|| cpu_error(CpuError::Panicked));
        layers
            .iter()
            .map(|layer| {
                let (qkv, output) = (next()?, next()?);
                let mlp = match &layer.mlp {
                    MlpTensors::Dense(_) => Mlp::Dense(dense(&mut next)?),
                    MlpTensors::Mixture(mixture) => Mlp::Mixture(Mixture {
                        router: next()?,
                        experts: (0..mixture.experts.len())
                            .map(|_| dense(&mut next))
                            .collect::<PyResult<_>>()?,
                        chosen: mixture.chosen,
                        normalised: mixture.normalised,
                    }),
                };
                Ok(Layer {
                    attention_norm: layer.attention_norm.as_ref().map(vector).transpose()?,
                    qkv,
                    output,
                    mlp_norm: vector(&layer.mlp_norm)?,
                    mlp,
                })
            })
            .collect()
    }
}

/// Weights so far.
pub(super) struct Parts<E: Dtype> {
    layers: Vec<Layer<E>>,
    ends: Option<(Embedding<E>, Vec<f32>, Linear<E>)>,
    whole_head: Option<Linear<E>>,
}

impl<E: Dtype> Parts<E> {
    fn new() -> Self {
        Self {
            layers: Vec::new(),
            ends: None,
            whole_head: None,
        }
    }

    fn add_layers(
        &mut self,
        py: Python<'_>,
        team: &Team,
        layers: &[LayerTensors<'_>],
    ) -> PyResult<()> {
        self.layers.extend(Packing { py, team }.layers(layers)?);
        Ok(())
    }

    fn set_ends(
        &mut self,
        py: Python<'_>,
        team: &Team,
        embedding: Option<&Tensor>,
        final_norm: Vec<f32>,
        head: &Product<'_>,
    ) -> PyResult<()> {
        let sources = [head.source()?];
        let table = embedding.map(stored).transpose()?;
        let (packed, embedding) = py.detach(|| {
            let embedding = table.map_or(Embedding::Tied, |table| {
                let mut values = Vec::with_capacity(table.len());
                table.append_to(&mut values);
                Embedding::Table(values)
            });
            (pack_all::<E>(team, &sources), embedding)
        });
        let head = packed.map_err(cpu_error)?.pop();
        self.ends = head.map(|head| (embedding, final_norm, head));
        Ok(())
    }

    fn set_whole_head(&mut self, py: Python<'_>, team: &Team, head: &Product<'_>) -> PyResult<()> {
        self.whole_head = Some(Packing { py, team }.product(head)?);
        Ok(())
    }

    pub(super) fn build(
        self,
        attention: AttentionConfig,
        max_rows: usize,
        split: Option<Split>,
    ) -> PyResult<Decoder<E>> {
        let Some((embedding, final_norm, head)) = self.ends else {
            return Err(PyValueError::new_err(
                "weights lack the head: call set_ends",
            ));
        };
        let parts = DecoderParts {
            layers: self.layers,
            embedding,
            final_norm,
            head,
            whole_head: self.whole_head,
            attention,
            max_rows,
            split,
        };
        Decoder::new(parts).map_err(cpu_error)
    }
}

fn dense<E: Dtype>(next: &mut impl FnMut() -> PyResult<Linear<E>>) -> PyResult<Dense<E>> {
    Ok(Dense {
        gate_up: next()?,
        down: next()?,
    })
}

pub(super) enum AnyParts {
    F32(Parts<f32>),
    Bf16(Parts<Bf16>),
}

/// Packed weights of a decoder to be.
#[pyclass(frozen)]
pub(super) struct CpuWeights {
    team: Team,
    parts: Mutex<Option<AnyParts>>,
}

impl CpuWeights {
    /// The weights, for the one decoder that they become.
    pub(super) fn take(&self) -> PyResult<AnyParts> {
        lock(&self.parts).take().ok_or_else(Self::taken)
    }

    fn taken() -> PyErr {
        PyValueError::new_err("these weights belong to a decoder already")
    }
}

#[pymethods]
impl CpuWeights {
    #[new]
    #[pyo3(signature = (*, bfloat16, threads))]
    fn new(bfloat16: bool, threads: usize) -> Self {
        let parts = if bfloat16 {
            AnyParts::Bf16(Parts::new())
        } else {
            AnyParts::F32(Parts::new())
        };
        Self {
            team: Team::new(threads),
            parts: Mutex::new(Some(parts)),
        }
    }

    #[allow(clippy::needless_pass_by_value)] // extracted from Python
    fn add_layers(&self, py: Python<'_>, layers: Vec<LayerTensors<'_>>) -> PyResult<()> {
        match lock(&self.parts).as_mut().ok_or_else(Self::taken)? {
            AnyParts::F32(parts) => parts.add_layers(py, &self.team, &layers),
            AnyParts::Bf16(parts) => parts.add_layers(py, &self.team, &layers),
        }
    }

    #[pyo3(signature = (*, embedding, final_norm, head))]
    #[allow(clippy::needless_pass_by_value)] // extracted from Python
    fn set_ends(
        &self,
        py: Python<'_>,
        embedding: Option<Tensor>,
        final_norm: Norm<'_>,
        head: Product<'_>,
    ) -> PyResult<()> {
        let (team, norm) = (&self.team, vector(&final_norm)?);
        match lock(&self.parts).as_mut().ok_or_else(Self::taken)? {
            AnyParts::F32(parts) => parts.set_ends(py, team, embedding.as_ref(), norm, &head),
            AnyParts::Bf16(parts) => parts.set_ends(py, team, embedding.as_ref(), norm, &head),
        }
    }

    #[allow(clippy::needless_pass_by_value)] // extracted from Python
    fn set_whole_head(&self, py: Python<'_>, head: Product<'_>) -> PyResult<()> {
        match lock(&self.parts).as_mut().ok_or_else(Self::taken)? {
            AnyParts::F32(parts) => parts.set_whole_head(py, &self.team, &head),
            AnyParts::Bf16(parts) => parts.set_whole_head(py, &self.team, &head),
        }
    }
}
