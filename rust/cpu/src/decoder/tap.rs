//! Features: what layers of a forward give for each row, side by side, for drafters and for training them.
#![allow(unsafe_code)] // rows of the buffers are written and read by several threads

use std::ops::Range;

use spectrie_simd::Isa;

use crate::buffer::{Buffer, SharedSlice};
use crate::decoder::embedding::Target;
use crate::decoder::norm::NormRows;
use crate::decoder::workspace::Buffers;
use crate::error::CpuError;
use crate::simd::{Dtype, Kernel, LANES, Simd, launch, load_part, store_part};
use crate::threads::{Member, share_out};

/// One part of a feature; each is as wide as the residual stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tap {
    /// Output of a layer: the residual stream with both halves of the layer added.
    Layer(usize),
    /// Output of the norm before the LM head.
    Final,
}

/// What runs behind the layers of each block of a tapped forward.
pub(crate) trait Follower<E: Dtype>: Sync {
    /// Called by all members with the rows of a block, whose features and those of all rows before them are
    /// complete in `features`; ends with a barrier if it does anything.
    fn follow(
        &self,
        member: &Member<'_>,
        rows: Range<usize>,
        features: SharedSlice<'_, E>,
        target: Target<'_, E>,
    );
}

/// A forward that keeps features, and maybe works with them.
pub(crate) struct Tapped<'a, E: Dtype> {
    pub(crate) features: &'a mut Features<E>,
    pub(crate) follower: Option<&'a dyn Follower<E>>,
}

/// The features of the last forward's rows, in the decoder's dtype.
pub struct Features<E> {
    taps: Vec<Tap>,
    hidden: usize,
    /// `[max_rows, taps * hidden]`.
    values: Buffer<E>,
    /// Rows of the last forward.
    num_rows: usize,
}

impl<E: Dtype> Features<E> {
    /// Room for the features of `max_rows` rows of a decoder of `num_layers` layers; without taps for none.
    ///
    /// # Errors
    /// [`CpuError::Size`] for a layer that does not exist, [`CpuError::Memory`].
    pub(crate) fn new(
        taps: Vec<Tap>,
        num_layers: usize,
        hidden: usize,
        max_rows: usize,
    ) -> Result<Self, CpuError> {
        for tap in &taps {
            match *tap {
                Tap::Layer(layer) if layer >= num_layers => {
                    return Err(CpuError::Size {
                        what: "tapped layer",
                        given: layer,
                        allowed: "below the number of layers",
                    });
                }
                Tap::Layer(_) | Tap::Final => {}
            }
        }
        Ok(Self {
            values: Buffer::zeroed(max_rows * taps.len() * hidden)?,
            taps,
            hidden,
            num_rows: 0,
        })
    }

    /// Width of a row's feature.
    pub fn width(&self) -> usize {
        self.taps.len() * self.hidden
    }

    /// Rows of the last forward.
    pub fn num_rows(&self) -> usize {
        self.num_rows
    }

    /// The features of the last forward's rows, `[rows, width]`.
    pub fn values(&self) -> &[E] {
        &self.values.as_slice()[..self.num_rows * self.width()]
    }

    /// What the members of a team write in a forward of `num_rows` rows.
    pub(crate) fn writer<'a>(
        &'a mut self,
        num_rows: usize,
        final_norm: &'a [f32],
        epsilon: f32,
        with_delta: bool,
    ) -> Tapping<'a, E> {
        self.num_rows = num_rows;
        Tapping {
            width: self.width(),
            taps: &self.taps,
            hidden: self.hidden,
            values: SharedSlice::new(self.values.as_mut_slice()),
            final_norm,
            epsilon,
            with_delta,
        }
    }
}

/// The taps of one forward, called by all members of a team.
#[derive(Clone, Copy)]
pub(crate) struct Tapping<'a, E> {
    taps: &'a [Tap],
    hidden: usize,
    width: usize,
    /// `[rows of the forward, width]`; the rows of a block are complete after `after_layers`.
    pub(crate) values: SharedSlice<'a, E>,
    final_norm: &'a [f32],
    epsilon: f32,
    with_delta: bool,
}

impl<E: Dtype> Tapping<'_, E> {
    /// Keeps the output of a layer for `rows` of the batch, whose residual stream and delta begin the
    /// buffers; ends with a barrier if the layer is tapped.
    pub(crate) fn after_layer(
        &self,
        member: &Member<'_>,
        layer: usize,
        buffers: Buffers<'_, E>,
        rows: Range<usize>,
    ) {
        if !self.taps.contains(&Tap::Layer(layer)) {
            return;
        }
        let hidden = self.hidden;
        share_out(member, rows.len(), 4, |row| {
            for (part, tap) in self.taps.iter().enumerate() {
                if *tap != Tap::Layer(layer) {
                    continue;
                }
                // SAFETY: the stream and delta were written by the layer's stages; each row is taken once.
                let kernel = unsafe {
                    SumRow {
                        x: buffers.residual.read(row * hidden, hidden),
                        delta: buffers.delta.read(row * hidden, hidden),
                        out: self.part(rows.start + row, part),
                    }
                };
                launch(Isa::detect(), kernel);
            }
        });
        member.barrier();
    }

    /// Keeps the output of the last norm, where it is tapped; ends with a barrier then.
    pub(crate) fn after_layers(
        &self,
        member: &Member<'_>,
        buffers: Buffers<'_, E>,
        rows: Range<usize>,
    ) {
        if !self.taps.contains(&Tap::Final) {
            return;
        }
        let hidden = self.hidden;
        // The norm adds in place, which the LM head's own must find undone.
        let mut stream = vec![0.0; hidden];
        share_out(member, rows.len(), 4, |row| {
            for (part, tap) in self.taps.iter().enumerate() {
                if *tap != Tap::Final {
                    continue;
                }
                // SAFETY: as in `after_layer`.
                let kernel = unsafe {
                    stream.copy_from_slice(buffers.residual.read(row * hidden, hidden));
                    NormRows {
                        x: &mut stream,
                        delta: self
                            .with_delta
                            .then(|| buffers.delta.read(row * hidden, hidden)),
                        weight: self.final_norm,
                        epsilon: self.epsilon,
                        out: self.part(rows.start + row, part),
                    }
                };
                launch(Isa::detect(), kernel);
            }
        });
        member.barrier();
    }

    /// # Safety
    /// No other thread touches this row.
    #[allow(clippy::mut_from_ref)] // as `SharedSlice::part`
    unsafe fn part(&self, row: usize, part: usize) -> &mut [E] {
        let start = row * self.width + part * self.hidden;
        // SAFETY: by the caller's promise.
        unsafe { self.values.part(start, self.hidden) }
    }
}

/// `x + delta`, narrowed; slices of one length.
struct SumRow<'a, E> {
    x: &'a [f32],
    delta: &'a [E],
    out: &'a mut [E],
}

impl<E: Dtype> Kernel for SumRow<'_, E> {
    #[inline(always)]
    fn run<S: Simd>(self) {
        for ((x, delta), out) in self
            .x
            .chunks(LANES)
            .zip(self.delta.chunks(LANES))
            .zip(self.out.chunks_mut(LANES))
        {
            let total = S::add(load_part::<S, f32>(x), load_part::<S, E>(delta));
            store_part::<S, E>(total, out);
        }
    }
}
