"""Attention's work of rows that the device has found: that of the same rows on the host."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

import spectrie_kernels
from spectrie_kernels import (
    AttentionArrays,
    AttentionTiles,
    DraftRows,
    KeyOrder,
    RootRows,
    WorkArrays,
    reference,
    tree_attention,
)
from spectrie_kernels.attention.work import AttentionWork
from spectrie_kernels.device.sampling import draft_roots as device_form

pytestmark = pytest.mark.usefixtures("ascending_dot")

PAGE, PAGES = 16, 60
POSITIONS = [1, 63, 64, 65, 127, 128, 129, 191, 192, 193, 255, 256, 257, 300]
ORDERS = [
    KeyOrder(2),
    KeyOrder(32),
    KeyOrder(2, window=70),
    KeyOrder(1, window=7),
    KeyOrder(4, 200),
]
Form = Callable[..., Any]


def on_host(positions: list[int], depth: int = 0) -> DraftRows:
    """The rows, each behind so many others of a request of its own, with pages in a shuffled order."""
    cached = [max(0, position - depth) for position in positions]
    counts = [-(-length // PAGE) for length in cached]
    shuffled = np.random.default_rng(3).permutation(PAGES)
    pages = np.concatenate(
        [np.roll(shuffled, -index)[:count] for index, count in enumerate(counts)]
    )
    rows = len(positions)
    return DraftRows(
        row_ancestors=np.ones(rows, np.int64),
        request_row_start=np.arange(rows, dtype=np.int32),
        request_row_count=np.ones(rows, np.int32),
        request_kv_len=np.array(cached, np.int32),
        request_kind=np.ones(rows, np.int32),
        page_indptr=np.cumsum([0, *counts]).astype(np.int32),
        page_ids=pages.astype(np.int32),
        page_size=PAGE,
        row_position=np.array(positions, np.int64),
        path_begin=np.arange(rows) * (depth + 1),
        path_slots=PAGES * PAGE + np.arange(rows * (depth + 1)),
    )


def found(
    host: DraftRows, order: KeyOrder, form: Form, room: int, depth: int = 0
) -> tuple[RootRows, WorkArrays]:
    """The same rows as the device has them, with room behind them, and their work."""
    count = len(host.row_position)
    rows = RootRows.empty(room, "cpu")
    rows.positions[:count] = torch.from_numpy(host.row_position)
    rows.pages[:count] = torch.from_numpy(host.page_indptr[:-1])
    work = WorkArrays(
        torch.full((room * (order.most_splits + 1), 8), 1 << 20, dtype=torch.int32),
        torch.full((room, 4), 1 << 20, dtype=torch.int32),
        torch.zeros(0, 8, dtype=torch.int32),
        torch.full((3,), 1 << 20, dtype=torch.int32),
    )
    form(rows, torch.tensor([count], dtype=torch.int32), order, work, depth=depth)
    return rows, work


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("form", [spectrie_kernels.root_work, reference.root_work])
def test_items_are_those_of_the_host_beside_some_without_keys(form: Form, order: KeyOrder) -> None:
    for positions in ([POSITIONS[0]], POSITIONS, POSITIONS[::-1]):
        host = on_host(positions)
        expected = AttentionWork.of(host, order, 1, AttentionTiles(16, 16))
        _, work = found(host, order, form, len(positions) + 3)
        parts, rows, prompts = work.counts.tolist()
        assert (rows, prompts) == (len(positions), 0)
        assert parts == rows * (order.most_splits + 1)
        items = work.part_items[:parts].tolist()
        with_keys = [item for item in items if item[2] < item[3]]
        assert sorted(with_keys) == sorted(expected.part_items.tolist())
        # No tail, and no position is in them: they leave nothing.
        assert all(item[0] == 1 and item[6:] == [0, 0] for item in items if item not in with_keys)
        assert work.combined[:rows].tolist() == expected.combined.tolist()


@pytest.mark.parametrize("form", [spectrie_kernels.root_work, reference.root_work])
@pytest.mark.parametrize("depth", [1, 2])
def test_tails_of_rows_behind_others_are_those_of_the_host(depth: int, form: Form) -> None:
    # Splits differ in which other rows could take part: here none does.
    host = on_host(POSITIONS[depth:], depth)
    expected = AttentionWork.of(host, ORDERS[0], 1, AttentionTiles(16, 16))
    _, work = found(host, ORDERS[0], form, len(POSITIONS), depth)
    items = work.part_items[: int(work.counts[0])].tolist()
    tails = [item for item in items if not item[0]]
    assert tails == [item for item in expected.part_items.tolist() if not item[0]]


def attended(
    host: DraftRows, work: WorkArrays, order: KeyOrder, page_ids: torch.Tensor
) -> torch.Tensor:
    """What rows get, with NaN wherever no item leaves anything."""
    generator = torch.Generator().manual_seed(1)
    slots = PAGES * PAGE + len(host.path_slots)
    keys, values = (torch.randn(slots, 1, 16, generator=generator) for _ in range(2))
    query = torch.randn(len(host.row_position), 2, 16, generator=generator)
    layout = AttentionArrays.of(
        {order.window: work},
        group=2,
        kv_heads=1,
        heights=(16, 16),
        page_size=PAGE,
        page_ids=page_ids,
        row_position=torch.from_numpy(host.row_position).int(),
        path_slots=torch.from_numpy(host.path_slots).int(),
    )
    workspace = layout.work[order.window].workspace(2, 16)
    return tree_attention(
        query,
        keys,
        values,
        layout,
        0.25,
        window=order.window,
        out=torch.full_like(query, float("nan")),
        workspace=torch.full((workspace,), float("nan")),
        first_key=1,
    )


def both(
    order: KeyOrder, monkeypatch: pytest.MonkeyPatch, depth: int = 0, given: int | None = None
) -> tuple[torch.Tensor, torch.Tensor]:
    """Attention of rows behind `depth` others by the work of the host, and by that of the device, which was given
    that depth or another."""
    monkeypatch.setattr(KeyOrder, "of", lambda kv_heads, window=None: order)
    host = on_host(POSITIONS[depth:], depth)
    page_ids = torch.from_numpy(host.page_ids)
    packed = AttentionWork.of(host, order, 2, AttentionTiles(16, 16))
    parts, combined = map(torch.from_numpy, (packed.part_items, packed.combined))
    counts = torch.tensor([len(parts), len(combined), 0], dtype=torch.int32)
    expected = WorkArrays(parts, combined, torch.zeros(0, 8, dtype=torch.int32), counts)
    number = len(host.row_position)
    given = depth if given is None else given
    _, work = found(host, order, spectrie_kernels.root_work, number, given)
    return attended(host, expected, order, page_ids), attended(host, work, order, page_ids)


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("depth", [0, 1, 2])
def test_rows_have_the_bytes_that_the_host_gives_them(
    depth: int, order: KeyOrder, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected, given = both(order, monkeypatch, depth)
    assert not expected.isnan().any()
    assert torch.equal(expected.view(torch.int32), given.view(torch.int32))


def test_a_path_that_begins_elsewhere_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    expected, given = both(KeyOrder(2), monkeypatch, depth=1, given=0)
    assert not torch.equal(expected.view(torch.int32), given.view(torch.int32))


def test_other_cuts_are_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    order = KeyOrder(2, window=70)
    constants, options = device_form.work_form(order, 0)
    monkeypatch.setattr(device_form, "work_form", lambda *_: (constants | {"WINDOW": 0}, options))
    _, work = found(on_host(POSITIONS), order, spectrie_kernels.root_work, len(POSITIONS))
    expected = AttentionWork.of(on_host(POSITIONS), order, 1, AttentionTiles(16, 16))
    items = [item for item in work.part_items.tolist() if item[2] < item[3]]
    assert sorted(items) != sorted(expected.part_items.tolist())


def test_every_position_is_cut_alike_by_both_forms() -> None:
    count = torch.tensor([20], dtype=torch.int32)
    for order, first in itertools.product(ORDERS, (0, 54, 118, 182, 630)):
        rows, works = RootRows.empty(20, "cpu"), []
        rows.positions.copy_(torch.arange(first, first + 20))
        for form in (spectrie_kernels.root_work, reference.root_work):
            _, work = found(on_host([1] * 20), order, reference.root_work, 20)
            form(rows, count, order, work, depth=3)
            works.append(work)
        assert torch.equal(works[0].part_items, works[1].part_items)
        assert torch.equal(works[0].combined, works[1].combined)


def test_unfit_arguments_are_named() -> None:
    rows, work = found(on_host([5]), KeyOrder(2), spectrie_kernels.root_work, 1)
    count = torch.tensor([1], dtype=torch.int32)
    with pytest.raises(ValueError, match="part_items"):
        spectrie_kernels.root_work(rows, count, KeyOrder(3), work)
    with pytest.raises(ValueError, match="depth is 64"):
        spectrie_kernels.root_work(rows, count, KeyOrder(2), work, depth=64)
    with pytest.raises(ValueError, match="count is"):
        spectrie_kernels.root_work(rows, count.long(), KeyOrder(2), work)
