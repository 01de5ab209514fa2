//! The head of a drafter.

use pyo3::prelude::*;
use spectrie_cpu::{Cut, Dtype, LowRank, Vocabulary};

use crate::cpu::tensors::Product;
use crate::cpu::weights::Packing;

/// As `spectrie.model.drafters.vocabulary` describes it: told apart by what it has.
#[derive(FromPyObject)]
pub(super) enum VocabularyTensors<'py> {
    Cut(CutTensors<'py>),
    LowRank(LowRankTensors<'py>),
}

#[derive(FromPyObject)]
pub(super) struct CutTensors<'py> {
    head: Product<'py>,
    tokens: Vec<i32>,
    is_targets: bool,
}

#[derive(FromPyObject)]
pub(super) struct LowRankTensors<'py> {
    down: Product<'py>,
    up: Product<'py>,
}

impl VocabularyTensors<'_> {
    pub(super) fn build<E: Dtype>(&self, packing: &Packing<'_>) -> PyResult<Vocabulary<E>> {
        Ok(match self {
            Self::Cut(cut) => Vocabulary::Cut(Cut {
                head: packing.product(&cut.head)?,
                tokens: cut.tokens.clone(),
                is_targets: cut.is_targets,
            }),
            Self::LowRank(low) => Vocabulary::LowRank(LowRank {
                down: packing.product(&low.down)?,
                up: packing.product(&low.up)?,
            }),
        })
    }
}
