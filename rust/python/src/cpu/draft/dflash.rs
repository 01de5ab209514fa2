//! The weights of a DFLASH drafter.

use pyo3::prelude::*;
use spectrie_cpu::{Around, Convolution, DflashParts, Dtype, Mask, Tap};

use crate::cpu::tensors::{LayerTensors, Norm, Product, vector};
use crate::cpu::weights::Packing;

/// As `spectrie.model.drafters.dflash` describes them.
#[derive(FromPyObject)]
pub(super) struct DflashTensors<'py> {
    tapped_layers: Vec<usize>,
    fc: Product<'py>,
    context_norm: Norm<'py>,
    layers: Vec<LayerTensors<'py>>,
    output_norm: Norm<'py>,
    mask_token: usize,
    /// In place of that token's.
    mask_vector: Option<Norm<'py>>,
    block: usize,
    convolutions: Vec<AroundTensors<'py>>,
    vector_scale: f32,
}

/// The convolutions of a layer.
#[derive(FromPyObject)]
struct AroundTensors<'py> {
    attention: ConvolutionTensors<'py>,
    mlp: ConvolutionTensors<'py>,
}

#[derive(FromPyObject)]
struct ConvolutionTensors<'py> {
    base: Norm<'py>,
    kernel: Product<'py>,
    taps: usize,
}

impl ConvolutionTensors<'_> {
    fn build<E: Dtype>(&self, packing: &Packing<'_>) -> PyResult<Convolution<E>> {
        Ok(Convolution {
            base: vector(&self.base)?,
            kernel: packing.product(&self.kernel)?,
            taps: self.taps,
        })
    }
}

impl DflashTensors<'_> {
    pub(super) fn parts<E: Dtype>(&self, packing: &Packing<'_>) -> PyResult<DflashParts<E>> {
        Ok(DflashParts {
            taps: self.tapped_layers.iter().copied().map(Tap::Layer).collect(),
            fc: packing.product(&self.fc)?,
            context_norm: vector(&self.context_norm)?,
            layers: packing.layers(&self.layers)?,
            output_norm: vector(&self.output_norm)?,
            mask: match &self.mask_vector {
                Some(mask) => Mask::Vector(vector(mask)?),
                None => Mask::Token(self.mask_token),
            },
            block: self.block,
            convolutions: self
                .convolutions
                .iter()
                .map(|around| {
                    Ok(Around {
                        attention: around.attention.build(packing)?,
                        mlp: around.mlp.build(packing)?,
                    })
                })
                .collect::<PyResult<_>>()?,
            vector_scale: self.vector_scale,
        })
    }
}
