//! What the programs of attention do in a step, for layers of one window: integers from integers.
//!
//! The lists are those of `AttentionWork` of `spectrie_kernels`, in its order; `tests/engine/test_packing.py`
//! compares every word.

use std::cmp::Reverse;

use super::key_order::{KeyOrder, KeySpans, UNIT};
use super::path_slots::PathSlots;
use super::shape::TileRows;
use crate::plan::{Plan, RowKind};

/// Most rows of a request whose keys are cut into parts, each a program's; longer ones are prompts.
const MAX_PART_ROWS: usize = 64;

/// Words of an item of [`StepWork::push_parts`] and [`StepWork::push_prompts`].
const ITEM_WORDS: usize = 8;

/// Whether any request has more rows than are cut into parts.
pub(super) fn has_prompts(plan: &Plan) -> bool {
    let mut counts = plan.request_row_count.iter();
    counts.any(|&count| count as usize > MAX_PART_ROWS)
}

/// A step and the window for which its work is listed.
#[derive(Debug)]
pub(super) struct StepWork<'a> {
    plan: &'a Plan,
    paths: &'a PathSlots,
    order: KeyOrder,
    /// Nodes of a tile.
    nodes: TileRows,
    /// Rows of requests that are cut into parts.
    num_part_rows: usize,
}

/// One request's rows.
#[derive(Debug, Clone, Copy)]
struct RequestRows {
    first: usize,
    count: usize,
    kv_len: usize,
    /// Where its pages begin.
    pages: usize,
    is_tree: bool,
    /// Index of its first row among those that are cut into parts.
    first_part_row: usize,
}

/// How the rows of a request that is cut into parts are cut, which lie in at most two units.
#[derive(Debug, Clone, Copy)]
struct PartForms {
    /// Units of its lowest and its highest row.
    units: [usize; 2],
    spans: [KeySpans; 2],
}

impl PartForms {
    /// Whether all rows are cut alike and share programs.
    fn are_alike(&self) -> bool {
        self.spans[0].split == self.spans[1].split
    }

    /// Number of the split from which a row's parts are counted: of its request's first, whichever
    /// rows have that.
    fn first_split(&self, unit: usize) -> usize {
        let is_lower = self.are_alike() || unit == self.units[0];
        self.spans[usize::from(!is_lower)].first_split()
    }
}

impl<'a> StepWork<'a> {
    pub(super) fn new(
        plan: &'a Plan,
        paths: &'a PathSlots,
        kv_heads: usize,
        window: Option<usize>,
        nodes: TileRows,
    ) -> Self {
        let counts = plan.request_row_count.iter().map(|&count| count as usize);
        Self {
            plan,
            paths,
            order: KeyOrder::new(kv_heads, window),
            nodes,
            num_part_rows: counts.filter(|&count| count <= MAX_PART_ROWS).sum(),
        }
    }

    /// Adds the splits of the prefixes, then the tails, of requests that are cut into parts.
    pub(super) fn push_parts(&self, words: &mut Vec<i32>) {
        for rows in self.part_requests() {
            let forms = self.forms(&rows);
            let [lower, upper] = forms.spans;
            if forms.are_alike() {
                let spans = KeySpans {
                    end: upper.end,
                    ..lower
                };
                self.push_prefix(&rows, forms.units, spans, words);
            } else {
                self.push_prefix(&rows, [forms.units[0]; 2], lower, words);
            }
        }
        // Where the split changes between two units, each unit has its own programs.
        for rows in self.part_requests() {
            let forms = self.forms(&rows);
            if !forms.are_alike() {
                self.push_prefix(&rows, [forms.units[1]; 2], forms.spans[1], words);
            }
        }
        for rows in self.part_requests() {
            for index in 0..rows.count {
                let row = rows.first + index;
                let position = self.position(row);
                let on_path = if rows.is_tree {
                    rows.kv_len
                } else {
                    position + 1
                };
                push(
                    words,
                    [
                        0,
                        row,
                        self.order.spans(position).end,
                        position + 1,
                        rows.pages,
                        rows.first_part_row + index,
                        on_path,
                        self.paths.begins[row] as usize,
                    ],
                );
            }
        }
    }

