"""Choices of experts for tests, and rules of mixtures spelt out in NumPy."""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray

from kernels.tests.ascending import product, sensitive, signs
from spectrie_kernels import ExpertWeight, ExpertWork, SumOrder, group_choices


def equal_bytes(one: torch.Tensor, other: torch.Tensor) -> bool:
    """Whether two tensors hold the same bytes: unlike `torch.equal`, 0 is not -0."""
    assert one.dtype == other.dtype and one.shape == other.shape
    return torch.equal(one.contiguous().view(torch.uint8), other.contiguous().view(torch.uint8))


def random_ids(rows: int, num_experts: int, num_chosen: int, seed: int = 0) -> torch.Tensor:
    """Different experts for each row."""
    source = np.random.default_rng(seed)
    ids = [source.permutation(num_experts)[:num_chosen] for _ in range(rows)]
    return torch.tensor(np.array(ids).reshape(rows, num_chosen), dtype=torch.int32)


def work_of(ids: torch.Tensor, num_experts: int, element_bytes: int = 4) -> ExpertWork:
    """Grouped choices, behind memory of anything."""
    rows, num_chosen = ids.shape
    memory = torch.full((ExpertWork.words(rows, num_experts, num_chosen),), -7, dtype=torch.int32)
    work = ExpertWork.within(
        memory,
        rows=rows,
        num_experts=num_experts,
        num_chosen=num_chosen,
        element_bytes=element_bytes,
    )
    return group_choices(ids, work)


def weight_of(
    num_experts: int, out_features: int, order: SumOrder, dtype: torch.dtype, seed: int = 1
) -> ExpertWeight:
    """Numbers whose sums show their order."""
    values = sensitive(num_experts * out_features, order.in_features, seed, dtype)
    return ExpertWeight(values.view(num_experts, out_features, order.in_features), order)


def rows_of(count: int, order: SumOrder, dtype: torch.dtype, seed: int = 3) -> torch.Tensor:
    """Rows for such a weight."""
    return signs(count, order.in_features, seed, dtype)


def products(x: torch.Tensor, weight: ExpertWeight, ids: torch.Tensor) -> torch.Tensor:
    """float32 [rows * chosen, out]: each choice's product by the rule, 0 where none is chosen."""
    rows, chosen = ids.shape
    every = [product(x, values, weight.order) for values in weight.values]
    per_row = len(x) == rows
    out = torch.zeros(rows * chosen, weight.out_features)
    for choice, expert in enumerate(ids.flatten().tolist()):
        if expert >= 0:
            out[choice] = every[expert][choice // chosen if per_row else choice]
    return out


def neighbours_first(values: NDArray[np.float32]) -> NDArray[np.float32]:
    """[rows, any] -> [rows]: sums of two, zeros behind up to a power of two."""
    width = 1 << (values.shape[1] - 1).bit_length()
    values = np.pad(values, ((0, 0), (0, width - values.shape[1])))
    while values.shape[1] > 1:
        values = values[:, 0::2] + values[:, 1::2]
    return values[:, 0]
