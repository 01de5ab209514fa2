"""Products added in one written-down order, and numbers whose sum tells orders apart."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from spectrie_kernels import SumOrder

LARGE = 2.0**27
"""Swallows 1 in float32: (LARGE + 1) - LARGE is 0, (LARGE - LARGE) + 1 is 1."""


def sensitive(rows: int, columns: int, seed: int, dtype: torch.dtype) -> torch.Tensor:
    """Ones and large numbers of both signs in random order, one in four a random number; all have
    eight bits, so that every dtype of such range holds them."""
    source = np.random.default_rng(seed)
    values = source.choice([LARGE, -LARGE, 1.0, -1.0, 1.0, 3.0], size=(rows, columns))
    wide = source.standard_normal((rows, columns)) * 2.0 ** source.integers(-8, 27, (rows, columns))
    values = np.where(source.random((rows, columns)) < 0.25, wide, values)
    return torch.from_numpy(values).to(torch.bfloat16).to(dtype)


def signs(rows: int, columns: int, seed: int, dtype: torch.dtype) -> torch.Tensor:
    """Small factors: products with `sensitive` numbers stay sensitive."""
    source = np.random.default_rng(seed)
    return torch.from_numpy(source.choice([1.0, -1.0, 0.5, 1.5], size=(rows, columns))).to(dtype)


def product(
    x: torch.Tensor, weight: torch.Tensor, order: SumOrder, bias: torch.Tensor | None = None
) -> torch.Tensor:
    """x @ weight^T + bias in float32, the order spelt out: the rule in DESIGN.md, term by term."""
    left, right = x.float().numpy(), weight.float().numpy()
    segments = []
    for start in range(0, order.in_features, order.segment):
        total = np.zeros((len(left), len(right)), np.float32)
        for k in range(start, min(start + order.segment, order.in_features)):
            total = total + np.multiply.outer(left[:, k], right[:, k])
        segments.append(total)
    total = pairwise_sum(segments) if order.pairwise else ascending_sum(segments)
    # A sum of nothing but -0 is 0.
    result = torch.from_numpy(total + np.float32(0))
    return result if bias is None else result + bias.float()


def pairwise_sum(parts: list[NDArray[np.float32]]) -> NDArray[np.float32]:
    """Neighbours first: ((0+1)+(2+3))+((4+5)+(6+7))."""
    while len(parts) > 1:
        parts = [parts[i] + parts[i + 1] for i in range(0, len(parts), 2)]
    return parts[0]


def ascending_sum(parts: list[NDArray[np.float32]]) -> NDArray[np.float32]:
    """((0+1)+2)+3."""
    total = parts[0]
    for part in parts[1:]:
        total = total + part
    return total


def chain_dot(self: Any, a: Any, b: Any, d: Any, precision: Any, imprecise: Any) -> Any:
    """In place of the interpreter's product, NumPy's matmul, whose bits change with the size of a
    tile: each number takes its terms in ascending order, like an accumulator."""
    from triton.runtime.interpreter import TensorHandle

    total = d.data.astype(np.float32)
    left, right = a.data.astype(np.float32), b.data.astype(np.float32)
    for k in range(left.shape[1]):
        total = total + np.multiply.outer(left[:, k], right[k])
    return TensorHandle(total, d.dtype.scalar)
