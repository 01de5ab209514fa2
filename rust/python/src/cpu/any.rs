//! A decoder of either dtype, with what its forwards keep besides logits.

use numpy::{IntoPyArray, PyArrayMethods};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use spectrie_cpu::{
    Answers, AttentionConfig, BatchArrays, Bf16, CpuError, Decoder, DraftArrays, DraftSizes,
    Drafting, Dtype, Features, Split, Step, Tap, Team, TopTokens, UpkeepArrays,
};

use super::draft::DrafterTensors;
use super::weights::AnyParts;

/// A decoder of one dtype.
pub(super) struct Whole<E: Dtype> {
    decoder: Decoder<E>,
    features: Option<Features<E>>,
    drafting: Option<Drafting<E>>,
    /// Whether forwards leave the drafter out, to be timed without it.
    resting: bool,
}

impl<E: Dtype> Whole<E> {
    fn new(decoder: Decoder<E>) -> Self {
        Self {
            decoder,
            features: None,
            drafting: None,
            resting: false,
        }
    }

    fn forward(
        &mut self,
        team: &Team,
        step: &Step<'_>,
        arrays: &BatchArrays<'_>,
        upkeep: &UpkeepArrays<'_>,
    ) -> Result<TopTokens, CpuError> {
        if let Some(drafting) = self.drafting.as_mut().filter(|_| !self.resting) {
            return drafting.forward(&mut self.decoder, team, step, arrays, upkeep);
        }
        let features = self.features.as_mut();
        self.decoder.forward_tapped(team, step, features)
    }

    fn draft(
        &mut self,
        team: &Team,
        arrays: &DraftArrays<'_>,
    ) -> Option<Result<Answers, CpuError>> {
        let drafting = self.drafting.as_mut()?;
        Some(drafting.draft(&mut self.decoder, team, arrays))
    }

    fn set_taps(&mut self, taps: Vec<Tap>) -> Result<(), CpuError> {
        self.features = match taps.as_slice() {
            [] => None,
            _ => Some(self.decoder.features(taps)?),
        };
        Ok(())
    }

    /// Of the last forward: values and width.
    fn features(&self) -> PyResult<(&[E], usize)> {
        let features = self.drafting.as_ref().map(Drafting::features);
        // A drafter may read none, and what is tapped beside it is not kept.
        let features = features.or(self.features.as_ref());
        let features = features.filter(|features| features.width() > 0);
        let features = features.ok_or_else(|| PyValueError::new_err("nothing is tapped"))?;
        Ok((features.values(), features.width()))
    }
}

/// A decoder of either dtype.
pub(super) enum AnyDecoder {
    F32(Whole<f32>),
    Bf16(Whole<Bf16>),
}

macro_rules! each {
    ($any:expr, $whole:ident => $value:expr) => {
        match $any {
            AnyDecoder::F32($whole) => $value,
            AnyDecoder::Bf16($whole) => $value,
        }
    };
}

impl AnyDecoder {
    pub(super) fn new(
        parts: AnyParts,
        attention: AttentionConfig,
        max_rows: usize,
        split: Option<Split>,
    ) -> PyResult<Self> {
        Ok(match parts {
            AnyParts::F32(parts) => Self::F32(Whole::new(parts.build(attention, max_rows, split)?)),
            AnyParts::Bf16(parts) => {
                Self::Bf16(Whole::new(parts.build(attention, max_rows, split)?))
            }
        })
    }

    pub(super) fn forward(
        &mut self,
        team: &Team,
        step: &Step<'_>,
        arrays: &BatchArrays<'_>,
        upkeep: &UpkeepArrays<'_>,
    ) -> Result<TopTokens, CpuError> {
        each!(self, whole => whole.forward(team, step, arrays, upkeep))
    }

    /// Puts a drafter beside the decoder, in place of another one.
    pub(super) fn set_drafter(
        &mut self,
        py: Python<'_>,
        team: &Team,
        tensors: &DrafterTensors<'_>,
        attention: AttentionConfig,
        sizes: DraftSizes,
    ) -> PyResult<()> {
        each!(self, whole => {
            whole.drafting = Some(tensors.build(py, team, &whole.decoder, attention, sizes)?);
        });
        Ok(())
    }

    /// Takes the drafter away.
    pub(super) fn drop_drafter(&mut self) {
        each!(self, whole => whole.drafting = None);
    }

    /// Bytes of the drafter's weights; `None` without one.
    pub(super) fn drafter_bytes(&self) -> Option<usize> {
        each!(self, whole => whole.drafting.as_ref().map(Drafting::bytes))
    }

    /// Whether later forwards leave the drafter out.
    pub(super) fn set_resting(&mut self, resting: bool) {
        each!(self, whole => whole.resting = resting);
    }

    /// Answers of the drafter; `None` without one.
    pub(super) fn draft(
        &mut self,
        team: &Team,
        arrays: &DraftArrays<'_>,
    ) -> Option<Result<Answers, CpuError>> {
        each!(self, whole => whole.draft(team, arrays))
    }

    /// For tests; see `Drafting::poison`.
    pub(super) fn poison(&mut self, value: f32) {
        each!(self, whole => if let Some(drafting) = &mut whole.drafting {
            drafting.poison(value);
        });
    }

    /// Logits, and their width.
    pub(super) fn logits(&self) -> (&[f32], usize) {
        each!(self, whole => (whole.decoder.logits(), whole.decoder.vocabulary()))
    }

    /// Bytes of weights and workspaces.
    pub(super) fn bytes(&self) -> usize {
        each!(self, whole => whole.decoder.bytes())
    }

    /// What every later forward keeps of each row; no taps = nothing.
    pub(super) fn set_taps(&mut self, taps: Vec<Tap>) -> Result<(), CpuError> {
        each!(self, whole => whole.set_taps(taps))
    }

    /// A copy of the features of the last forward's rows.
    pub(super) fn features(&self) -> PyResult<Rows> {
        Ok(match self {
            Self::F32(whole) => {
                let (values, width) = whole.features()?;
                Rows::F32(values.to_vec(), width)
            }
            Self::Bf16(whole) => {
                let (values, width) = whole.features()?;
                Rows::Bf16(values.iter().map(|value| value.0).collect(), width)
            }
        })
    }
}

/// Rows of one width.
pub(super) enum Rows {
    F32(Vec<f32>, usize),
    /// As bits.
    Bf16(Vec<u16>, usize),
}

impl Rows {
    pub(super) fn array(self, py: Python<'_>) -> PyResult<Bound<'_, PyAny>> {
        Ok(match self {
            Self::F32(values, width) => array(py, values, width)?.into_any(),
            Self::Bf16(values, width) => array(py, values, width)?.into_any(),
        })
    }
}

fn array<T: numpy::Element>(
    py: Python<'_>,
    values: Vec<T>,
    width: usize,
) -> PyResult<Bound<'_, numpy::PyArray2<T>>> {
    let rows = values.len() / width;
    values.into_pyarray(py).reshape([rows, width])
}
