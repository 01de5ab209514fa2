//! A drafter's weights, one variant for each kind, and the geometry of its attention.

use numpy::{PyReadonlyArray2, PyUntypedArrayMethods};
use pyo3::prelude::*;
use spectrie_cpu::{
    AttentionConfig, Decoder, DraftSizes, DrafterParts, Drafting, Dtype, LayerConfig, Team,
    Vocabulary,
};

use super::dflash::DflashTensors;
use super::eagle3::Eagle3Tensors;
use super::fused::FusedTensors;
use super::model::ModelTensors;
use super::vocabulary::VocabularyTensors;
use crate::cpu::weights::Packing;
use crate::errors::cpu_error;

/// Weights of a drafter, as `spectrie.model.drafters` describes them.
#[derive(FromPyObject)]
enum KindTensors<'py> {
    Eagle3(Eagle3Tensors<'py>),
    Fused(FusedTensors<'py>),
    Dflash(DflashTensors<'py>),
    // The last: all of its names are names of the others too.
    Model(ModelTensors<'py>),
}

/// A drafter: its layers, and the head that names tokens.
#[derive(FromPyObject)]
pub(crate) struct DrafterTensors<'py> {
    weights: KindTensors<'py>,
    /// `None` = the target's own head.
    vocabulary: Option<VocabularyTensors<'py>>,
}

/// Attention of one of a drafter's layers.
#[derive(FromPyObject)]
struct AttentionLayerTensors {
    rotary: bool,
    /// Keys that a row attends to; `None` = all.
    window: Option<usize>,
    looks_ahead: bool,
    query_norm: Option<Vec<f32>>,
    key_norm: Option<Vec<f32>>,
}

/// Attention of a drafter's layers.
#[derive(FromPyObject)]
pub(crate) struct AttentionTensors<'py> {
    heads: usize,
    kv_heads: usize,
    head_dim: usize,
    norm_epsilon: f32,
    layers: Vec<AttentionLayerTensors>,
    cosines: PyReadonlyArray2<'py, f32>,
    sines: PyReadonlyArray2<'py, f32>,
}

impl AttentionTensors<'_> {
    pub(crate) fn config(&self, num_pages: usize) -> PyResult<AttentionConfig> {
        let layers = self.layers.iter().map(|layer| LayerConfig {
            rotary: layer.rotary,
            window: layer.window,
            looks_ahead: layer.looks_ahead,
            first_key: 0,
            query_norm: layer.query_norm.clone(),
            key_norm: layer.key_norm.clone(),
        });
        Ok(AttentionConfig {
            heads: self.heads,
            kv_heads: self.kv_heads,
            head_dim: self.head_dim,
            num_pages,
            max_context: self.cosines.shape()[0],
            scale: (self.head_dim as f32).powf(-0.5),
            norm_epsilon: self.norm_epsilon,
            cosines: self.cosines.as_slice()?.to_vec(),
            sines: self.sines.as_slice()?.to_vec(),
            layers: layers.collect(),
        })
    }
}

impl DrafterTensors<'_> {
    /// Packs the weights and puts the drafter beside a decoder.
    pub(crate) fn build<E: Dtype>(
        &self,
        py: Python<'_>,
        team: &Team,
        decoder: &Decoder<E>,
        attention: AttentionConfig,
        sizes: DraftSizes,
    ) -> PyResult<Drafting<E>> {
        let packing = Packing { py, team };
        let parts = match &self.weights {
            KindTensors::Eagle3(tensors) => DrafterParts::Eagle3(tensors.parts(&packing)?),
            KindTensors::Fused(tensors) => DrafterParts::Fused(tensors.parts(&packing)?),
            KindTensors::Dflash(tensors) => DrafterParts::Dflash(tensors.parts(&packing)?),
            KindTensors::Model(tensors) => DrafterParts::Model(tensors.parts(&packing)?),
        };
        let vocabulary = match &self.vocabulary {
            None => Vocabulary::Whole,
            Some(vocabulary) => vocabulary.build(&packing)?,
        };
        Drafting::new(decoder, parts, vocabulary, attention, sizes).map_err(cpu_error)
    }
}
