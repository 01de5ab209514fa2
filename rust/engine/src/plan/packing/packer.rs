//! Writes a step into the memory that a device reads.

use spectrie_types::{PackedSection, PackedWork};

use super::draw_rows::DrawRows;
use super::packed_words::PackedWords;
use super::path_slots::PathSlots;
use super::shape::{DeviceShape, TileRows};
use super::step::PackedStep;
use super::work::StepWork;
use crate::error::EngineError;
use crate::plan::{Plan, RowKind};

/// Packs step after step; its memory is kept.
#[derive(Debug, Default)]
pub(crate) struct Packer {
    words: PackedWords,
    paths: PathSlots,
}

impl Packer {
    /// Writes `plan` to the beginning of `out`, and how its tokens are drawn where that is known.
    ///
    /// # Errors
    /// [`EngineError::PackedTooLong`]: it does not fit, and nothing was written;
    /// [`EngineError::Config`]: a tile has no room for a group.
    pub(crate) fn pack(
        &mut self,
        plan: &Plan,
        draws: Option<&DrawRows>,
        shape: &DeviceShape,
        tiles: TileRows,
        out: &mut [i32],
    ) -> Result<PackedStep, EngineError> {
        let nodes = tiles.nodes(shape.group())?;
        let windows = shape.windows();
        let num_lists = windows.len() * PackedWork::ALL.len();
        self.paths.find(plan);
        self.words.begin(PackedSection::ALL.len() + num_lists);
        for section in PackedSection::ALL {
            let paths = &self.paths;
            self.words.section(|words| {
                if let Some(drawn) = draws.and_then(|draws| draws.words(section)) {
                    words.extend_from_slice(drawn);
                } else {
                    write(section, plan, paths, words);
                }
            });
        }
        let mut most_splits = 1;
        for &window in windows {
            let work = StepWork::new(plan, &self.paths, shape.kv_heads(), window, nodes);
            self.words.section(|words| work.push_parts(words));
            let words = &mut self.words;
            words.section(|words| most_splits = most_splits.max(work.push_combined(words)));
            words.section(|words| work.push_prompts(words));
        }
        let words = self.words.words();
        let (needed_words, capacity_words) = (words.len(), out.len());
        let room = out.get_mut(..needed_words);
        let room = room.ok_or(EngineError::PackedTooLong {
            needed_words,
            capacity_words,
        })?;
        room.copy_from_slice(words);
        Ok(PackedStep {
            num_words: needed_words,
            num_rows: plan.num_rows(),
            num_samples: plan.num_samples(),
            num_tops: plan.num_tops(),
            num_moves: plan.kv_move_src.len(),
            has_prompts: super::work::has_prompts(plan),
            is_drawn: draws.is_some(),
            cuts: draws.map_or(0, DrawRows::cuts),
            has_lists: draws.is_some_and(DrawRows::has_lists),
            most_splits: most_splits.next_power_of_two(),
            table: self.words.table().collect(),
        })
    }
}

/// Writes a section that the plan alone decides; the others are empty.
fn write(section: PackedSection, plan: &Plan, paths: &PathSlots, words: &mut Vec<i32>) {
    let numbers = match section {
        PackedSection::RowToken => &plan.row_token,
        PackedSection::RowPosition => &plan.row_position,
        PackedSection::RowSlot => &plan.row_slot,
        PackedSection::SampleRows => &plan.sample_rows,
        PackedSection::TopRows => &plan.top_rows,
        PackedSection::PageIds => &plan.page_ids,
        PackedSection::PathSlots => &paths.slots,
        PackedSection::RowParent => &plan.row_parent,
        PackedSection::Moves => {
            let moves = plan.kv_move_src.iter().zip(&plan.kv_move_dst);
            words.extend(moves.flat_map(|(&from, &to)| [from, to]));
            return;
        }
        PackedSection::Walks => return write_walks(plan, words),
        _ => return,
    };
    words.extend_from_slice(numbers);
}

/// Writes which trees a device can walk along: not those whose tokens are drawn from their logits.
fn write_walks(plan: &Plan, words: &mut Vec<i32>) {
    for (request, &kind) in plan.request_kind.iter().enumerate() {
        let (first, count) = (
            plan.request_row_start[request],
            plan.request_row_count[request],
        );
        let sample = plan.sample_indptr[request];
        let is_drawn = plan.logit_samples.binary_search(&sample).is_err();
        if kind == RowKind::Tree as i32 && count > 1 && is_drawn {
            words.extend([first, count, sample, 0]);
        }
    }
}
