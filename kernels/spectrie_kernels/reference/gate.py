"""The gate of an MLP, in plain torch."""

from __future__ import annotations

import torch
from torch.nn import functional

from spectrie_kernels.partial_sums import PartialSums
from spectrie_kernels.reference.linear import finished

__all__ = ["gate"]


def gate(gate_up: torch.Tensor | PartialSums, out: torch.Tensor) -> torch.Tensor:
    """See `spectrie_kernels.gate`."""
    opened, up = finished(gate_up, out.dtype).float().chunk(2, dim=-1)
    return out.copy_(functional.silu(opened) * up)
