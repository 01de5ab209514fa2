//! The rows of one level, checked once so that what computes them needs no checks.

use crate::attention::{Batch, BatchRow, PAGE_SIZE, indices};
use crate::draft::arrays::{DraftArrays, check_each};
use crate::draft::drafter::Origin;
use crate::error::CpuError;

/// A draft row of the step so far.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Drafted {
    position: usize,
    parent: Option<usize>,
}

/// What bounds a level.
pub(crate) struct Bounds {
    pub(crate) num_pages: usize,
    pub(crate) max_context: usize,
    pub(crate) vocabulary: usize,
    /// `None` where no features are read.
    pub(crate) store_rows: Option<usize>,
    pub(crate) max_rows: usize,
    /// First scratch slot.
    pub(crate) scratch: usize,
    /// Rows that are computed of a row of a first level; see `Drafter::rows_of_first`.
    pub(crate) rows_of_first: usize,
    /// See `Drafter::states_of_first`.
    pub(crate) states_of_first: usize,
}

impl Bounds {
    /// Committed tokens of a request, and where its pages start among all.
    pub(crate) fn place(
        &self,
        arrays: &DraftArrays<'_>,
        request: usize,
    ) -> Result<(usize, usize), CpuError> {
        let given = arrays.request_kv_len[request];
        let kv_len = match usize::try_from(given) {
            Ok(kv_len) if (1..self.max_context).contains(&kv_len) => kv_len,
            _ => {
                let expected = format!("1..{}", self.max_context);
                return entry("request_kv_len", request, given, expected);
            }
        };
        let given = arrays.page_indptr[request + 1];
        let Some((from, to)) = span(arrays.page_indptr, request, arrays.page_ids.len()) else {
            let expected = "ascending, within page_ids".into();
            return entry("page_indptr", request, given, expected);
        };
        if (to - from) * PAGE_SIZE < kv_len {
            let expected = format!("pages for {kv_len} tokens");
            return entry("page_indptr", request, given, expected);
        }
        Ok((kv_len, from))
    }
}

/// A checked level.
pub(crate) struct Level {
    /// Number of its first row among all draft rows of the step.
    pub(crate) first: usize,
    pub(crate) batch: Batch,
    /// Empty where no features are read.
    pub(crate) origins: Vec<Origin>,
    pub(crate) drafted: Vec<Drafted>,
    /// Of each row: its part of the tokens asked for.
    pub(crate) scored: Vec<(usize, usize)>,
}

impl Level {
    /// Checks the next level behind the draft rows of the step so far.
    ///
    /// # Errors
    /// [`CpuError::Length`] when arrays do not fit each other, [`CpuError::Entry`] for the first entry that
    /// is out of range or contradicts the others.
    pub(crate) fn new(
        arrays: &DraftArrays<'_>,
        before: &[Drafted],
        bounds: &Bounds,
    ) -> Result<Self, CpuError> {
        check_lengths(arrays)?;
        let (num_rows, is_first) = (arrays.row_token.len(), arrays.level == 1);
        let known = if is_first { 0 } else { before.len() };
        if usize::try_from(arrays.row_index) != Ok(known) || arrays.level < 1 {
            return entry("row_index", 0, arrays.row_index, format!("{known}"));
        }
        if known + num_rows > bounds.max_rows {
            return Err(CpuError::Length {
                what: "draft rows of a step",
                given: known + num_rows,
                expected: bounds.max_rows,
            });
        }
        indices("row_token", arrays.row_token, bounds.vocabulary)?;
        indices("scored_token", arrays.scored_token, bounds.vocabulary)?;
        if let Some(store_rows) = bounds.store_rows {
            indices("request_feature", arrays.request_feature, store_rows)?;
        }
        let sources = indices("kv_move_src", arrays.kv_move_src, bounds.scratch)?;
        let targets = indices("kv_move_dst", arrays.kv_move_dst, bounds.scratch)?;
        let mut level = Self {
            first: known,
            batch: Batch {
                page_ids: indices("page_ids", arrays.page_ids, bounds.num_pages)?,
                moves: sources.into_iter().zip(targets).collect(),
                ..Batch::default()
            },
            origins: Vec::with_capacity(num_rows),
            drafted: before[..known].to_vec(),
            scored: Vec::with_capacity(num_rows),
        };
        for row in 0..num_rows {
            level.push(arrays, row, is_first, known, bounds)?;
        }
        Ok(level)
    }

