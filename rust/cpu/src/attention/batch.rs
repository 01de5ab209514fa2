//! The rows of one forward pass, checked once so that the operators need no checks of their own.

use crate::error::CpuError;

/// Slots of a page of the key-value cache.
pub const PAGE_SIZE: usize = 16;
/// Rows of a draft tree: one bit each in an ancestor word.
const MAX_TREE_ROWS: usize = 64;

/// The arrays of a plan, borrowed. `R` rows, `Q` requests, `M` moves.
#[derive(Debug, Clone, Copy)]
pub struct BatchArrays<'a> {
    /// Position of each row's token in its sequence `[R]`.
    pub row_position: &'a [i32],
    /// Cache slot that each row writes `[R]`.
    pub row_slot: &'a [i32],
    /// For tree rows: the parent's row index within the request, -1 for the root `[R]`.
    pub row_parent: &'a [i32],
    /// For tree rows: bit j set when row j of the request is visible, itself included `[R]`.
    pub row_ancestors: &'a [i64],
    /// First row of each request; requests follow each other without gaps `[Q]`.
    pub request_row_start: &'a [i32],
    /// Rows of each request `[Q]`.
    pub request_row_count: &'a [i32],
    /// Tokens of each request that are already in the cache `[Q]`.
    pub request_kv_len: &'a [i32],
    /// 0 for a causal chunk, 1 for a draft tree `[Q]`.
    pub request_kind: &'a [i32],
    /// Start of each request's pages in `page_ids`, and the end of the last `[Q + 1]`.
    pub page_indptr: &'a [i32],
    /// Page tables of all requests, one after the other.
    pub page_ids: &'a [i32],
    /// Slots to copy from, before anything else `[M]`.
    pub kv_move_src: &'a [i32],
    /// Slots to copy to, in order `[M]`.
    pub kv_move_dst: &'a [i32],
}

/// One row: its keys at positions below `direct_end` lie where the page table says, those from there
/// up to its own position lie in `path_slots`.
#[derive(Debug, Clone, Copy)]
pub(crate) struct BatchRow {
    pub(crate) position: u32,
    /// Last position that it sees where layers look ahead; else that is its own.
    pub(crate) last: u32,
    /// First position that it sees; keys before it are not there.
    pub(crate) first: u32,
    pub(crate) slot: u32,
    pub(crate) page_start: u32,
    pub(crate) direct_end: u32,
    pub(crate) path_start: u32,
}

/// A checked plan: the rows of one forward.
#[derive(Debug, Clone, Default)]
pub struct Batch {
    pub(crate) rows: Vec<BatchRow>,
    pub(crate) page_ids: Vec<u32>,
    pub(crate) path_slots: Vec<u32>,
    pub(crate) moves: Vec<(u32, u32)>,
}

