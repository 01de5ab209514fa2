//! The weights of a model that drafts for another one, or for itself.

use pyo3::prelude::*;
use spectrie_cpu::{Dtype, ModelParts};

use crate::cpu::tensors::{LayerTensors, Norm, Tensor, numbers, vector};
use crate::cpu::weights::Packing;

/// As `spectrie.model.drafters.model` describes them.
#[derive(FromPyObject)]
pub(super) struct ModelTensors<'py> {
    layers: Vec<LayerTensors<'py>>,
    output_norm: Norm<'py>,
    /// `None` = the rows of the head.
    embedding: Option<Tensor>,
}

impl ModelTensors<'_> {
    pub(super) fn parts<E: Dtype>(&self, packing: &Packing<'_>) -> PyResult<ModelParts<E>> {
        Ok(ModelParts {
            layers: packing.layers(&self.layers)?,
            output_norm: vector(&self.output_norm)?,
            embedding: self.embedding.as_ref().map(numbers).transpose()?,
        })
    }
}
