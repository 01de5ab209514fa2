"""Operators on a GPU whose rows do not depend on one another, bit by bit.

Attention and everything that adds up numbers of a row are kernels with one order of addition. What
torch computes is element by element; only the likeliest tokens, which feed drafts alone, are not.
"""

from __future__ import annotations

import torch

import spectrie_kernels
from spectrie.model.operators.base import Delta
from spectrie.model.operators.gpu import GpuOperators
from spectrie_kernels import PartialSums

__all__ = ["ExactOperators"]


class ExactOperators(GpuOperators):
    """Those of a GPU, with norms by kernels."""

    def add_norm(
        self, residual: torch.Tensor, delta: Delta | None, weight: torch.Tensor
    ) -> torch.Tensor:
        if isinstance(delta, torch.Tensor):
            delta = PartialSums(delta.float().unsqueeze(0))
        out = torch.empty_like(residual, dtype=self._settings.dtype)
        epsilon = self._config.norm_epsilon
        return spectrie_kernels.add_norm(residual, delta, weight, epsilon, out)

    def _normed(self, values: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
        # A copy of its own: the kernel writes to it, and its beginning is aligned whatever the rows.
        x = torch.empty(values.shape, dtype=torch.float32, device=values.device).copy_(values)
        rows = x.view(-1, values.shape[-1])
        out = torch.empty_like(rows)
        spectrie_kernels.add_norm(rows, None, weight, self._config.norm_epsilon, out)
        return out.view(values.shape)