    fn push(
        &mut self,
        arrays: &DraftArrays<'_>,
        row: usize,
        is_first: bool,
        known: usize,
        bounds: &Bounds,
    ) -> Result<(), CpuError> {
        let num_requests = arrays.request_kv_len.len();
        let request = match usize::try_from(arrays.row_request[row]) {
            Ok(request) if request < num_requests => request,
            _ => {
                let expected = format!("0..{num_requests}");
                return entry("row_request", row, arrays.row_request[row], expected);
            }
        };
        let (kv_len, page_start) = bounds.place(arrays, request)?;
        let Some(scored) = span(arrays.scored_indptr, row, arrays.scored_token.len()) else {
            let given = arrays.scored_indptr[row + 1];
            return entry(
                "scored_indptr",
                row,
                given,
                "ascending, within scored_token".into(),
            );
        };
        let given = arrays.row_parent[row];
        let parent = match usize::try_from(given) {
            Ok(parent) if !is_first && parent < known => Some(parent),
            Err(_) if is_first && given == -1 => None,
            _ => {
                let expected = if is_first {
                    "-1 on the first level".into()
                } else {
                    format!("0..{known}, a row of an earlier level")
                };
                return entry("row_parent", row, given, expected);
            }
        };
        let path_start = self.batch.path_slots.len();
        let (mut next, mut root) = (parent, known + row);
        while let Some(ancestor) = next {
            root = ancestor;
            let slot = bounds.scratch + ancestor;
            self.batch.path_slots.push(slot as u32);
            next = self.drafted[ancestor].parent;
        }
        self.batch.path_slots[path_start..].reverse();
        let slot = (bounds.scratch + known + row) as u32;
        self.batch.path_slots.push(slot);
        let position = kv_len + self.batch.path_slots.len() - path_start - 1;
        let parent_fits = parent.is_none_or(|parent| self.drafted[parent].position + 1 == position);
        let given = arrays.row_position[row];
        if !parent_fits || usize::try_from(given) != Ok(position) || position >= bounds.max_context
        {
            let expected = format!(
                "{position}, behind its parent, and below the context limit {}",
                bounds.max_context
            );
            return entry("row_position", row, given, expected);
        }
        let depth = position - kv_len;
        if bounds.rows_of_first > 1 && depth >= bounds.states_of_first {
            let expected = format!(
                "below {}, within the block",
                kv_len + bounds.states_of_first
            );
            return entry("row_position", row, given, expected);
        }
        let first = BatchRow {
            position: position as u32,
            last: position as u32,
            first: first_seen(arrays, request, kv_len)?,
            slot,
            page_start: page_start as u32,
            direct_end: kv_len as u32,
            path_start: path_start as u32,
        };
        if is_first && bounds.rows_of_first > 1 {
            self.push_block(first, row, bounds);
        } else {
            self.batch.rows.push(first);
        }
        if bounds.store_rows.is_some() {
            // `indices` found it in range.
            let feature = arrays.request_feature[request] as usize;
            let origin = match parent {
                None => Origin::Store(feature),
                Some(_) if bounds.rows_of_first > 1 => {
                    Origin::State(root * bounds.states_of_first + depth)
                }
                Some(parent) => Origin::State(parent),
            };
            self.origins.push(origin);
        }
        self.drafted.push(Drafted { position, parent });
        self.scored.push(scored);
        Ok(())
    }

    /// The rows that are computed of the `index`th row of a first level: the context's last at its position, then
    /// a block, in slots of their own.
    fn push_block(&mut self, first: BatchRow, index: usize, bounds: &Bounds) {
        let count = bounds.rows_of_first;
        let path_start = self.batch.path_slots.len();
        let last = first.position + count as u32 - 1;
        for ahead in 0..count {
            let slot = (bounds.scratch + index * count + ahead) as u32;
            self.batch.path_slots.push(slot);
            self.batch.rows.push(BatchRow {
                position: first.position + ahead as u32,
                // The context sees no block.
                last: if ahead == 0 { first.position } else { last },
                slot,
                path_start: path_start as u32,
                ..first
            });
        }
    }
}

/// First of so many committed tokens of a request that its rows see.
fn first_seen(arrays: &DraftArrays<'_>, request: usize, kv_len: usize) -> Result<u32, CpuError> {
    let Some(&given) = arrays.request_first.get(request) else {
        return Ok(0);
    };
    match u32::try_from(given) {
        Ok(first) if first as usize <= kv_len => Ok(first),
        _ => entry("request_first", request, given, format!("0..={kv_len}")),
    }
}

fn check_lengths(arrays: &DraftArrays<'_>) -> Result<(), CpuError> {
    let (rows, requests) = (arrays.row_token.len(), arrays.request_kv_len.len());
    check_each("request_first", arrays.request_first, requests)?;
    for (what, given, expected) in [
        ("row_position", arrays.row_position.len(), rows),
        ("row_request", arrays.row_request.len(), rows),
        ("row_parent", arrays.row_parent.len(), rows),
        ("scored_indptr", arrays.scored_indptr.len(), rows + 1),
        ("request_feature", arrays.request_feature.len(), requests),
        (
            "kv_move_dst",
            arrays.kv_move_dst.len(),
            arrays.kv_move_src.len(),
        ),
        ("page_indptr", arrays.page_indptr.len(), requests + 1),
    ] {
        if given != expected {
            return Err(CpuError::Length {
                what,
                given,
                expected,
            });
        }
    }
    Ok(())
}

/// The part of a CSR array that belongs to `index`.
pub(crate) fn span(starts: &[i32], index: usize, len: usize) -> Option<(usize, usize)> {
    let from = usize::try_from(starts[index]).ok()?;
    let to = usize::try_from(starts[index + 1]).ok()?;
    (from <= to && to <= len).then_some((from, to))
}

pub(crate) fn entry<T>(
    what: &'static str,
    index: usize,
    given: i32,
    expected: String,
) -> Result<T, CpuError> {
    Err(CpuError::Entry {
        what,
        index,
        given: i64::from(given),
        expected,
    })
}
