"""Answers of a device are compared with the CPU's: what is wrong there is a fault here."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from unittest import mock

import numpy as np
import pytest
import torch

import spectrie_kernels
from bench.gpu import answers
from bench.gpu.check import Settings
from spectrie_kernels import AttentionLayout, AttentionRows


def outcomes(scratch: Path) -> dict[str, str]:
    """What was wrong with each item; empty if nothing."""
    found = {}
    for item in answers.items(Settings(dry=True, scratch=str(scratch), model=None, tests=())):
        try:
            item.run()
            found[item.name] = ""
        except AssertionError as error:
            found[item.name] = str(error)
    return found


@pytest.fixture(autouse=True)
def _without_interpreter(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("TRITON_INTERPRET", raising=False)
    monkeypatch.setenv("SPECTRIE_CACHE", str(tmp_path))


def test_right_answers_are_no_fault(tmp_path: Path) -> None:
    assert outcomes(tmp_path) == {
        "tiny float32, speculation off": "",
        "tiny float32, speculation on": "",
    }


def sees_everything(rows: AttentionRows) -> AttentionRows:
    return replace(rows, row_ancestors=np.full_like(rows.row_ancestors, -1))


def shifted(rows: AttentionRows) -> AttentionRows:
    return replace(rows, page_ids=np.roll(rows.page_ids, 1))


@pytest.mark.parametrize(
    ("broken", "wrong"),
    [
        (shifted, {"off", "on"}),
        # Chunks ignore the mask, and a tree of one row has nothing to hide.
        (sees_everything, {"on"}),
    ],
)
def test_a_wrong_kernel_is_a_fault(
    tmp_path: Path, broken: Callable[[AttentionRows], AttentionRows], wrong: set[str]
) -> None:
    right = spectrie_kernels.tree_attention

    def attention(
        query: torch.Tensor,
        keys: torch.Tensor,
        values: torch.Tensor,
        layout: AttentionLayout,
        scale: float,
        *,
        window: int | None,
    ) -> torch.Tensor:
        layout = replace(layout, rows=broken(layout.rows))
        return right(query, keys, values, layout, scale, window=window)

    with mock.patch.object(spectrie_kernels, "tree_attention", attention):
        found = outcomes(tmp_path)
    assert {name.rpartition(" ")[2] for name, error in found.items() if error} == wrong
    for error in filter(None, found.values()):
        assert "differ from the CPU's" in error or "no draft was accepted" in error


def test_drafts_that_are_never_bought_are_a_fault(tmp_path: Path) -> None:
    from spectrie.model import Runner

    with mock.patch.object(Runner, "can_speculate", False):
        found = outcomes(tmp_path)
    assert "no draft was accepted" in found["tiny float32, speculation on"]
