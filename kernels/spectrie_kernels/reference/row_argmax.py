"""Row argmax with ties to the lowest id, in plain torch."""

from __future__ import annotations

import torch

__all__ = ["row_argmax"]


def row_argmax(logits: torch.Tensor, out: torch.Tensor) -> torch.Tensor:
    """See `spectrie_kernels.row_argmax`."""
    logits = logits.masked_fill(logits.isnan(), float("-inf"))
    largest = logits.amax(dim=1, keepdim=True)
    ids = torch.arange(logits.shape[1], device=logits.device, dtype=torch.int32)
    lowest = torch.where(logits == largest, ids, logits.shape[1]).amin(dim=1)
    return out.copy_(lowest.where(largest[:, 0].isfinite(), -1))
