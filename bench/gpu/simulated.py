"""The code of a GPU on tensors of this CPU, for runs and tests without a device."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from typing import Any
from unittest import mock

import torch

from spectrie.model import gpu

__all__ = ["NAME", "simulated_gpu"]

NAME = "simulated GPU"
_FREE_BYTES = 64 << 20


@contextlib.contextmanager
def simulated_gpu(*, interpreted: bool = False) -> Iterator[None]:
    """Models loaded meanwhile find one GPU with 64 MiB free, whose tensors are the CPU's.

    Args:
        interpreted: Whether the kernels run in Triton's interpreter where `TRITON_INTERPRET` is 1,
            instead of in their torch form, which is a hundred times faster.
    """
    answers: dict[str, Any] = {
        "is_available": lambda: True,
        "count": lambda: 1,
        "device": lambda rank: torch.device("cpu"),
        "use": lambda device: None,
        "name": lambda device: NAME,
        "free_bytes": lambda device: _FREE_BYTES,
    }
    with mock.patch.multiple(gpu, **answers), mock.patch.dict(os.environ):
        if not interpreted:
            os.environ.pop("TRITON_INTERPRET", None)
        yield
