//! Committed tokens whose keys and values a drafter without features lacks: it computes them when it is asked,
//! as a prompt's chunk, and nothing in forwards that do not ask it.

use crate::attention::{Batch, BatchRow, PAGE_SIZE, indices};
use crate::draft::arrays::DraftArrays;
use crate::draft::level::{Bounds, entry, span};
use crate::error::CpuError;

/// The tokens that are made up before a level.
pub(crate) struct Fill {
    pub(crate) batch: Batch,
    pub(crate) tokens: Vec<i32>,
}

impl Fill {
    /// Checks what a level makes up.
    ///
    /// # Errors
    /// [`CpuError::Length`] or [`CpuError::Entry`] where it contradicts the level's requests, or is wanted of a
    /// drafter that reads features.
    pub(crate) fn new(arrays: &DraftArrays<'_>, bounds: &Bounds) -> Result<Self, CpuError> {
        let num_tokens = arrays.fill_token.len();
        let num_requests = arrays.request_kv_len.len();
        let lengths = [
            ("request_fill_start", arrays.request_fill_start.len(), 0),
            ("fill_indptr", arrays.fill_indptr.len(), 1),
        ];
        let is_none = num_tokens == 0 && lengths.iter().all(|&(_, given, _)| given == 0);
        let mut fill = Self {
            batch: Batch::default(),
            tokens: Vec::with_capacity(num_tokens),
        };
        if is_none {
            return Ok(fill);
        }
        for (what, given, more) in lengths {
            let expected = num_requests + more;
            if given != expected {
                return Err(CpuError::Length {
                    what,
                    given,
                    expected,
                });
            }
        }
        if bounds.store_rows.is_some() && num_tokens > 0 {
            return Err(CpuError::Length {
                what: "fill_token of a drafter that reads features",
                given: num_tokens,
                expected: 0,
            });
        }
        indices("fill_token", arrays.fill_token, bounds.vocabulary)?;
        fill.batch.page_ids = indices("page_ids", arrays.page_ids, bounds.num_pages)?;
        for request in 0..num_requests {
            fill.push(arrays, request, bounds)?;
        }
        if fill.tokens.len() != num_tokens {
            return Err(CpuError::Length {
                what: "fill_token",
                given: num_tokens,
                expected: fill.tokens.len(),
            });
        }
        fill.batch.check_distinct_slots()?;
        Ok(fill)
    }

    /// Adds the tokens of one request, which see each other as a chunk's do.
    fn push(
        &mut self,
        arrays: &DraftArrays<'_>,
        request: usize,
        bounds: &Bounds,
    ) -> Result<(), CpuError> {
        let (kv_len, page_start) = bounds.place(arrays, request)?;
        let Some((from, to)) = span(arrays.fill_indptr, request, arrays.fill_token.len()) else {
            let given = arrays.fill_indptr[request + 1];
            let expected = "ascending, within fill_token".into();
            return entry("fill_indptr", request, given, expected);
        };
        let given = arrays.request_fill_start[request];
        let start = match usize::try_from(given) {
            Ok(start) if start + (to - from) <= kv_len => start,
            _ => {
                let expected = format!("0 or more, and {} tokens up to {kv_len}", to - from);
                return entry("request_fill_start", request, given, expected);
            }
        };
        for (position, &token) in (start..).zip(&arrays.fill_token[from..to]) {
            let page = self.batch.page_ids[page_start + position / PAGE_SIZE] as usize;
            self.batch.rows.push(BatchRow {
                position: position as u32,
                last: position as u32,
                first: 0,
                slot: (page * PAGE_SIZE + position % PAGE_SIZE) as u32,
                page_start: page_start as u32,
                direct_end: position as u32 + 1,
                path_start: 0,
            });
            self.tokens.push(token);
        }
        Ok(())
    }
}