impl Batch {
    /// Checks a plan against a cache of `num_pages` pages and positions below `max_context`.
    ///
    /// # Errors
    /// [`CpuError::Length`] when arrays do not fit each other, [`CpuError::Entry`] for the first entry
    /// that is out of range, contradicts the page table, or does not describe a tree.
    pub fn new(
        arrays: &BatchArrays<'_>,
        num_pages: usize,
        max_context: usize,
    ) -> Result<Self, CpuError> {
        let num_rows = arrays.row_position.len();
        let num_requests = arrays.request_row_start.len();
        for (what, given, expected) in [
            ("row_slot", arrays.row_slot.len(), num_rows),
            ("row_parent", arrays.row_parent.len(), num_rows),
            ("row_ancestors", arrays.row_ancestors.len(), num_rows),
            (
                "request_row_count",
                arrays.request_row_count.len(),
                num_requests,
            ),
            ("request_kv_len", arrays.request_kv_len.len(), num_requests),
            ("request_kind", arrays.request_kind.len(), num_requests),
            ("page_indptr", arrays.page_indptr.len(), num_requests + 1),
            (
                "kv_move_dst",
                arrays.kv_move_dst.len(),
                arrays.kv_move_src.len(),
            ),
        ] {
            if given != expected {
                return Err(CpuError::Length {
                    what,
                    given,
                    expected,
                });
            }
        }
        let mut batch = Self {
            rows: Vec::with_capacity(num_rows),
            page_ids: indices("page_ids", arrays.page_ids, num_pages)?,
            path_slots: Vec::new(),
            moves: Vec::new(),
        };
        let num_slots = num_pages * PAGE_SIZE;
        let sources = indices("kv_move_src", arrays.kv_move_src, num_slots)?;
        let targets = indices("kv_move_dst", arrays.kv_move_dst, num_slots)?;
        batch.moves = sources.into_iter().zip(targets).collect();
        for request in 0..num_requests {
            batch.push_request(arrays, request, max_context)?;
        }
        if batch.rows.len() != num_rows {
            let given = batch.rows.len();
            return Err(CpuError::Length {
                what: "rows of requests",
                given,
                expected: num_rows,
            });
        }
        batch.check_distinct_slots()?;
        Ok(batch)
    }

    /// The rows at `kept` alone, ascending, with the same pages and paths; without moves.
    pub(crate) fn part(&self, kept: &[usize]) -> Self {
        Self {
            rows: kept.iter().map(|&row| self.rows[row]).collect(),
            page_ids: self.page_ids.clone(),
            path_slots: self.path_slots.clone(),
            moves: Vec::new(),
        }
    }

    /// Number of rows.
    pub fn num_rows(&self) -> usize {
        self.rows.len()
    }

    fn push_request(
        &mut self,
        arrays: &BatchArrays<'_>,
        request: usize,
        max_context: usize,
    ) -> Result<(), CpuError> {
        let start = self.rows.len();
        let entry = |what, given: i32, expected: String| {
            Err(CpuError::Entry {
                what,
                index: request,
                given: i64::from(given),
                expected,
            })
        };
        if usize::try_from(arrays.request_row_start[request]) != Ok(start) {
            let given = arrays.request_row_start[request];
            return entry(
                "request_row_start",
                given,
                format!("{start}, where the last ended"),
            );
        }
        let count = match usize::try_from(arrays.request_row_count[request]) {
            Ok(count) if count <= arrays.row_position.len() - start => count,
            _ => {
                let given = arrays.request_row_count[request];
                return entry("request_row_count", given, "at most the rows left".into());
            }
        };
        let kv_len = match usize::try_from(arrays.request_kv_len[request]) {
            Ok(kv_len) if kv_len <= max_context => kv_len,
            _ => {
                let given = arrays.request_kv_len[request];
                return entry("request_kv_len", given, format!("0..={max_context}"));
            }
        };
        let pages = match (
            usize::try_from(arrays.page_indptr[request]),
            usize::try_from(arrays.page_indptr[request + 1]),
        ) {
            (Ok(from), Ok(to)) if from <= to && to <= self.page_ids.len() => from..to,
            _ => {
                let given = arrays.page_indptr[request + 1];
                return entry("page_indptr", given, "ascending, within page_ids".into());
            }
        };
        if (pages.len() * PAGE_SIZE) < kv_len + count {
            let given = arrays.page_indptr[request + 1];
            let expected = format!("pages for {} tokens", kv_len + count);
            return entry("page_indptr", given, expected);
        }
        let tree = match arrays.request_kind[request] {
            0 => false,
            1 if count <= MAX_TREE_ROWS => true,
            1 => {
                let given = arrays.request_row_count[request];
                return entry(
                    "request_row_count",
                    given,
                    format!("<= {MAX_TREE_ROWS} in a tree"),
                );
            }
            given => return entry("request_kind", given, "0 (chunk) or 1 (tree)".into()),
        };
        for j in 0..count {
            self.push_row(arrays, start, j, kv_len, pages.start, tree, max_context)?;
        }
        Ok(())
    }

