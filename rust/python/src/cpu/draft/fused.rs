//! The weights of an EAGLE-2 drafter, or of a layer for multi-token prediction.

use pyo3::prelude::*;
use spectrie_cpu::{Dtype, FusedParts, Tap};

use crate::cpu::tensors::{LayerTensors, Norm, Product, Tensor, numbers, vector};
use crate::cpu::weights::Packing;

/// As `spectrie.model.drafters.description` describes them.
#[derive(FromPyObject)]
pub(super) struct FusedTensors<'py> {
    vector_norm: Option<Norm<'py>>,
    state_norm: Option<Norm<'py>>,
    state_first: bool,
    fc: Product<'py>,
    layers: Vec<LayerTensors<'py>>,
    output_norm: Option<Norm<'py>>,
    carries_normed: bool,
    embedding: Option<Tensor>,
}

impl FusedTensors<'_> {
    pub(super) fn parts<E: Dtype>(&self, packing: &Packing<'_>) -> PyResult<FusedParts<E>> {
        let norm = |norm: &Option<Norm<'_>>| norm.as_ref().map(vector).transpose();
        Ok(FusedParts {
            tap: Tap::Final,
            vector_norm: norm(&self.vector_norm)?,
            state_norm: norm(&self.state_norm)?,
            state_first: self.state_first,
            fc: packing.product(&self.fc)?,
            layers: packing.layers(&self.layers)?,
            output_norm: norm(&self.output_norm)?,
            carries_normed: self.carries_normed,
            embedding: self.embedding.as_ref().map(numbers).transpose()?,
        })
    }
}
