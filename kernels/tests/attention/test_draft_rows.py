"""Rows whose own keys lie apart from their request's pages, behind keys of which the first may be none."""

from __future__ import annotations

import random

import numpy as np
import pytest
import torch

from spectrie_kernels import (
    AttentionArrays,
    AttentionTiles,
    DraftRows,
    KeyOrder,
    WorkArrays,
    reference,
    tree_attention,
)
from spectrie_kernels.attention.work import AttentionWork

pytestmark = pytest.mark.usefixtures("ascending_dot")

HEADS, KV_HEADS, HEAD_DIM, PAGE = 2, 1, 16, 16
PAGES = 24
"""Pages of the cache, before those of draft rows."""


def level(lengths: list[int], depths: list[list[int]]) -> tuple[DraftRows, list[list[int]]]:
    """Requests of some lengths with a row for each depth; and the slots that each row sees."""
    source = random.Random(3)
    order = source.sample(range(PAGES), PAGES)
    pages: list[int] = []
    begins, starts, counts = [0], [], []
    positions: list[int] = []
    path_begin: list[int] = []
    paths: list[int] = []
    seen: list[list[int]] = []
    next_slot = PAGES * PAGE
    for length, own in zip(lengths, depths, strict=True):
        used = [order.pop() for _ in range(-(-length // PAGE))]
        cached = [used[index // PAGE] * PAGE + index % PAGE for index in range(length)]
        pages += used
        begins.append(len(pages))
        starts.append(len(positions))
        counts.append(len(own))
        for depth in own:
            path = list(range(next_slot, next_slot + depth + 1))
            next_slot += depth + 1
            positions.append(length + depth)
            path_begin.append(len(paths))
            paths += path
            seen.append(cached + path)
    rows = DraftRows(
        row_ancestors=np.ones(len(positions), np.int64),
        request_row_start=np.array(starts, np.int32),
        request_row_count=np.array(counts, np.int32),
        request_kv_len=np.array(lengths, np.int32),
        request_kind=np.ones(len(lengths), np.int32),
        page_indptr=np.array(begins, np.int32),
        page_ids=np.array(pages, np.int32),
        page_size=PAGE,
        row_position=np.array(positions, np.int64),
        path_begin=np.array(path_begin, np.int64),
        path_slots=np.array(paths, np.int64),
    )
    return rows, seen


def attended(
    rows: DraftRows, window: int | None, first_key: int, seed: int = 1
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
    """What the kernels give, and queries, keys and values."""
    generator = torch.Generator().manual_seed(seed)
    query = torch.randn(len(rows.row_position), HEADS, HEAD_DIM, generator=generator)
    shape = ((PAGES + 12) * PAGE, KV_HEADS, HEAD_DIM)
    keys, values = (torch.randn(shape, generator=generator) for _ in range(2))
    tiles = AttentionTiles(16, 16)
    work = AttentionWork.of(rows, KeyOrder.of(KV_HEADS, window), HEADS // KV_HEADS, tiles)

    def on_device(array: np.ndarray) -> torch.Tensor:
        return torch.from_numpy(np.ascontiguousarray(array, np.int32))

    items = [work.part_items, work.combined, work.prompt_items]
    parts, combined, prompts = map(on_device, items)
    counts = torch.tensor([len(one) for one in items], dtype=torch.int32)
    arrays = WorkArrays(parts, combined, prompts, counts)
    layout = AttentionArrays.of(
        {window: arrays},
        group=HEADS // KV_HEADS,
        kv_heads=KV_HEADS,
        heights=(16, 16),
        page_size=PAGE,
        page_ids=on_device(rows.page_ids),
        row_position=on_device(rows.row_position),
        path_slots=on_device(rows.path_slots),
    )
    out = torch.zeros_like(query)
    tree_attention(query, keys, values, layout, 0.25, window=window, out=out, first_key=first_key)
    plain = torch.zeros_like(query)
    reference.attention_of_items(query, keys, values, layout, 0.25, window, plain, first_key)
    torch.testing.assert_close(out, plain, rtol=1e-5, atol=1e-5)
    return out, query, keys, values


@pytest.mark.parametrize("first_key", [0, 1])
@pytest.mark.parametrize("window", [None, 70, 5])
def test_a_row_sees_cached_keys_from_the_first_and_its_path(
    window: int | None, first_key: int
) -> None:
    # Within a unit, at its end, and over several of them.
    rows, seen = level([1, 63, 200], [[0, 1], [0, 2, 3], [0, 0, 5]])
    out, query, keys, values = attended(rows, window, first_key)
    for row, slots in enumerate(seen):
        begin = first_key if window is None else max(first_key, len(slots) - window)
        at = torch.tensor(slots[begin:])
        scores = torch.einsum("hd,kd->hk", query[row], keys[at, 0]) * 0.25
        right = scores.softmax(-1) @ values[at, 0]
        torch.testing.assert_close(out[row], right, rtol=1e-4, atol=1e-4)


def test_the_first_key_matters(monkeypatch: pytest.MonkeyPatch) -> None:
    rows, _ = level([5, 130], [[0], [1]])
    one, other = (attended(rows, None, first_key)[0] for first_key in (0, 1))
    assert ((one - other).abs().amax(dim=(1, 2)) > 1e-4).all()


def test_a_row_has_the_bytes_that_it_has_alone() -> None:
    lengths, depths = [63, 200, 100], [[0, 2], [0, 0, 5], [1]]
    together, _ = level(lengths, depths)
    out, *_ = attended(together, None, 1)
    # The same rows, each as a request of its own.
    owner = together.owner
    each = DraftRows(
        row_ancestors=together.row_ancestors,
        request_row_start=np.arange(len(owner), dtype=np.int32),
        request_row_count=np.ones(len(owner), np.int32),
        request_kv_len=together.request_kv_len[owner],
        request_kind=np.ones(len(owner), np.int32),
        page_indptr=np.append(together.page_indptr[owner], len(together.page_ids)).astype(np.int32),
        page_ids=together.page_ids,
        page_size=PAGE,
        row_position=together.row_position,
        path_begin=together.path_begin,
        path_slots=together.path_slots,
    )
    assert torch.equal(attended(each, None, 1)[0], out)


def test_no_other_first_key_is_taken() -> None:
    rows, _ = level([5], [[0]])
    with pytest.raises(ValueError, match="first_key is 2, expected 0 or 1"):
        attended(rows, None, 2)
