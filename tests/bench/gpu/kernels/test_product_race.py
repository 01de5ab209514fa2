"""An algorithm may be pinned only if no number of rows changes a row's bytes."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

from bench.gpu.check import Settings
from bench.gpu.kernels import product_race
from bench.gpu.kernels.cublaslt import Algorithm
from bench.gpu.kernels.product_race import items

SETTINGS = Settings(dry=True, scratch="", model=None, tests=())


@pytest.fixture(autouse=True)
def _plain(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TRITON_INTERPRET", raising=False)


@pytest.mark.parametrize("fault", ["none", "bytes", "rows"])
def test_only_equal_bytes_are_timed(fault: str, monkeypatch: pytest.MonkeyPatch) -> None:
    right = product_race._Plain.action

    def action(
        self: product_race._Plain,
        algorithm: Algorithm,
        x: torch.Tensor,
        weight: torch.Tensor,
        out: torch.Tensor,
    ) -> Callable[[], object] | None:
        if fault == "rows" and len(x) == 1:
            return None
        launch = right(self, algorithm, x, weight, out)
        return lambda: (launch(), out.add_(1e-6 if fault == "bytes" and len(x) == 1 else 0))

    monkeypatch.setattr(product_race._Plain, "action", action)
    (item,) = items(SETTINGS)
    values = item.run()
    (algorithm,) = values["products"]["qkv"]["algorithms"]
    assert algorithm["rows_that_differ"] == ([] if fault == "none" else [1])
    assert ("microseconds" in algorithm) == (fault == "none")
    assert values["pinned_possible"] == (fault == "none")
