"""Which form of a kernel runs: Triton's or the plain one."""

from __future__ import annotations

import importlib.util
import os

import torch

__all__ = ["has_triton", "is_interpreted_bfloat16", "runs_triton"]


def has_triton() -> bool:
    """Returns whether Triton can be imported."""
    return importlib.util.find_spec("triton") is not None


def runs_triton(tensor: torch.Tensor) -> bool:
    """Returns whether the Triton form runs on a tensor: on a GPU, or under the interpreter."""
    interpreted = os.environ.get("TRITON_INTERPRET") == "1"
    return (tensor.is_cuda or interpreted) and has_triton()


def is_interpreted_bfloat16(tensor: torch.Tensor) -> bool:
    """Returns whether the interpreter would treat numbers wrongly: it multiplies the raw bits of
    bfloat16, and cuts its lower bits off instead of rounding. float32 holds its numbers exactly."""
    return tensor.dtype == torch.bfloat16 and not tensor.is_cuda
