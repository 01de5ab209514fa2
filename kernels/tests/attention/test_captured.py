"""Launches that are the same for every step give a row the bytes of launches made for one step."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import pytest
import torch

from kernels.tests.attention.steps import equal_bytes
from kernels.tests.forests import Request, chunk, layout_of, rows_of, tensors_of, tree
from spectrie_kernels import (
    AttentionArrays,
    AttentionLayout,
    KeyOrder,
    WorkArrays,
    tree_attention,
)
from spectrie_kernels.attention import arrays as captured
from spectrie_kernels.device import attention_parts
from spectrie_kernels.device import tree_attention as device_form

pytestmark = [
    pytest.mark.skipif(torch.cuda.is_available(), reason="runs in the interpreter"),
    pytest.mark.usefixtures("ascending_dot"),
]

HEADS, KV_HEADS, HEAD_DIM = 2, 1, 16
ROOM = 11
"""Entries of each array behind those that count."""
Step = list[Request]


def arrays_of(layout: AttentionLayout, rows: int, garbage: int = 1 << 20) -> AttentionArrays:
    """The arrays of a captured step that holds what a layout holds, garbage behind all of it."""

    def with_room(values: torch.Tensor) -> torch.Tensor:
        room = torch.full((ROOM, *values.shape[1:]), garbage, dtype=torch.int32)
        return torch.cat([values, room])

    work = {}
    for window, one in layout.work.items():
        items = (one.part_items, one.combined, one.prompt_items)
        counts = torch.tensor([len(part) for part in items], dtype=torch.int32)
        parts, combined, prompts = map(with_room, items)
        work[window] = WorkArrays(parts, combined, prompts, counts)
        heights = (one.part_rows, one.prompt_rows)
    return AttentionArrays.of(
        work,
        group=layout.group,
        kv_heads=KV_HEADS,
        heights=heights,
        page_size=layout.page_size,
        page_ids=with_room(layout.page_ids),
        row_position=torch.cat([layout.row_position, layout.row_position.new_full((rows,), -1)]),
        path_slots=with_room(layout.path_slots),
    )


def steps() -> list[Step]:
    source = random.Random(4)
    return [
        [tree(0, 1, source)],
        [tree(200, 5, source), tree(70, 1, source), chunk(130, 4)],
        [chunk(60, 65), tree(140, 2, source)],
    ]


def both(
    step: Step, window: int | None = None, half: bool = False, padding: int = 3
) -> tuple[torch.Tensor, torch.Tensor]:
    """Rows of a step by its own launches, and with padding rows by those that are always the same."""
    rows = rows_of(step, 16, random.Random(1))
    query, keys, values = tensors_of(rows, HEADS, KV_HEADS, HEAD_DIM, torch.float32, 2)
    layout = layout_of(rows, HEADS, KV_HEADS, window)
    wider = torch.cat([query, query.new_full((padding, HEADS, HEAD_DIM), float("nan"))])

    def run(query: torch.Tensor, layout: AttentionLayout | AttentionArrays) -> torch.Tensor:
        out = torch.full_like(query, 7.0)
        arguments = (query, keys, values, layout, 0.25)
        # What an earlier step left.
        workspace = torch.ones(layout.work[window].workspace(HEADS, HEAD_DIM))
        if half:
            device_form.launch(*arguments, window, out, workspace, half=True)
            return out
        return tree_attention(*arguments, window=window, out=out, workspace=workspace)

    return run(query, layout), run(wider, arrays_of(layout, padding))


@pytest.mark.parametrize("half", [False, True])
@pytest.mark.parametrize("window", [None, 90])
@pytest.mark.parametrize("index", [0, 1, 2])
@pytest.mark.usefixtures("two_splits")
def test_rows_have_the_bytes_of_their_own_launches(
    index: int, window: int | None, half: bool
) -> None:
    own, always = both(steps()[index], window, half)
    assert equal_bytes(always[: len(own)], own)
    # Padding rows are read by no program and written by none.
    assert (always[len(own) :] == 7).all()


@pytest.mark.parametrize("programs", [1, 5])
@pytest.mark.usefixtures("two_splits")
def test_the_number_of_programs_changes_no_byte(
    programs: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(captured, "_PROGRAMS", programs)
    for step in steps()[1:]:
        own, always = both(step)
        assert equal_bytes(always[: len(own)], own)


def test_an_empty_step_writes_nothing() -> None:
    rows = rows_of([chunk(3, 2)], 16, random.Random(1))
    query, keys, values = tensors_of(rows, HEADS, KV_HEADS, HEAD_DIM, torch.float32, 2)
    arrays = arrays_of(layout_of(rows, HEADS, KV_HEADS), 0)
    arrays.work[None].counts.zero_()
    out = torch.full_like(query, 7.0)
    assert (tree_attention(query, keys, values, arrays, 0.25, out=out) == 7).all()


def test_launches_do_not_depend_on_the_step(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a graph records: grids and constants, and which memory."""
    seen: list[Any] = []

    class Kernel:
        def __init__(self, name: str) -> None:
            self.name = name

        def __getitem__(self, grid: tuple[int, ...]) -> Callable[..., None]:
            def launch(*arguments: Any, **constants: Any) -> None:
                pointers = [getattr(one, "shape", one) for one in arguments]
                seen.append((self.name, grid, pointers, constants))

            return launch

    for name in ("part_kernel", "combine_kernel", "prompt_kernel"):
        monkeypatch.setattr(device_form, name, Kernel(name))
    launches = []
    for step in steps()[1:]:
        seen.clear()
        # Arrays of one size, which hold different steps.
        rows = rows_of(step, 16, random.Random(1))
        work = layout_of(rows, HEADS, KV_HEADS).work[None]
        room = {"part_items": (2000, 8), "combined": (64, 4), "prompt_items": (90, 8)}
        items = {}
        for name, shape in room.items():
            items[name] = torch.zeros(shape, dtype=torch.int32)
            given = getattr(work, name)
            items[name][: len(given)] = given
        counts = torch.tensor([len(getattr(work, name)) for name in room], dtype=torch.int32)
        arrays = AttentionArrays.of(
            {None: WorkArrays(**items, counts=counts)},
            group=2,
            kv_heads=KV_HEADS,
            heights=(32, 32),
            page_size=16,
            page_ids=torch.zeros(99, dtype=torch.int32),
            row_position=torch.zeros(128, dtype=torch.int32),
            path_slots=torch.zeros(99, dtype=torch.int32),
        )
        query = torch.zeros(128, HEADS, HEAD_DIM)
        cache = torch.zeros(32, KV_HEADS, HEAD_DIM)
        tree_attention(query, cache, cache, arrays, 0.25)
        launches.append(list(seen))
    assert [name for name, *_ in launches[0]] == ["part_kernel", "combine_kernel", "prompt_kernel"]
    assert launches[0] == launches[1]
    # As many programs as fill the largest devices some times, not one an item of a full step.
    assert launches[0][0][1] == (KV_HEADS, 1056 // KV_HEADS)


@pytest.mark.parametrize("window", [None, 90])
def test_the_plain_form_reads_the_items(
    window: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("TRITON_INTERPRET", raising=False)
    for step in steps():
        own, always = both(step, window)
        torch.testing.assert_close(always[: len(own)], own, rtol=1e-5, atol=1e-5)
        assert (always[len(own) :] == 7).all()


def test_a_program_that_takes_one_item_alone_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    """Programs must go on to the items that no program has the number of."""

    class OneEach:
        def __getitem__(self, grid: tuple[int, ...]) -> Callable[..., None]:
            def launch(*arguments: Any, **constants: Any) -> None:
                *before, counts, positions, paths, pages, scale = arguments
                counts = counts.clamp(max=grid[1])
                right[grid](*before, counts, positions, paths, pages, scale, **constants)

            return launch

    step = steps()[1]
    monkeypatch.setattr(captured, "_PROGRAMS", 4)
    own, always = both(step)
    assert equal_bytes(always[: len(own)], own)
    right = attention_parts.part_kernel
    monkeypatch.setattr(device_form, "part_kernel", OneEach())
    _, always = both(step)
    assert not equal_bytes(always[: len(own)], own)


def test_counts_that_are_too_high_fail() -> None:
    """What is behind the items that count is no work."""
    rows = rows_of(steps()[1], 16, random.Random(1))
    query, keys, values = tensors_of(rows, HEADS, KV_HEADS, HEAD_DIM, torch.float32, 2)
    layout = layout_of(rows, HEADS, KV_HEADS)
    expected = tree_attention(query, keys, values, layout, 0.25)
    arrays = arrays_of(layout, 0, garbage=0)
    arrays.work[None].counts[1] += 1
    workspace = torch.ones(arrays.work[None].workspace(HEADS, HEAD_DIM))
    actual = tree_attention(query, keys, values, arrays, 0.25, workspace=workspace)
    assert not equal_bytes(actual, expected)


@pytest.mark.parametrize("kv_heads", [1, 2, 8, 64, 200])
@pytest.mark.parametrize("window", [None, 64, 4096, 4160])
def test_no_row_has_more_splits_than_the_combine_has_places(
    kv_heads: int, window: int | None
) -> None:
    order = KeyOrder.of(kv_heads, window)
    splits = order.spans(torch.arange(0, 200_000, 17).numpy()).splits
    assert splits.max() <= order.most_splits
    assert window is not None or splits.max() == order.most_splits


def test_unfit_arrays_are_named() -> None:
    def zeros(*shape: int) -> torch.Tensor:
        return torch.zeros(shape, dtype=torch.int32)

    with pytest.raises(ValueError, match=r"combined has shape \[2, 8\]"):
        WorkArrays(zeros(2, 8), zeros(2, 8), zeros(2, 8), zeros(3))
    with pytest.raises(ValueError, match=r"counts has shape \[2\]"):
        WorkArrays(zeros(2, 8), zeros(2, 4), zeros(2, 8), zeros(2))
    with pytest.raises(ValueError, match=r"prompt_items is torch\.float32"):
        WorkArrays(zeros(2, 8), zeros(2, 4), torch.zeros(2, 8), zeros(3))
