"""The code of a GPU on tensors of this CPU, for runs and tests without a device."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any
from unittest import mock

import torch

from bench.gpu.fake_device import FakeDevice
from spectrie.model import gpu
from spectrie.model.launch import gpu_model
from spectrie.model.runner import self_check

if TYPE_CHECKING:
    from spectrie.model.plan import StepPlan
    from spectrie.model.runner.costs import CostTimer

__all__ = ["NAME", "run_once", "simulated_gpu", "small_start"]

NAME = "simulated GPU"
_FREE_BYTES = 64 << 20


@contextlib.contextmanager
def simulated_gpu(*, interpreted: bool = False) -> Iterator[None]:
    """Models loaded meanwhile find one GPU with 64 MiB free, whose tensors are the CPU's.

    Args:
        interpreted: Whether the kernels run in Triton's interpreter where `TRITON_INTERPRET` is 1,
            instead of in their torch form, which is a hundred times faster. That form promises no
            bits, so the check of exact arithmetic then allows for rounding.
    """
    answers: dict[str, Any] = {
        "is_available": lambda: True,
        "count": lambda: 1,
        "device": lambda rank: torch.device("cpu"),
        "use": lambda device: None,
        "name": lambda device: NAME,
        "free_bytes": lambda device: _FREE_BYTES,
        "total_bytes": lambda device: 2 * _FREE_BYTES,
        "driver": lambda: "1.2.3",
        "compiler": lambda: "simulated",
        "host_compiler": lambda: "cc",
    }
    with contextlib.ExitStack() as stack:
        stack.enter_context(mock.patch.multiple(gpu, **answers))
        stack.enter_context(
            mock.patch.object(gpu_model, "open_device", lambda device: FakeDevice())
        )
        stack.enter_context(mock.patch.dict(os.environ))
        if not interpreted:
            os.environ.pop("TRITON_INTERPRET", None)
            stack.enter_context(mock.patch.object(self_check, "same", _nearly_same))
        yield


def _nearly_same(logits: torch.Tensor, expected: torch.Tensor) -> bool:
    return torch.allclose(logits, expected, rtol=1e-3, atol=1e-3)


@contextlib.contextmanager
def small_start(buckets: tuple[int, ...] = (1, 8)) -> Iterator[None]:
    """Few sizes of steps and few costs, as their forwards are slow here.

    Models loaded meanwhile record steps of these sizes, check their bits in the smallest steps of each
    kind, and compute each size that they would time once."""
    costs, check = "spectrie.model.runner.costs", "spectrie.model.runner.self_check"
    with (
        mock.patch("spectrie.model.launch.capacity.BUCKETS", buckets),
        mock.patch("spectrie_kernels.attention.arrays._PROGRAMS", 4),
        mock.patch(f"{costs}._GPU_COST_ROWS", (1, 4)),
        mock.patch(f"{costs}.CostTimer._times", run_once),
        mock.patch(f"{costs}.CostTimer.gap", lambda *_: 0.0),
        mock.patch(f"{check}._PROMPT", 6),
        mock.patch(f"{check}._PIECES", (5,)),
        mock.patch(f"{check}._COMPANY", (1,)),
    ):
        yield


def run_once(timer: CostTimer, plans: list[StepPlan], seconds: float) -> list[float]:
    """In place of a measurement: one forward each. Rows cost something, or trees were as large as they get."""
    for plan in plans:
        timer._timer.of_host(plan)
    return [1.0 + len(plan.row_token) / 8 for plan in plans]
