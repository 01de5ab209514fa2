"""Kernels run under Triton's interpreter where there is no GPU."""

from __future__ import annotations

import os

import torch

if not torch.cuda.is_available():
    # Read by Triton when it is imported, hence before any kernel is.
    os.environ["TRITON_INTERPRET"] = "1"

    from kernels.tests.quick_interpreter import hasten

    hasten()
