//! Rows of a drafter that are computed outside of a forward.

use std::ops::Range;

use crate::buffer::SharedSlice;
use crate::decoder::{BLOCK_ROWS, Target};
use crate::draft::drafter::{Drafter, Goal, Origin, Run};
use crate::draft::room::Space;
use crate::error::CpuError;
use crate::matmul::Linear;
use crate::simd::Dtype;
use crate::threads::{Member, Team};

/// A drafter with all that one call gives it.
pub(crate) struct Runs<'a, E: Dtype> {
    drafter: &'a dyn Drafter<E>,
    space: &'a Space<'a, E>,
    target: Target<'a, E>,
    head: &'a Linear<E>,
}

impl<'a, E: Dtype> Runs<'a, E> {
    /// `own_head` is the drafter's own; without it, it names tokens by the target's.
    pub(crate) fn new(
        drafter: &'a dyn Drafter<E>,
        space: &'a Space<'a, E>,
        target: Target<'a, E>,
        own_head: Option<&'a Linear<E>>,
    ) -> Self {
        Self {
            drafter,
            space,
            target,
            head: own_head.unwrap_or(target.head),
        }
    }

    /// Computes some rows; see `Run`.
    pub(crate) fn run(
        &self,
        member: &Member<'_>,
        goal: Goal,
        rows: Range<usize>,
        tokens: &[i32],
        origins: &[Origin],
    ) {
        let mut nothing: [E; 0] = [];
        let run = Run {
            goal,
            rows,
            tokens,
            origins,
            space: self.space,
            features: SharedSlice::new(&mut nothing),
            target: self.target,
            head: self.head,
        };
        self.drafter.run(member, &run);
    }

    /// Computes the entries of all tokens; `origins` are theirs, or none where no features are read.
    pub(crate) fn enter(
        &self,
        team: &Team,
        tokens: &[i32],
        origins: &[Origin],
    ) -> Result<(), CpuError> {
        team.run(&|member| {
            for first in (0..tokens.len()).step_by(BLOCK_ROWS) {
                let rows = first..tokens.len().min(first + BLOCK_ROWS);
                let origins = origins.get(rows.clone()).unwrap_or_default();
                self.run(member, Goal::Entries, rows.clone(), &tokens[rows], origins);
            }
        })
    }
}
