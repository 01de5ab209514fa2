"""The same rows in different steps: alone, in trees, in chunks of a prompt, in company."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch

from kernels.tests.ascending import sensitive
from kernels.tests.forests import CHUNK, TREE, Request, layout_of, path_of, rows_of
from spectrie_kernels import AttentionTiles, tree_attention

Attention = Callable[..., torch.Tensor]


@dataclass(frozen=True, slots=True)
class Shape:
    """Heads of a made-up model, with the window of its layers."""

    heads: int = 2
    kv_heads: int = 1
    head_dim: int = 16
    window: int | None = None
    dtype: torch.dtype = torch.float32


@dataclass(frozen=True, slots=True)
class Content:
    """A request of a step with its numbers: keys and values by logical index, a query for each row."""

    request: Request
    query: torch.Tensor
    keys: torch.Tensor
    values: torch.Tensor


def drawn(kv_len: int, parents: list[int], shape: Shape, seed: int) -> Content:
    """A tree behind `kv_len` keys, its values such that the order of their sum shows."""
    generator = torch.Generator().manual_seed(seed)
    length = kv_len + len(parents)
    key_shape = (length, shape.kv_heads, shape.head_dim)
    keys = torch.randn(key_shape, generator=generator)
    query = torch.randn(len(parents), shape.heads, shape.head_dim, generator=generator)
    width = shape.kv_heads * shape.head_dim
    if shape.dtype == torch.float16:
        values = torch.randn(key_shape, generator=generator)
    else:
        values = sensitive(length, width, seed, torch.float32).view(key_shape)
    numbers = (one.to(shape.dtype) for one in (query, keys, values))
    return Content(Request(kv_len, TREE, parents), *numbers)


def line_of(content: Content, node: int) -> Content:
    """The path of a node as one text: all of its rows that are in the step, as a chunk."""
    path = path_of(content.request.parents, node)
    logical = [*range(content.request.kv_len), *(content.request.kv_len + one for one in path)]
    parents = list(range(-1, len(path) - 1))
    request = Request(content.request.kv_len, CHUNK, parents)
    return Content(request, content.query[path], content.keys[logical], content.values[logical])


def alone(content: Content, node: int) -> Content:
    """A node as plain decoding meets it: its ancestors are committed, it is the only row."""
    line = line_of(content, node)
    request = Request(len(line.keys) - 1, TREE, [-1])
    return Content(request, line.query[-1:], line.keys, line.values)


def chunk_of(text: Content, begin: int, end: int) -> Content:
    """Rows from position `begin` to before `end` of a text whose every position has a query."""
    assert text.request.kv_len == 0
    request = Request(begin, CHUNK, list(range(-1, end - begin - 1)))
    return Content(request, text.query[begin:end], text.keys[:end], text.values[:end])


def attended(
    step: list[Content],
    shape: Shape,
    *,
    page_size: int = 16,
    seed: int = 0,
    device: str = "cpu",
    attention: Attention = tree_attention,
) -> list[torch.Tensor]:
    """Runs one step over randomly placed pages; returns the rows of each request."""
    rows = rows_of([one.request for one in step], page_size, random.Random(seed))
    slots = (int(rows.page_ids.max()) + 1) * page_size
    caches = torch.full((2, slots, shape.kv_heads, shape.head_dim), float("nan"))
    # Slots of a page behind a request's last key hold what an earlier owner left.
    for page in rows.page_ids.tolist():
        caches[:, page * page_size : (page + 1) * page_size] = 7.0
    caches = caches.to(shape.dtype)
    for index, one in enumerate(step):
        logical = np.arange(len(one.keys))
        at = torch.from_numpy(rows.slots(np.full_like(logical, index), logical))
        caches[0, at], caches[1, at] = one.keys, one.values
    tiles = AttentionTiles.of(shape.head_dim, shape.dtype.itemsize) if device == "cuda" else None
    layout = layout_of(rows, shape.heads, shape.kv_heads, shape.window, device, tiles)
    query = torch.cat([one.query for one in step])
    numbers = (one.to(device) for one in (query, caches[0], caches[1]))
    out = attention(*numbers, layout, shape.head_dim**-0.5, window=shape.window).cpu()
    return list(torch.split(out, [len(one.request.parents) for one in step]))


def equal_bytes(one: torch.Tensor, other: torch.Tensor) -> bool:
    """Whether two tensors hold the same bytes: unlike `torch.equal`, 0 is not -0."""
    assert one.dtype == other.dtype and one.shape == other.shape
    kind = torch.int32 if one.dtype == torch.float32 else torch.int16
    return torch.equal(one.contiguous().view(kind), other.contiguous().view(kind))
