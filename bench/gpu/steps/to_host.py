"""What a step sends to the host, counted where it is copied."""

from __future__ import annotations

from typing import Any
from unittest import mock

import torch

from spectrie.model import Runner
from spectrie.model.launch.launcher import Launcher
from spectrie.model.plan import StepPlan
from spectrie.model.runner.step_profile import serve_step

__all__ = ["bytes_to_host"]


def bytes_to_host(runner: Runner, plan: StepPlan) -> int | None:
    """Bytes that a served step copies from the device into pinned memory; None where nothing is launched."""
    launcher = runner._decoder
    if not isinstance(launcher, Launcher):
        return None
    device: Any = launcher._device
    right = device.copy
    sent = 0

    def copy(target: torch.Tensor, source: torch.Tensor) -> None:
        nonlocal sent
        pieces = launcher._ring._pieces
        pinned = {
            memory.untyped_storage().data_ptr()
            for piece in pieces
            for memory in (piece.results, piece.logits)
        }
        if target.untyped_storage().data_ptr() in pinned:
            sent += target.numel() * target.element_size()
        right(target, source)

    with mock.patch.object(device, "copy", copy):
        serve_step(runner, plan)
    return sent
