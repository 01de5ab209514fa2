"""`python -m tests.model.decoder.interpreted FOLDER ORDER`: an exact model by Triton's interpreter.

In a process of its own, as Triton reads `TRITON_INTERPRET` when it is first imported.
"""

from __future__ import annotations

import importlib
import sys
from typing import Any
from unittest import mock

from bench.gpu.simulated import simulated_gpu
from spectrie.errors import ConfigError
from spectrie.model import load_runner
from spectrie.model.launch import capacity
from spectrie.model.runner import self_check


def ascending(self: Any, a: Any, b: Any, d: Any, precision: Any, imprecise: Any) -> Any:
    """In place of the interpreter's product, whose bits change with its tile: term after term."""
    return chain(a, b, d, range(a.data.shape[1]))


def by_company(self: Any, a: Any, b: Any, d: Any, precision: Any, imprecise: Any) -> Any:
    """Downwards where more than one row of a tile is in use."""
    terms = range(a.data.shape[1])
    # A tile's rows that stand for none are zeros or the same again.
    alone = len({row.tobytes() for row in b.data.T if row.any()}) <= 1
    return chain(a, b, d, terms if alone else terms[::-1])


def chain(a: Any, b: Any, d: Any, terms: range) -> Any:
    from triton.runtime.interpreter import TensorHandle

    total = d.data.astype("float32")
    for k in terms:
        total = total + a.data[:, k : k + 1] * b.data[k : k + 1]
    return TensorHandle(total, d.dtype.scalar)


def main() -> None:
    """Loads the model, which checks its rows; prints what came of it."""
    from triton.runtime.interpreter import InterpreterBuilder

    importlib.import_module("kernels.tests.quick_interpreter").hasten(finds_overflow=False)
    folder, order = sys.argv[1:]
    InterpreterBuilder.create_dot = {"ascending": ascending, "by_company": by_company}[order]
    # One row alone, and with others: each further size of recorded steps takes a while here.
    capacity.BUCKETS = (1, 24)
    # Each further form takes a while here too.
    few = mock.patch.object(self_check, "_COMPANY", (1,))
    with simulated_gpu(interpreted=True), few:
        try:
            runner = load_runner(
                folder,
                dtype="float32",
                threads=1,
                num_pages=4,
                max_context=12,
                max_batch_rows=17,
                gpu_arithmetic="exact",
            )
            print("exact" if runner.exact else "fast")
        except ConfigError as error:
            print(error)


if __name__ == "__main__":
    main()
