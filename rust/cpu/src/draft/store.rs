//! Features that outlive a forward: one row for each page and for each running request.

use crate::buffer::Buffer;
use crate::draft::arrays::FeatureMoves;
use crate::error::CpuError;
use crate::simd::Dtype;

/// A table of features.
pub(crate) struct FeatureStore<E> {
    values: Buffer<E>,
    width: usize,
    num_rows: usize,
}

/// Checked moves.
pub(crate) struct Moves {
    from_rows: Vec<(usize, usize)>,
    within: Vec<(usize, usize)>,
}

impl<E: Dtype> FeatureStore<E> {
    pub(crate) fn new(num_rows: usize, width: usize) -> Result<Self, CpuError> {
        Ok(Self {
            values: Buffer::zeroed(num_rows * width)?,
            width,
            num_rows,
        })
    }

    pub(crate) fn num_rows(&self) -> usize {
        self.num_rows
    }

    pub(crate) fn values(&self) -> &[E] {
        self.values.as_slice()
    }

    /// Writes one number to all of it.
    pub(crate) fn fill(&mut self, value: f32) {
        self.values.as_mut_slice().fill(E::from_f32(value));
    }

    /// Checks moves from `num_features` rows of the last forward.
    pub(crate) fn check(
        &self,
        moves: FeatureMoves<'_>,
        num_features: usize,
    ) -> Result<Moves, CpuError> {
        let pairs = |what, flat: &[i32], limit| pairs(what, flat, limit, self.num_rows);
        Ok(Moves {
            from_rows: pairs("feature_moves", moves.from_rows, num_features)?,
            within: pairs("feature_copies", moves.within, self.num_rows)?,
        })
    }

    /// Does moves in order; `features` are those of the last forward.
    pub(crate) fn carry_out(&mut self, moves: &Moves, features: &[E]) {
        let width = self.width;
        let store = self.values.as_mut_slice();
        for &(from, to) in &moves.from_rows {
            store[to * width..(to + 1) * width]
                .copy_from_slice(&features[from * width..(from + 1) * width]);
        }
        for &(from, to) in &moves.within {
            store.copy_within(from * width..(from + 1) * width, to * width);
        }
    }
}

fn pairs(
    what: &'static str,
    flat: &[i32],
    from_limit: usize,
    to_limit: usize,
) -> Result<Vec<(usize, usize)>, CpuError> {
    let (pairs, rest) = flat.as_chunks::<2>();
    if !rest.is_empty() {
        return Err(CpuError::Length {
            what,
            given: flat.len(),
            expected: flat.len() + 1,
        });
    }
    let checked = |index: usize, given: i32, limit: usize| match usize::try_from(given) {
        Ok(row) if row < limit => Ok(row),
        _ => Err(CpuError::Entry {
            what,
            index,
            given: i64::from(given),
            expected: format!("0..{limit}"),
        }),
    };
    pairs
        .iter()
        .enumerate()
        .map(|(index, &[from, to])| {
            let from = checked(2 * index, from, from_limit)?;
            Ok((from, checked(2 * index + 1, to, to_limit)?))
        })
        .collect()
}
