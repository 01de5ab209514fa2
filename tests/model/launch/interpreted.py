"""`python -m tests.model.launch.interpreted FOLDER`: what Triton launches in one exact step.

In a process of its own, as Triton reads `TRITON_INTERPRET` when it is first imported. Prints, as JSON,
launches by kernel, and operators of torch beside them.
"""

from __future__ import annotations

import importlib
import json
import sys
from collections import Counter
from typing import Any
from unittest import mock

from torch.utils._python_dispatch import TorchDispatchMode

from bench.gpu.simulated import simulated_gpu
from spectrie.model import load_runner
from spectrie.model.launch import capacity
from spectrie.model.plan import StepPlan
from spectrie.model.runner import self_check
from spectrie.model.step.wanted import Wanted

VIEWS = {"view", "flatten", "slice", "select", "split_with_sizes", "unsqueeze", "detach", "alias"}


def main() -> None:
    """Launches a tree of five rows and counts."""
    from triton.runtime.interpreter import GridExecutor

    launched: Counter[str] = Counter()
    beside: Counter[str] = Counter()
    run = GridExecutor.__call__
    depth = [0]

    def counted(executor: Any, *arguments: Any, **options: Any) -> None:
        launched[executor.fn.__name__] += 1
        depth[0] += 1
        try:
            run(executor, *arguments, **options)
        finally:
            depth[0] -= 1

    class Beside(TorchDispatchMode):  # type: ignore[no-untyped-call]
        def __torch_dispatch__(
            self, func: Any, types: Any, args: Any = (), kwargs: Any = None
        ) -> Any:
            name = func.overloadpacket.__name__
            if not depth[0] and name not in VIEWS:
                beside[name] += 1
            return func(*args, **(kwargs or {}))

    importlib.import_module("kernels.tests.quick_interpreter").hasten(finds_overflow=False)
    # Those of the steps below: each further size takes a while here.
    capacity.BUCKETS = (1, 8)
    # Whether rows are exact is another test's question, and takes longer than the steps.
    unchecked = mock.patch.object(self_check, "differing_form", lambda *given, **options: None)
    with simulated_gpu(interpreted=True), unchecked:
        runner = load_runner(
            sys.argv[1],
            dtype="float32",
            threads=1,
            num_pages=4,
            max_context=16,
            max_batch_rows=8,
            gpu_arithmetic="exact",
        )
        plan = StepPlan.single(
            [1, 2, 3, 4, 5],
            kv_len=0,
            pages=[0],
            parents=[-1, 0, 0, 2, 1],
            sample_rows=range(5),
            top_rows=range(5),
        )
        for _ in range(2):
            launched.clear()
            beside.clear()
            with mock.patch.object(GridExecutor, "__call__", counted), Beside():  # type: ignore[no-untyped-call]
                runner.launch(plan, Wanted.LIKELIEST).wait()
    print(json.dumps({"launched": launched, "beside": beside}))


if __name__ == "__main__":
    main()
