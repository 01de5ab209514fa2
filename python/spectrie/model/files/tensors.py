"""Arrays as tensors of torch: the way from a checkpoint to what computes or trains in torch."""

from __future__ import annotations

import numpy as np
import torch

from spectrie.model.files.arrays import Array, format_of

__all__ = ["as_tensor"]


def as_tensor(array: Array) -> torch.Tensor:
    """Returns the same memory as a tensor in the array's number format; a copy if it is not aligned."""
    tensor = torch.from_numpy(np.require(array, requirements="A"))
    return tensor.view(torch.bfloat16) if format_of(array) == "bfloat16" else tensor
