"""The packed step: its table, its sections, and what refuses to be packed."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from spectrie._core import PackedSection, PackedWork, PackingError
from spectrie.model.plan import StepPlan
from spectrie.model.step.packed import (
    PackedStep,
    StepShape,
    attention_rows,
    pack_plan,
)
from spectrie_kernels import AttentionTiles, KeyOrder
from spectrie_kernels.attention.work import AttentionWork
from tests.model.stepping import tokens

SHAPE = StepShape(group=3, kv_heads=2, windows=(None, 24), page_size=16, vocabulary=200)


def plan() -> StepPlan:
    tree = StepPlan.single(
        [1, 2, 3, 4],
        kv_len=140,
        pages=range(20, 30),
        parents=[-1, 0, 0, 2],
        sample_rows=[0, 2],
        top_rows=[0, 1, 2],
        moves=[(5, 9), (7, 3)],
    )
    prompt = StepPlan.single(tokens(90, 200), kv_len=30, pages=range(8), sample_rows=[89])
    return StepPlan.joined([tree, prompt])


def packed(one: StepPlan, words: int = 1 << 14) -> tuple[PackedStep, np.ndarray]:
    target = np.full(words, -7, np.int32)
    return pack_plan(one, SHAPE, 16, 16, target), target


def test_the_table_says_where_every_section_is() -> None:
    step, words = packed(plan())
    sections = len(PackedSection) + len(PackedWork) * len(SHAPE.windows)
    spans = words[: 2 * sections].reshape(-1, 2).tolist()
    assert [tuple(span) for span in spans[: len(PackedSection)]] == [
        step.section(section) for section in PackedSection
    ]
    ends = [2 * sections]
    for begin, length in spans:
        assert begin % 8 == 0
        assert begin >= ends[-1]
        ends.append(begin + max(length, 8))
    assert step.words >= ends[-1]
    assert (words[step.words :] == -7).all()


def test_sections_hold_the_plan_and_the_work_of_attention() -> None:
    one = plan()
    step, words = packed(one)

    def section(which: PackedSection) -> list[int]:
        begin, length = step.section(which)
        values: list[int] = words[begin : begin + length].tolist()
        return values

    for which, name in (
        (PackedSection.ROW_TOKEN, "row_token"),
        (PackedSection.ROW_POSITION, "row_position"),
        (PackedSection.ROW_SLOT, "row_slot"),
        (PackedSection.SAMPLE_ROWS, "sample_rows"),
        (PackedSection.TOP_ROWS, "top_rows"),
        (PackedSection.PAGE_IDS, "page_ids"),
    ):
        assert section(which) == getattr(one, name).tolist()
    assert section(PackedSection.MOVES) == [5, 9, 7, 3]
    assert (step.rows, step.samples, step.tops, step.moves) == (94, 3, 3, 2)
    assert step.has_prompts
    assert not step.is_drawn
    rows = attention_rows(one, 16)
    assert section(PackedSection.PATH_SLOTS) == rows.paths()[1].tolist()
    for index, window in enumerate(SHAPE.windows):
        work = AttentionWork.of(rows, KeyOrder.of(2, window), 3, AttentionTiles(16, 16))
        for kind, array in zip(
            PackedWork, (work.part_items, work.combined, work.prompt_items), strict=True
        ):
            begin, length = step.work(index, kind)
            assert words[begin : begin + length].tolist() == array.reshape(-1).tolist()


def test_a_step_that_does_not_fit_writes_nothing_and_says_what_it_needs() -> None:
    target = np.full(200, -7, np.int32)
    with pytest.raises(PackingError, match="the memory 200") as raised:
        pack_plan(plan(), SHAPE, 16, 16, target)
    assert (target == -7).all()
    step, _ = packed(plan(), raised.value.needed_words)
    assert step.words == raised.value.needed_words


def test_tiles_have_the_given_height_whatever_the_step() -> None:
    few = replace(plan(), kv_move_src=np.zeros(0, np.int32), kv_move_dst=np.zeros(0, np.int32))
    target = np.zeros(1 << 14, np.int32)
    low = pack_plan(few, SHAPE, 4, 4, target).work(0, PackedWork.PART_ITEMS)[1]
    high = pack_plan(few, SHAPE, 64, 64, target).work(0, PackedWork.PART_ITEMS)[1]
    assert high < low