    /// Adds the splits of a prefix for the rows from the first to the last of `units`.
    fn push_prefix(
        &self,
        rows: &RequestRows,
        units: [usize; 2],
        spans: KeySpans,
        words: &mut Vec<i32>,
    ) {
        let first_split = spans.first_split();
        for part in 0..spans.num_splits() {
            let keys = (first_split + part) * spans.split;
            for first_node in (0..rows.count).step_by(self.nodes.part) {
                let slot = (1 + part) * self.num_part_rows + rows.first_part_row + first_node;
                push(
                    words,
                    [
                        self.nodes.part.min(rows.count - first_node),
                        rows.first + first_node,
                        keys.max(spans.begin),
                        (keys + spans.split).min(spans.end),
                        rows.pages,
                        slot,
                        units[0] * UNIT,
                        (units[1] + 1) * UNIT,
                    ],
                );
            }
        }
    }

    /// Adds how the parts of each row are added; gives the most splits of a row.
    pub(super) fn push_combined(&self, words: &mut Vec<i32>) -> usize {
        let mut most_splits = 0;
        for rows in self.part_requests() {
            let forms = self.forms(&rows);
            for index in 0..rows.count {
                let row = rows.first + index;
                let position = self.position(row);
                let spans = self.order.spans(position);
                let before = spans.first_split() - forms.first_split(position / UNIT);
                let slot = (1 + before) * self.num_part_rows + rows.first_part_row + index;
                let num_splits = spans.num_splits();
                most_splits = most_splits.max(num_splits);
                push(words, [row, slot, num_splits, 0]);
            }
        }
        most_splits
    }

    /// Adds the tiles of longer requests, those with the longest prefixes first, so that the last to
    /// end are short.
    pub(super) fn push_prompts(&self, words: &mut Vec<i32>) {
        let begin = words.len();
        let prompts = self.requests().filter(|rows| rows.count > MAX_PART_ROWS);
        for rows in prompts {
            let behind = rows.kv_len + rows.count;
            // No tile has rows of two units, so that all of its rows are cut alike.
            for unit in (rows.kv_len / UNIT * UNIT..behind).step_by(UNIT) {
                let end = behind.min(unit + UNIT);
                for position in (unit.max(rows.kv_len)..end).step_by(self.nodes.prompt) {
                    let spans = self.order.spans(position);
                    push(
                        words,
                        [
                            self.nodes.prompt.min(end - position),
                            rows.first + position - rows.kv_len,
                            spans.begin,
                            spans.end,
                            rows.pages,
                            position,
                            spans.split,
                            0,
                        ],
                    );
                }
            }
        }
        let (items, _) = words[begin..].as_chunks_mut::<ITEM_WORDS>();
        items.sort_by_key(|item| Reverse(item[3] - item[2]));
    }

    /// All requests with rows, in their order.
    fn requests(&self) -> impl Iterator<Item = RequestRows> {
        let plan = self.plan;
        let mut num_part_rows = 0;
        (0..plan.num_requests()).map(move |request| {
            let count = plan.request_row_count[request] as usize;
            let rows = RequestRows {
                first: plan.request_row_start[request] as usize,
                count,
                kv_len: plan.request_kv_len[request] as usize,
                pages: plan.page_indptr[request] as usize,
                is_tree: plan.request_kind[request] == RowKind::Tree as i32,
                first_part_row: num_part_rows,
            };
            if count <= MAX_PART_ROWS {
                num_part_rows += count;
            }
            rows
        })
    }

    fn part_requests(&self) -> impl Iterator<Item = RequestRows> {
        self.requests()
            .filter(|rows| (1..=MAX_PART_ROWS).contains(&rows.count))
    }

    fn forms(&self, rows: &RequestRows) -> PartForms {
        let positions = &self.plan.row_position[rows.first..rows.first + rows.count];
        let highest = positions.iter().max().map_or(0, |&most| most as usize);
        let units = [rows.kv_len / UNIT, highest / UNIT];
        PartForms {
            units,
            spans: units.map(|unit| self.order.spans(unit * UNIT)),
        }
    }

    fn position(&self, row: usize) -> usize {
        self.plan.row_position[row] as usize
    }
}

fn push<const WORDS: usize>(words: &mut Vec<i32>, item: [usize; WORDS]) {
    words.extend(item.map(|number| number as i32));
}