    #[allow(clippy::too_many_arguments)] // what one request fixes for all its rows
    fn push_row(
        &mut self,
        arrays: &BatchArrays<'_>,
        start: usize,
        j: usize,
        kv_len: usize,
        page_start: usize,
        tree: bool,
        max_context: usize,
    ) -> Result<(), CpuError> {
        let row = start + j;
        let entry = |what, given: i64, expected: String| {
            Err(CpuError::Entry {
                what,
                index: row,
                given,
                expected,
            })
        };
        let logical = kv_len + j;
        let slot = self.page_ids[page_start + logical / PAGE_SIZE] as usize * PAGE_SIZE
            + logical % PAGE_SIZE;
        let slot = slot as u32;
        if i64::from(arrays.row_slot[row]) != i64::from(slot) {
            let given = i64::from(arrays.row_slot[row]);
            return entry("row_slot", given, format!("{slot}, as the page table says"));
        }
        let path_start = self.path_slots.len();
        let position = if tree {
            let parent = arrays.row_parent[row];
            let mut word = 1u64 << j;
            if j == 0 {
                if parent != -1 {
                    return entry("row_parent", parent.into(), "-1 for the root".into());
                }
            } else {
                let parent = match usize::try_from(parent) {
                    Ok(parent) if parent < j => start + parent,
                    _ => return entry("row_parent", parent.into(), format!("0..{j}")),
                };
                word |= arrays.row_ancestors[parent] as u64;
                let depth = self.rows[parent].position as usize + 1 - kv_len;
                let path = self.rows[parent].path_start as usize;
                self.path_slots.extend_from_within(path..path + depth);
            }
            if arrays.row_ancestors[row] as u64 != word {
                let given = arrays.row_ancestors[row];
                return entry(
                    "row_ancestors",
                    given,
                    "the parent's word and its own bit".into(),
                );
            }
            self.path_slots.push(slot);
            kv_len + self.path_slots.len() - path_start - 1
        } else {
            logical
        };
        if i64::from(arrays.row_position[row]) != position as i64 || position >= max_context {
            let given = i64::from(arrays.row_position[row]);
            let expected = format!("{position}, and below the context limit {max_context}");
            return entry("row_position", given, expected);
        }
        self.rows.push(BatchRow {
            position: position as u32,
            last: position as u32,
            first: 0,
            slot,
            page_start: page_start as u32,
            direct_end: if tree { kv_len } else { position + 1 } as u32,
            path_start: path_start as u32,
        });
        Ok(())
    }

    /// Rows write their slots from several threads, so no slot may be written twice.
    pub(crate) fn check_distinct_slots(&self) -> Result<(), CpuError> {
        let mut slots: Vec<u32> = self.rows.iter().map(|row| row.slot).collect();
        slots.sort_unstable();
        match slots.windows(2).position(|pair| pair[0] == pair[1]) {
            None => Ok(()),
            Some(at) => Err(CpuError::Entry {
                what: "row_slot",
                index: self
                    .rows
                    .iter()
                    .rposition(|row| row.slot == slots[at])
                    .unwrap_or(0),
                given: i64::from(slots[at]),
                expected: "a slot that no other row writes".into(),
            }),
        }
    }
}

/// Checks that every entry is below `limit`.
pub(crate) fn indices(
    what: &'static str,
    given: &[i32],
    limit: usize,
) -> Result<Vec<u32>, CpuError> {
    given
        .iter()
        .enumerate()
        .map(|(index, &value)| match u32::try_from(value) {
            Ok(checked) if (checked as usize) < limit => Ok(checked),
            _ => {
                let expected = format!("0..{limit}");
                Err(CpuError::Entry {
                    what,
                    index,
                    given: i64::from(value),
                    expected,
                })
            }
        })
        .collect()
}
