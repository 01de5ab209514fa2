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
    /// By their numbers; `None` for one that was taken away.
    drafters: Vec<Option<Beside<E>>>,
}

/// A drafter beside a decoder.
struct Beside<E: Dtype> {
    drafting: Drafting<E>,
    /// Whether forwards leave it out, to be timed without it.
    resting: bool,
}

impl<E: Dtype> Whole<E> {
    fn new(decoder: Decoder<E>) -> Self {
        Self {
            decoder,
            features: None,
            drafters: Vec::new(),
        }
    }

    fn forward(
        &mut self,
        team: &Team,
        step: &Step<'_>,
        arrays: &BatchArrays<'_>,
        upkeep: &UpkeepArrays<'_>,
    ) -> Result<TopTokens, CpuError> {
        let awake = self.drafters.iter_mut().flatten();
        let awake = awake.filter(|one| !one.resting);
        let mut awake: Vec<_> = awake.map(|one| &mut one.drafting).collect();
        if !awake.is_empty() {
            let decoder = &mut self.decoder;
            return Drafting::forward_beside(&mut awake, decoder, team, step, arrays, upkeep);
        }
        let features = self.features.as_mut();
        self.decoder.forward_tapped(team, step, features)
    }

    fn draft(
        &mut self,
        drafter: usize,
        team: &Team,
        arrays: &DraftArrays<'_>,
    ) -> Option<Result<Answers, CpuError>> {
        let (mut asked, mut others) = (None, Vec::new());
        for (number, one) in self.drafters.iter_mut().enumerate() {
            let drafting = one.as_mut().map(|one| &mut one.drafting);
            if number == drafter {
                asked = drafting;
            } else {
                others.extend(drafting);
            }
        }
        Some(asked?.draft_beside(&mut others, &mut self.decoder, team, arrays))
    }

    fn drafting(&self, drafter: usize) -> Option<&Drafting<E>> {
        let one = self.drafters.get(drafter)?.as_ref()?;
        Some(&one.drafting)
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
        let drafters = self.drafters.iter().flatten();
        let mut of_drafters = drafters.map(|one| one.drafting.features());
        let read = of_drafters.find(|features| features.width() > 0);
        // What is tapped beside drafters is not kept.
        let alone = self.drafters.iter().all(Option::is_none);
        let features = read.or(self.features.as_ref().filter(|_| alone));
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

    /// Puts one more drafter beside the decoder; gives its number.
    pub(super) fn add_drafter(
        &mut self,
        py: Python<'_>,
        team: &Team,
        tensors: &DrafterTensors<'_>,
        attention: AttentionConfig,
        sizes: DraftSizes,
    ) -> PyResult<usize> {
        each!(self, whole => {
            let drafting = tensors.build(py, team, &whole.decoder, attention, sizes)?;
            whole.drafters.push(Some(Beside { drafting, resting: false }));
            Ok(whole.drafters.len() - 1)
        })
    }

    /// Takes a drafter away.
    pub(super) fn drop_drafter(&mut self, drafter: usize) {
        each!(self, whole => if let Some(one) = whole.drafters.get_mut(drafter) {
            *one = None;
        });
    }

    /// Whether there is a drafter.
    pub(super) fn has_drafter(&self) -> bool {
        each!(self, whole => whole.drafters.iter().any(Option::is_some))
    }

    /// Bytes of a drafter's weights; `None` without it.
    pub(super) fn drafter_bytes(&self, drafter: usize) -> Option<usize> {
        each!(self, whole => whole.drafting(drafter).map(Drafting::bytes))
    }

    /// Whether later forwards leave a drafter out.
    pub(super) fn set_resting(&mut self, drafter: usize, resting: bool) {
        each!(self, whole => if let Some(Some(one)) = whole.drafters.get_mut(drafter) {
            one.resting = resting;
        });
    }

    /// Answers of a drafter; `None` without it.
    pub(super) fn draft(
        &mut self,
        drafter: usize,
        team: &Team,
        arrays: &DraftArrays<'_>,
    ) -> Option<Result<Answers, CpuError>> {
        each!(self, whole => whole.draft(drafter, team, arrays))
    }

    /// For tests; see `Drafting::poison`.
    pub(super) fn poison(&mut self, value: f32) {
        each!(self, whole => for one in whole.drafters.iter_mut().flatten() {
            one.drafting.poison(value);
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
