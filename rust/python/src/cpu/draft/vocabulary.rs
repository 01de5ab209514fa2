//! The head of a drafter.

use pyo3::prelude::*;
use spectrie_cpu::{Cut, Dtype, LowRank, Selector, Shaped, Vocabulary};

use crate::cpu::tensors::{Product, Tensor, numbers};
use crate::cpu::weights::Packing;

/// As `spectrie.model.drafters.vocabulary` describes it: told apart by what it has.
#[derive(FromPyObject)]
pub(super) enum VocabularyTensors<'py> {
    Cut(CutTensors<'py>),
    LowRank(LowRankTensors<'py>),
    Shaped(ShapedTensors<'py>),
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

#[derive(FromPyObject)]
pub(super) struct ShapedTensors<'py> {
    multiplier: f32,
    cap: Option<f32>,
    selector: Option<SelectorTensors<'py>>,
}

#[derive(FromPyObject)]
struct SelectorTensors<'py> {
    projection: Product<'py>,
    predecessor: Tensor,
    successor: Tensor,
    candidates: usize,
}

impl SelectorTensors<'_> {
    fn build<E: Dtype>(&self, packing: &Packing<'_>) -> PyResult<Selector<E>> {
        Ok(Selector {
            projection: packing.product(&self.projection)?,
            predecessor: numbers(&self.predecessor)?,
            successor: numbers(&self.successor)?,
            candidates: self.candidates,
        })
    }
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
            Self::Shaped(shaped) => Vocabulary::Shaped(Shaped {
                multiplier: shaped.multiplier,
                cap: shaped.cap,
                selector: shaped
                    .selector
                    .as_ref()
                    .map(|selector| selector.build(packing))
                    .transpose()?,
            }),
        })
    }
}
