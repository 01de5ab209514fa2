"""The matrix products of the decoder: torch's, and those of one order of addition."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch

import spectrie_kernels
from spectrie.model.step.scratch import Scratch
from spectrie_kernels import (
    ExpertWeight,
    ExpertWork,
    LinearTiles,
    LinearWeight,
    PartialSums,
    linear_sums_shape,
    linear_workspace,
)

__all__ = [
    "ExactLinear",
    "ExactSegments",
    "ExactSums",
    "ExpertLinear",
    "Linear",
    "OpenProduct",
    "Product",
    "RankSums",
    "WideLinear",
]

Product = Callable[[torch.Tensor, Scratch], torch.Tensor]
"""[rows, in] to [rows, out]."""

OpenProduct = Callable[[torch.Tensor, Scratch], torch.Tensor | PartialSums]
"""The same, or sums of it that whoever reads them finishes."""


@dataclass(frozen=True, slots=True)
class Linear:
    """A product `x @ weight.T + bias`: [rows, in] to [rows, out]; rows may change one another's bits.

    Attributes:
        name: What its result is called in the scratch.
        weight: [out, in].
        bias: [out], or None.
    """

    name: str
    weight: torch.Tensor
    bias: torch.Tensor | None

    def __call__(self, x: torch.Tensor, scratch: Scratch) -> torch.Tensor:
        out = scratch.empty(self.name, (x.shape[0], self.weight.shape[0]), x.dtype)
        if self.bias is None:
            return torch.mm(x, self.weight.t(), out=out)
        return torch.addmm(self.bias, x, self.weight.t(), out=out)


@dataclass(frozen=True, slots=True)
class WideLinear:
    """`Linear` without a bias and with float32 results, of which none was rounded to the weight's dtype."""

    name: str
    weight: torch.Tensor

    def __call__(self, x: torch.Tensor, scratch: Scratch) -> torch.Tensor:
        weight = self.weight
        out = scratch.empty(self.name, (x.shape[0], weight.shape[0]), torch.float32)
        if weight.dtype == torch.float32:
            return torch.mm(x, weight.t(), out=out)
        if x.device.type == "cpu":
            # There torch has no such product; GPUs are simulated there.
            return torch.mm(x.float(), weight.float().t(), out=out)
        return torch.mm(x, weight.t(), out_dtype=torch.float32, out=out)


@dataclass(frozen=True, slots=True)
class ExactLinear:
    """The product of `Linear`, in which a row's bits depend on that row alone.

    Attributes:
        name: What its result is called in the scratch.
        weight: The matrix with its order and bias.
        dtype: Of the result: that of the weight, or float32.
    """

    name: str
    weight: LinearWeight
    dtype: torch.dtype

    def __call__(self, x: torch.Tensor, scratch: Scratch) -> torch.Tensor:
        out = scratch.empty(self.name, (x.shape[0], self.weight.out_features), self.dtype)
        workspace = scratch.empty(
            "segments", (linear_workspace(x.shape[0], self.weight),), torch.float32
        )
        return spectrie_kernels.linear(x.contiguous(), self.weight, out, workspace=workspace)


@dataclass(frozen=True, slots=True)
class ExactSums:
    """`ExactLinear` for the residual stream: `add_norm` finishes its sums, in float32."""

    name: str
    weight: LinearWeight

    def __call__(self, x: torch.Tensor, scratch: Scratch) -> PartialSums:
        shape = linear_sums_shape(x.shape[0], self.weight)
        out = scratch.empty(self.name, shape, torch.float32)
        return spectrie_kernels.linear_sums(x.contiguous(), self.weight, out)


@dataclass(frozen=True, slots=True)
class ExactSegments:
    """`ExactLinear` for a reader that adds segments itself, in the same order and with the same bits: few
    rows, whose segments are computed side by side, then take no launch that adds.

    Attributes:
        name: What its result is called in the scratch.
        weight: The matrix with its order and bias.
        dtype: Of the result; its reader rounds sums to it.
    """

    name: str
    weight: LinearWeight
    dtype: torch.dtype

    def __call__(self, x: torch.Tensor, scratch: Scratch) -> torch.Tensor | PartialSums:
        rows, weight = x.shape[0], self.weight
        tiles = LinearTiles.of(
            rows, weight.order, weight.values.element_size(), out_features=weight.out_features
        )
        if not tiles.split:
            out = scratch.empty(self.name, (rows, weight.out_features), self.dtype)
            return spectrie_kernels.linear(x.contiguous(), weight, out, tiles=tiles)
        shape = linear_sums_shape(rows, weight, tiles)
        out = scratch.empty("segments", shape, torch.float32)
        return spectrie_kernels.linear_sums(x.contiguous(), weight, out, tiles=tiles)


@dataclass(frozen=True, slots=True)
class RankSums:
    """A rank's terms of the product of `ExactSums`: the sum that it sends, float32 [rows, out].

    The sums of all ranks, added pairwise in their order, have the bits of one rank's.

    Attributes:
        name: What its result is called in the scratch.
        weight: The columns of this rank, in the order of its segments, without the bias.
        bias: [out], added to the sum of all ranks; or None.
    """

    name: str
    weight: LinearWeight
    bias: torch.Tensor | None

    def __call__(self, x: torch.Tensor, scratch: Scratch) -> torch.Tensor:
        return ExactLinear(self.name, self.weight, torch.float32)(x, scratch)


@dataclass(frozen=True, slots=True)
class ExpertLinear:
    """The products of rows with the experts that they chose, each like `ExactLinear`.

    Attributes:
        name: What their results are called in the scratch.
        weight: Of all experts, or a rank's outputs of them.
        num_chosen: Experts of a row.
    """

    name: str
    weight: ExpertWeight
    num_chosen: int

    def work(self, ids: torch.Tensor, scratch: Scratch) -> ExpertWork:
        """Returns which rows each expert computes.

        Args:
            ids: int32 [rows, chosen]: the experts of each row.
            scratch: Where it goes.
        """
        rows, experts = ids.shape[0], self.weight.num_experts
        words = ExpertWork.words(rows, experts, self.num_chosen)
        work = ExpertWork.within(
            scratch.empty("expert work", (words,), torch.int32),
            rows=rows,
            num_experts=experts,
            num_chosen=self.num_chosen,
            element_bytes=self.weight.values.element_size(),
        )
        return spectrie_kernels.group_choices(ids, work)

    def __call__(self, x: torch.Tensor, work: ExpertWork, scratch: Scratch) -> torch.Tensor:
        """[rows, in], or [rows * chosen, in], to [rows * chosen, out]: a row's results side by side."""
        shape = (work.choices.shape[0], self.weight.out_features)
        out = scratch.empty(self.name, shape, x.dtype)
        return spectrie_kernels.expert_linear(x.contiguous(), self.weight, work, out)
