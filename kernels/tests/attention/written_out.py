"""The order of attention spelt out in NumPy, one row and head after the other: the rule in DESIGN.md."""

from __future__ import annotations

import itertools

import numpy as np
import torch
from numpy.typing import NDArray

from kernels.tests.attention.steps import Content, Shape
from spectrie_kernels import KeyOrder

Floats = NDArray[np.float32]
FLOOR = np.float32(-1e20)
LEAST = np.float32(2.0**-100)


def last_row(text: Content, shape: Shape, order: KeyOrder, step: int) -> torch.Tensor:
    """Attention of the last position of a text, [heads, head_dim] float32.

    `step` keys share a running maximum: 64 in half precision, 16 in float32.
    """
    query, keys, values = (one.float().numpy() for one in (text.query[-1], text.keys, text.values))
    scale = np.float32(shape.head_dim**-0.5 * 1.4426950408889634)
    group = shape.heads // shape.kv_heads
    result = np.zeros((shape.heads, shape.head_dim), np.float32)
    position = len(keys) - 1
    spans = order.spans(np.array([position]))
    begin, end, split = int(spans.begin[0]), int(spans.end[0]), int(spans.split[0])
    bounds = [begin, *(key for key in range(begin + 1, end) if key % split == 0), end]
    for head in range(shape.heads):
        own = keys[:, head // group], values[:, head // group]
        parts = [
            part(query[head], *own, first, behind, scale, shape.window, step)
            for first, behind in [*itertools.pairwise(bounds), (end, position + 1)]
            if first < behind
        ]
        best = max(one[0] for one in parts)
        total, acc = np.float32(0), np.zeros(shape.head_dim, np.float32)
        for top, weight, vector in parts:
            grow = np.float32(2.0) ** (top - best)
            total = total + weight * grow
            acc = acc + vector * grow
        result[head] = np.where(np.abs(acc) < LEAST, np.float32(0), acc) * (1 / total)
    return torch.from_numpy(result)


def part(
    query: Floats,
    keys: Floats,
    values: Floats,
    begin: int,
    end: int,
    scale: np.float32,
    window: int | None,
    step: int,
) -> tuple[np.float32, np.float32, Floats]:
    """Maximum, sum of weights and weighted sum of the keys of a part."""
    best = FLOOR
    lanes, acc = np.zeros(step // 2, np.float32), np.zeros(values.shape[1], np.float32)
    for first in range(begin, end, step):
        at = range(first, min(first + step, end))
        weights = np.zeros(step, np.float32)
        if window is not None:
            at = range(max(at.start, len(keys) - window), at.stop)
        if at:
            scores = np.zeros(len(at), np.float32)
            for dim in range(len(query)):
                scores = scores + keys[at.start : at.stop, dim] * query[dim]
            larger = max(best, np.ceil(scores.max() * scale))
            own = np.exp2(scores * scale - larger)
            weights[at.start - first : at.stop - first] = own
            shrink = np.float32(2.0) ** (best - larger)
            best = larger
            lanes, acc = lanes * shrink, acc * shrink
        lanes = lanes + (weights.reshape(-1, 2, 8)[:, 0] + weights.reshape(-1, 2, 8)[:, 1]).ravel()
        for key in at:
            acc = acc + values[key] * weights[key - first]
    while len(lanes) > 1:
        lanes = lanes[::2] + lanes[1::2]
    return best, lanes[0], acc
