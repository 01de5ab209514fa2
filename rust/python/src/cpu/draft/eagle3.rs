//! The weights of an EAGLE-3 drafter.

use pyo3::prelude::*;
use spectrie_cpu::{Dtype, Eagle3Parts, Parallel, Tap};

use crate::cpu::tensors::{LayerTensors, Norm, Product, Tensor, numbers, vector};
use crate::cpu::weights::Packing;

/// As `spectrie.model.drafters.eagle3` describes them.
#[derive(FromPyObject)]
pub(super) struct Eagle3Tensors<'py> {
    /// Layers whose outputs make a feature; empty = the output of the last norm.
    tapped_layers: Vec<usize>,
    feature_norms: Vec<Norm<'py>>,
    fc: Option<Product<'py>>,
    hidden_norm: Norm<'py>,
    norm_before_residual: bool,
    layers: Vec<LayerTensors<'py>>,
    output_norm: Option<Norm<'py>>,
    embedding: Option<Tensor>,
    /// `None` = one level behind the other.
    parallel: Option<ParallelTensors>,
}

#[derive(FromPyObject)]
struct ParallelTensors {
    block: usize,
    mask_token: usize,
    mask_feature: Tensor,
}

impl ParallelTensors {
    fn build<E: Dtype>(&self) -> PyResult<Parallel<E>> {
        Ok(Parallel {
            block: self.block,
            mask_token: self.mask_token,
            mask_feature: numbers(&self.mask_feature)?,
        })
    }
}

impl Eagle3Tensors<'_> {
    pub(super) fn parts<E: Dtype>(&self, packing: &Packing<'_>) -> PyResult<Eagle3Parts<E>> {
        let taps = match self.tapped_layers.as_slice() {
            [] => vec![Tap::Final],
            layers => layers.iter().copied().map(Tap::Layer).collect(),
        };
        Ok(Eagle3Parts {
            taps,
            feature_norms: self
                .feature_norms
                .iter()
                .map(vector)
                .collect::<PyResult<_>>()?,
            fc: self.fc.as_ref().map(|fc| packing.product(fc)).transpose()?,
            hidden_norm: vector(&self.hidden_norm)?,
            norm_before_residual: self.norm_before_residual,
            layers: packing.layers(&self.layers)?,
            output_norm: self.output_norm.as_ref().map(vector).transpose()?,
            embedding: self.embedding.as_ref().map(numbers).transpose()?,
            parallel: self
                .parallel
                .as_ref()
                .map(ParallelTensors::build)
                .transpose()?,
        })
    }
}
