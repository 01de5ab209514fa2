"""The arrays of one step on the device."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch

from spectrie._core import PackedSection, PackedWork
from spectrie.model.plan import PlanArrays
from spectrie.model.step.packed import CUTS, WALK_WIDTH, WORK_WIDTHS, PackedStep, StepShape
from spectrie_kernels import (
    AttentionArrays,
    AttentionLayout,
    DrawRows,
    StepArrays,
    WorkArrays,
)
from spectrie_kernels.attention.rows import MAX_TREE_ROWS

__all__ = ["StepInput", "Walks", "draw_rows"]


@dataclass(frozen=True, slots=True)
class Walks:
    """The draft trees of a step along which the device walks.

    Attributes:
        parents: int32 [rows], row of its tree that each row follows, -1 for none.
        trees: int32 [any, 4], as `spectrie_kernels.compact_slots` takes them.
        count: int32 [1], how many of the trees there are.
    """

    parents: torch.Tensor
    trees: torch.Tensor
    count: torch.Tensor


@dataclass(frozen=True, slots=True)
class StepInput:
    """What the kernels of a step read beside weights and cache, all on one device.

    Attributes:
        tokens, positions, slots: int32 [rows].
        moves: int32 [any, 2], slots of the cache, source and destination.
        num_moves: int32 [1], how many of the moves are made.
        layout: What attention needs.
        walks: Trees whose accepted rows are brought to their places; None where nobody asks for that.
    """

    tokens: torch.Tensor
    positions: torch.Tensor
    slots: torch.Tensor
    moves: torch.Tensor
    num_moves: torch.Tensor
    layout: AttentionLayout | AttentionArrays
    walks: Walks | None = None

    @classmethod
    def of(
        cls, words: torch.Tensor, packed: PackedStep, shape: StepShape, heights: tuple[int, int]
    ) -> StepInput:
        """Returns views of a packed step and the counts behind it: nothing is copied.

        Args:
            words: Both on the device.
            packed: Where the sections lie.
            shape: What the step was packed for.
            heights: Heights of attention's tiles that it was packed for: split form, prompts.
        """

        def view(span: tuple[int, int]) -> torch.Tensor:
            return words[span[0] : span[0] + span[1]]

        def counts(number: int, length: int) -> torch.Tensor:
            return view((packed.words + 8 * number, length))

        def work(index: int) -> WorkArrays:
            items = [
                view(packed.work(index, which)).view(-1, width)
                for which, width in zip(PackedWork, WORK_WIDTHS, strict=True)
            ]
            return _work_arrays(items, counts(1 + index, len(items)))

        return cls._of(
            lambda which: view(packed.section(which)),
            work,
            shape,
            heights,
            num_moves=counts(0, 1),
            num_walks=counts(0, 2)[1:],
        )

    @classmethod
    def fixed(cls, arrays: StepArrays, shape: StepShape, heights: tuple[int, int]) -> StepInput:
        """Returns views of arrays that sections are copied to.

        Args:
            arrays: With all sections up to the path slots but those of rows to read, and the work of
                each window in the order of `PackedWork`.
            shape: What steps are packed for.
            heights: Heights of attention's tiles that steps are packed for: split form, prompts.
        """
        index = {one.section: number for number, one in enumerate(arrays.specs)}

        def work(number: int) -> WorkArrays:
            first = index[len(PackedSection) + len(PackedWork) * number]
            items = [arrays[first + which] for which in PackedWork]
            if arrays[index[PackedSection.ROW_TOKEN]].shape[0] <= MAX_TREE_ROWS:
                # Prompts have more rows: without room for them no kernel is launched.
                items[PackedWork.PROMPT_ITEMS] = items[PackedWork.PROMPT_ITEMS][:0]
            return _work_arrays(items, arrays.counts[first : first + len(items)])

        return cls._of(
            lambda which: arrays.words_of(index[which]),
            work,
            shape,
            heights,
            num_moves=arrays.count(index[PackedSection.MOVES]),
            num_walks=arrays.count(index[PackedSection.WALKS]),
        )

    @classmethod
    def _of(
        cls,
        section: Callable[[PackedSection], torch.Tensor],
        work: Callable[[int], WorkArrays],
        shape: StepShape,
        heights: tuple[int, int],
        *,
        num_moves: torch.Tensor,
        num_walks: torch.Tensor,
    ) -> StepInput:
        positions = section(PackedSection.ROW_POSITION)
        layout = AttentionArrays.of(
            {window: work(index) for index, window in enumerate(shape.windows)},
            group=shape.group,
            kv_heads=shape.kv_heads,
            heights=heights,
            page_size=shape.page_size,
            page_ids=section(PackedSection.PAGE_IDS),
            row_position=positions,
            path_slots=section(PackedSection.PATH_SLOTS),
        )
        return cls(
            tokens=section(PackedSection.ROW_TOKEN),
            positions=positions,
            slots=section(PackedSection.ROW_SLOT),
            moves=section(PackedSection.MOVES).view(-1, 2),
            num_moves=num_moves,
            layout=layout,
            walks=Walks(
                parents=section(PackedSection.ROW_PARENT),
                trees=section(PackedSection.WALKS).view(-1, WALK_WIDTH),
                count=num_walks,
            ),
        )

    @classmethod
    def of_plan(cls, plan: PlanArrays, layout: AttentionLayout) -> StepInput:
        """Returns the arrays of a plan on the device of its layout, copied there."""
        columns = (plan.row_token, plan.row_slot)
        moves = np.stack([plan.kv_move_src, plan.kv_move_dst], axis=1).reshape(-1)
        flat = np.concatenate([*columns, [len(plan.kv_move_src)], moves]).astype(np.int32)
        words = torch.from_numpy(flat).to(layout.row_position.device)
        sizes = [*map(len, columns), 1, len(moves)]
        tokens, slots, num_moves, pairs = words.split_with_sizes(sizes)
        return cls(tokens, layout.row_position, slots, pairs.view(-1, 2), num_moves, layout)


def _work_arrays(items: list[torch.Tensor], counts: torch.Tensor) -> WorkArrays:
    return WorkArrays(
        items[PackedWork.PART_ITEMS],
        items[PackedWork.COMBINED],
        items[PackedWork.PROMPT_ITEMS],
        counts,
    )


def draw_rows(
    section: Callable[[PackedSection], torch.Tensor], shape: StepShape, cuts: int
) -> DrawRows:
    """Returns what decides drawn tokens, given int32 arrays by their sections.

    Args:
        section: Returns an array of the device.
        shape: What it was packed for.
        cuts: Bits of `CUTS`.
    """

    def floats(which: PackedSection) -> torch.Tensor:
        return section(which).view(torch.float32)

    return DrawRows(
        seed=section(PackedSection.SEED).view(torch.int64),
        position=section(PackedSection.POSITION),
        request=section(PackedSection.REQUEST),
        temperature=floats(PackedSection.TEMPERATURE),
        top_k=section(PackedSection.TOP_K),
        top_p=floats(PackedSection.TOP_P),
        min_p=floats(PackedSection.MIN_P),
        typical_p=floats(PackedSection.TYPICAL_P),
        repetition=floats(PackedSection.REPETITION),
        frequency=floats(PackedSection.FREQUENCY),
        presence=floats(PackedSection.PRESENCE),
        bias_start=section(PackedSection.BIAS_START),
        bias_token=section(PackedSection.BIAS_TOKEN),
        bias_value=floats(PackedSection.BIAS_VALUE),
        seen_start=section(PackedSection.SEEN_START),
        seen_token=section(PackedSection.SEEN_TOKEN),
        seen_count=section(PackedSection.SEEN_COUNT),
        path_start=section(PackedSection.PATH_START),
        path_token=section(PackedSection.PATH_TOKEN),
        masked_start=section(PackedSection.MASKED_START),
        masked_token=section(PackedSection.MASKED_TOKEN),
        allowed=section(PackedSection.ALLOWED).view(-1, -(-shape.vocabulary // 32)),
        allowed_row=section(PackedSection.ALLOWED_ROW),
        cuts=frozenset(name for name, bit in CUTS.items() if cuts & bit),
    )
