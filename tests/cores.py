"""Tests that need more cores than some machines have."""

from __future__ import annotations

import pytest

from spectrie.model import machine

__all__ = ["require_cores"]


def require_cores(count: int) -> None:
    """Skips the test on a machine that has fewer: each rank needs a core."""
    if machine.num_cores() < count:
        pytest.skip(f"{count} ranks need {count} cores, this process may use {machine.num_cores()}")
