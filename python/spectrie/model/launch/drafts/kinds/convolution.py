"""Convolutions over the rows of a block, whose kernels depend on the rows (DFLASH 2)."""

from __future__ import annotations

from collections.abc import Callable

import torch

from spectrie.model.drafters.dflash import Convolution as Described
from spectrie.model.launch.drafts.operators import DraftOperators
from spectrie.model.launch.drafts.tensors import DraftTensors
from spectrie.model.operators import Result
from spectrie_kernels import PartialSums

__all__ = ["Convolution"]


class Convolution:
    """The two around one half of a layer: before it, and behind it.

    A row becomes a sum of itself and of the rows before it in its block, each times a weight that was learned for its
    column, plus one that a product makes of the row for a group of neighbouring columns. The terms are added in one
    order, the row itself first, so that no other block changes a bit.
    """

    def __init__(self, described: Described, tensors: DraftTensors) -> None:
        """Copies its weights."""
        self._taps = described.taps
        self._kernel = tensors.wide("kernels", described.kernel)
        self._base = tensors.norm(described.base).view(2, self._taps, -1)

    def around(
        self, x: torch.Tensor, operators: DraftOperators, half: Callable[[], Result]
    ) -> torch.Tensor:
        """Puts what a half takes through the first convolution, and what it gives through the second.

        Args:
            x: [blocks, rows, hidden] in the format of products, of which the first row of each block takes no part;
                changed.
            operators: Of the layers.
            half: Computes it from `x`: float32 [blocks * rows, hidden].

        Returns:
            What `half` gave, changed.
        """
        blocks, rows, hidden = x.shape
        found = self._kernel(x.view(-1, hidden), operators.scratch)
        kernels = found.view(blocks, rows, 2, self._taps, -1)
        self._apply(x, kernels[:, :, 0], self._base[0], operators)
        given = half()
        if isinstance(given, PartialSums):
            raise ValueError("a half with convolutions around it gave sums that are not finished")
        self._apply(given.view(x.shape), kernels[:, :, 1], self._base[1], operators)
        return given

    def _apply(
        self,
        x: torch.Tensor,
        kernels: torch.Tensor,
        base: torch.Tensor,
        operators: DraftOperators,
    ) -> None:
        """One of both in place, by kernels [blocks, rows, taps, groups] and weights [taps, hidden]."""
        blocks, rows, hidden = x.shape
        groups, block, scratch = kernels.shape[-1], rows - 1, operators.scratch
        in_groups = x.view(blocks, rows, groups, hidden // groups)[:, 1:]
        taken = scratch.empty("convolved rows", in_groups.shape, torch.float32).copy_(in_groups)
        total = scratch.empty("convolved", in_groups.shape, torch.float32).zero_()
        for tap in range(min(self._taps, block)):
            part = taken[:, : block - tap]
            terms = scratch.empty("convolving", part.shape, torch.float32)
            own = kernels[:, 1 + tap :, tap, :, None]
            terms.copy_(own.expand_as(terms)).add_(base[tap].view(groups, -1)).mul_(part)
            total[:, tap:].add_(terms)
        in_groups.copy_(total)
