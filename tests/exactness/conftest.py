"""The real model, and the reference answers that everything is compared with."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from pathlib import Path

import pytest

from tests.exactness.matrix import REFERENCE, Outcome, cases, run

NATIVE_BF16_FLAGS = {"avx512_bf16", "amx_bf16"}


def cpu_flags() -> set[str]:
    """Feature flags of the CPU, empty where the system does not list them."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return set()
    return next((set(line.split()) for line in lines if line.startswith("flags")), set())


@pytest.fixture(scope="session")
def model() -> Path:
    """Folder of the real model."""
    from spectrie.model import resolve

    return resolve("smollm2-135m").folder


@pytest.fixture(params=["float32", "bfloat16"], scope="session")
def dtype(request: pytest.FixtureRequest) -> str:
    """Each number format that this CPU computes natively."""
    name: str = request.param
    if name == "bfloat16" and not cpu_flags() & NATIVE_BF16_FLAGS:
        pytest.skip("this CPU has no native bfloat16")
    return name


@pytest.fixture(scope="session")
def reference(model: Path) -> Callable[[str], Outcome]:
    """Gives the answers of a number format without speculation, one request at a time."""

    @cache
    def answers(dtype: str) -> Outcome:
        return run(model, dtype, REFERENCE, cases())

    return answers
