"""A process whose GPU fails at everything is given up."""

from __future__ import annotations

import pytest
import torch

from bench.gpu.running.child import _is_broken, described


@pytest.mark.parametrize("fails", [True, False])
def test_a_gpu_is_broken_if_nothing_finishes_on_it(
    fails: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    def synchronize() -> None:
        if fails:
            raise RuntimeError("CUDA error: an illegal memory access was encountered")

    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "is_initialized", lambda: True)
    monkeypatch.setattr(torch.cuda, "synchronize", synchronize)
    assert _is_broken() is fails


def test_a_gpu_that_was_not_used_is_not_broken() -> None:
    assert not _is_broken()


def test_an_error_is_described_by_its_message_first_and_stays_short() -> None:
    try:
        raise ValueError("x" * 10_000)
    except ValueError as error:
        text = described(error)
    assert text.startswith("ValueError: xxx")
    assert "test_child.py" in text
    assert len(text) < 5_000
