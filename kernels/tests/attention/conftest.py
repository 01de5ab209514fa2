"""What the tests of attention share."""

from __future__ import annotations

import pytest

from kernels.tests.ascending import chain_dot
from spectrie_kernels import KeyOrder


@pytest.fixture
def ascending_dot(monkeypatch: pytest.MonkeyPatch) -> None:
    """Products that add their terms one after the other, whatever the tile."""
    from triton.runtime.interpreter import InterpreterBuilder

    monkeypatch.setattr(InterpreterBuilder, "create_dot", chain_dot)


@pytest.fixture
def two_splits(monkeypatch: pytest.MonkeyPatch) -> None:
    """A model so wide that a prefix has two splits: their size changes every 128 positions."""
    most_splits(monkeypatch, 2)


@pytest.fixture
def four_splits(monkeypatch: pytest.MonkeyPatch) -> None:
    most_splits(monkeypatch, 4)


def most_splits(monkeypatch: pytest.MonkeyPatch, most: int) -> None:
    def of(kv_heads: int, window: int | None = None) -> KeyOrder:
        return KeyOrder(most, window)

    monkeypatch.setattr(KeyOrder, "of", of)
