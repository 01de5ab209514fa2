"""`python -m tests.model.parallel.interpreted FOLDER`: an exact model in one process and in two.

In a process of its own, as Triton reads `TRITON_INTERPRET` when it is first imported. Prints, as JSON, whether
both are exact and have one fingerprint, and whether their logits have the same bytes.
"""

from __future__ import annotations

import json
import sys
from typing import Any
from unittest import mock

import torch

from bench.gpu.simulated import simulated_gpu
from spectrie.model import Runner, gpu, load_runner
from spectrie.model.launch import capacity
from spectrie.model.parallel import ranks
from spectrie.model.plan import StepPlan
from spectrie.model.runner import self_check
from tests.model.parallel.simulated_follower import ascending_products


def loaded(**options: Any) -> Runner:
    return load_runner(
        sys.argv[1],
        dtype="float32",
        threads=1,
        num_pages=4,
        max_context=12,
        max_batch_rows=17,
        gpu_arithmetic="exact",
        **options,
    )


def logits(runner: Runner) -> torch.Tensor:
    tree = StepPlan.single([5, 6, 7, 8], kv_len=3, pages=[0], parents=[-1, 0, 0, 2])
    steps = [StepPlan.single([1, 2, 3], kv_len=0, pages=[0]), tree]
    return torch.cat([runner.forward(step).clone() for step in steps])


def main() -> None:
    """Loads the model twice."""
    assert ascending_products()
    # Each further size of recorded steps, and each further form of the check, takes a while here.
    capacity.BUCKETS = (1, 24)
    few = mock.patch.object(self_check, "_COMPANY", (1,))
    two = mock.patch.object(gpu, "count", lambda: 2)
    follower = mock.patch.object(ranks, "FOLLOWER", "tests.model.parallel.simulated_follower")
    with simulated_gpu(interpreted=True), few, two, follower:
        alone = loaded()
        shared = loaded(tensor_parallel=2)
        try:
            found = {
                "exact": alone.exact and shared.exact,
                "ranks": shared.info.ranks,
                "one fingerprint": alone.numeric_fingerprint == shared.numeric_fingerprint,
                "same": self_check.same(logits(shared), logits(alone)),
            }
        finally:
            shared.close()
    print(json.dumps(found))


if __name__ == "__main__":
    main()
