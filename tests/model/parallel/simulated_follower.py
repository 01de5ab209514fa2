"""`python -m tests.model.parallel.simulated_follower`: a rank above 0 on a simulated GPU."""

from __future__ import annotations

import importlib
import os
import sys

from bench.gpu.simulated import simulated_gpu
from spectrie.model.runner import follower


def ascending_products() -> bool:
    """Products of Triton's interpreter add term after term from now on; returns whether kernels run in it."""
    if os.environ.get("TRITON_INTERPRET") != "1":
        return False
    from triton.runtime.interpreter import InterpreterBuilder

    importlib.import_module("kernels.tests.quick_interpreter").hasten(finds_overflow=False)
    InterpreterBuilder.create_dot = importlib.import_module("kernels.tests.ascending").chain_dot
    return True


if __name__ == "__main__":
    with simulated_gpu(interpreted=ascending_products()):
        sys.exit(follower.main())
