"""Random steps: chunks and trees of several requests over scattered pages."""

from __future__ import annotations

import random
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from spectrie_kernels import AttentionLayout, AttentionRows, AttentionTiles

CHUNK, TREE = 0, 1


@dataclass(frozen=True, slots=True)
class Request:
    """One request of a made-up step: keys already cached, its kind and its rows' parents."""

    kv_len: int
    kind: int
    parents: list[int]


def chunk(kv_len: int, rows: int) -> Request:
    return Request(kv_len, CHUNK, [row - 1 for row in range(rows)])


def tree(kv_len: int, rows: int, random_source: random.Random) -> Request:
    """A random tree whose parents come before their children; node 0 is the root."""
    parents = [-1, *(random_source.randrange(row) for row in range(1, rows))]
    return Request(kv_len, TREE, parents)


def path_of(parents: list[int], node: int) -> list[int]:
    """Nodes from the root to `node`."""
    path = [node]
    while parents[path[-1]] >= 0:
        path.append(parents[path[-1]])
    return path[::-1]


def ancestor_words(parents: list[int]) -> list[int]:
    """Bit j of word i: row i may see row j, itself included; as signed 64-bit integers."""
    words: list[int] = []
    for row, parent in enumerate(parents):
        words.append((words[parent] if parent >= 0 else 0) | 1 << row)
    return [word - (1 << 64) if word >= 1 << 63 else word for word in words]


def integers(values: Iterable[int]) -> NDArray[np.int32]:
    return np.array(list(values), np.int32)


def rows_of(requests: list[Request], page_size: int, random_source: random.Random) -> AttentionRows:
    """The rows of a step, their pages drawn in random order from a pool with spare pages."""
    pages_of = [-(-(one.kv_len + len(one.parents)) // page_size) for one in requests]
    pool = list(range(sum(pages_of) + 3))
    random_source.shuffle(pool)
    starts: list[int] = []
    words: list[int] = []
    indptr = [0]
    for one, pages in zip(requests, pages_of, strict=True):
        starts.append(len(words))
        # The words of a chunk are not read; ones there would show if they were.
        words += ancestor_words(one.parents) if one.kind == TREE else [-1] * len(one.parents)
        indptr.append(indptr[-1] + pages)
    return AttentionRows(
        row_ancestors=np.array(words, np.int64),
        request_row_start=integers(starts),
        request_row_count=integers(len(one.parents) for one in requests),
        request_kv_len=integers(one.kv_len for one in requests),
        request_kind=integers(one.kind for one in requests),
        page_indptr=integers(indptr),
        page_ids=integers(pool[: indptr[-1]]),
        page_size=page_size,
    )


def layout_of(
    rows: AttentionRows,
    heads: int,
    kv_heads: int,
    window: int | None = None,
    device: torch.device | str = "cpu",
    tiles: AttentionTiles | None = None,
) -> AttentionLayout:
    """The layout of a model all of whose layers have one window, in the highest tiles or others."""
    return AttentionLayout.of(
        rows,
        group=heads // kv_heads,
        kv_heads=kv_heads,
        tiles=tiles or AttentionTiles(),
        windows=[window],
        device=device,
    )


def tensors_of(
    rows: AttentionRows, heads: int, kv_heads: int, head_dim: int, dtype: torch.dtype, seed: int
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Query and caches of standard normal entries; slots no page names hold NaN."""
    generator = torch.Generator().manual_seed(seed)
    size = rows.page_size
    slots = (int(rows.page_ids.max()) + 1) * size
    query = torch.randn(len(rows.row_ancestors), heads, head_dim, generator=generator)
    caches = torch.randn(2, slots, kv_heads, head_dim, generator=generator)
    used = torch.zeros(slots, dtype=torch.bool)
    for page in rows.page_ids.tolist():
        used[page * size : (page + 1) * size] = True
    caches[:, ~used] = float("nan")
    return query.to(dtype), caches[0].to(dtype), caches[1].to(dtype)
