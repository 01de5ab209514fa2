//! The entries of committed and verified rows.
//!
//! Every row of the target's forward has a true token and, before it, a true feature. So an entry that a guess left
//! is overwritten by what the target says.

use std::borrow::Cow;
use std::ops::Range;

use crate::attention::{Batch, BatchRow};
use crate::buffer::SharedSlice;
use crate::decoder::{Follower, Step, Target};
use crate::draft::arrays::{UpkeepArrays, check_each};
use crate::draft::drafter::{Drafter, Goal, Origin, Run};
use crate::draft::room::Space;
use crate::error::CpuError;
use crate::matmul::Linear;
use crate::simd::Dtype;
use crate::threads::Member;

/// In place of a request's feature: none of its rows gets an entry.
const LEFT_OUT: i32 = -2;

/// Which rows of a forward get an entry, and what they continue.
pub(crate) struct Upkeep<'a> {
    /// Rows with an entry.
    pub(crate) batch: Cow<'a, Batch>,
    /// Of each of these.
    origins: Vec<Origin>,
    tokens: Vec<i32>,
    /// How many of them lie before each row of the forward, and in all.
    before: Vec<usize>,
}

impl<'a> Upkeep<'a> {
    /// What a checked batch needs; `row_parent` and `request_row_start` are those it was made of, `store_rows`
    /// those of the features.
    ///
    /// # Errors
    /// [`CpuError::Length`] or [`CpuError::Entry`] for features that do not exist.
    pub(crate) fn new(
        step: &Step<'a>,
        links: Links<'_>,
        arrays: &UpkeepArrays<'_>,
        store_rows: usize,
    ) -> Result<Self, CpuError> {
        let requests = links.request_row_start.len();
        check_each("request_feature", arrays.request_feature, requests)?;
        check_each("request_first", arrays.request_first, requests)?;
        let num_rows = step.batch.num_rows();
        let mut upkeep = Self {
            batch: Cow::Borrowed(step.batch),
            origins: Vec::with_capacity(num_rows),
            tokens: Vec::with_capacity(num_rows),
            before: Vec::with_capacity(num_rows + 1),
        };
        let mut kept = Vec::with_capacity(num_rows);
        let mut seen = Vec::with_capacity(num_rows);
        for request in 0..requests {
            // Both were checked when the batch was made.
            let start = links.request_row_start[request] as usize;
            let count = links.request_row_count[request] as usize;
            let given = arrays.request_feature.get(request).copied().unwrap_or(-1);
            let feature = feature_of(request, given, store_rows)?;
            let first = first_of(request, arrays.request_first)?;
            for row in start..start + count {
                upkeep.before.push(kept.len());
                if given == LEFT_OUT || step.batch.rows[row].position < first {
                    continue;
                }
                let origin = match links.parent(request, row - start) {
                    // There is no feature before the first token.
                    _ if step.batch.rows[row].position == 0 => None,
                    None => feature,
                    Some(parent) => Some(Origin::Forward(start + parent)),
                };
                let Some(origin) = origin else { continue };
                upkeep.origins.push(origin);
                kept.push(row);
                seen.push(first);
                upkeep.tokens.push(step.tokens[row]);
            }
        }
        upkeep.before.push(kept.len());
        if kept.len() < num_rows || seen.iter().any(|&first| first > 0) {
            let mut part = step.batch.part(&kept);
            for (row, first) in part.rows.iter_mut().zip(seen) {
                row.first = first;
            }
            upkeep.batch = Cow::Owned(part);
        }
        Ok(upkeep)
    }

    /// Rows with an entry.
    pub(crate) fn num_rows(&self) -> usize {
        self.tokens.len()
    }

    /// Each of them: its place, its token, and what it continues.
    pub(crate) fn rows(&self) -> impl Iterator<Item = (BatchRow, i32, Origin)> {
        let rows = self.batch.rows.iter().zip(&self.tokens).zip(&self.origins);
        rows.map(|((&row, &token), &origin)| (row, token, origin))
    }

    /// The rows with an entry among `rows` of the forward.
    fn of(&self, rows: &Range<usize>) -> Range<usize> {
        self.before[rows.start]..self.before[rows.end]
    }
}

/// Where the feature before a request's first row lies, if it is known.
fn feature_of(request: usize, given: i32, store_rows: usize) -> Result<Option<Origin>, CpuError> {
    match usize::try_from(given) {
        Ok(row) if row < store_rows => Ok(Some(Origin::Store(row))),
        Err(_) if given == -1 || given == LEFT_OUT => Ok(None),
        _ => Err(CpuError::Entry {
            what: "request_feature",
            index: request,
            given: i64::from(given),
            expected: format!("{LEFT_OUT}, -1 or 0..{store_rows}"),
        }),
    }
}

/// Position of the first token of a request that gets an entry.
fn first_of(request: usize, given: &[i32]) -> Result<u32, CpuError> {
    let Some(&given) = given.get(request) else {
        return Ok(0);
    };
    u32::try_from(given).map_err(|_| CpuError::Entry {
        what: "request_first",
        index: request,
        given: i64::from(given),
        expected: "0 or more".into(),
    })
}

/// How a batch's rows hang together.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Links<'a> {
    pub(crate) row_parent: &'a [i32],
    pub(crate) request_row_start: &'a [i32],
    pub(crate) request_row_count: &'a [i32],
    pub(crate) request_kind: &'a [i32],
}

impl Links<'_> {
    /// The row of its request that a row follows, if it is in the forward.
    fn parent(&self, request: usize, row: usize) -> Option<usize> {
        if self.request_kind[request] == 0 {
            return row.checked_sub(1);
        }
        let start = self.request_row_start[request] as usize;
        usize::try_from(self.row_parent[start + row]).ok()
    }
}

/// The upkeep of one forward that computes entries itself.
pub(crate) struct Keeping<'a, E: Dtype> {
    pub(crate) upkeep: &'a Upkeep<'a>,
    pub(crate) drafter: &'a dyn Drafter<E>,
    pub(crate) space: Space<'a, E>,
    /// The drafter's own head, if it has one.
    pub(crate) own_head: Option<&'a Linear<E>>,
}

impl<E: Dtype> Follower<E> for Keeping<'_, E> {
    fn follow(
        &self,
        member: &Member<'_>,
        rows: Range<usize>,
        features: SharedSlice<'_, E>,
        target: Target<'_, E>,
    ) {
        let rows = self.upkeep.of(&rows);
        if rows.is_empty() {
            return;
        }
        let run = Run {
            goal: Goal::Entries,
            tokens: &self.upkeep.tokens[rows.clone()],
            origins: &self.upkeep.origins[rows.clone()],
            rows,
            space: &self.space,
            features,
            target,
            head: self.own_head.unwrap_or(target.head),
        };
        self.drafter.run(member, &run);
    }
}
