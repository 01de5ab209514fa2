"""Answers of a device are compared with the CPU's: what is wrong there is a fault here."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest import mock

import pytest
import torch

import spectrie_kernels
from bench.gpu.check import NeedsDevice, Settings
from bench.gpu.smoke import answers
from spectrie_kernels import AttentionArrays, AttentionLayout

Layout = AttentionArrays | AttentionLayout


def outcomes(scratch: Path) -> dict[str, str]:
    """What was wrong with each item; empty if nothing."""
    found = {}
    for item in answers.items(Settings(dry=True, scratch=str(scratch), model=None, tests=())):
        try:
            item.run()
            found[item.name] = ""
        except NeedsDevice:
            continue
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


def reads_the_next_page(keys: torch.Tensor, layout: Layout) -> tuple[torch.Tensor, Layout]:
    return torch.roll(keys, layout.page_size, 0), layout


def reads_the_root_for_all(keys: torch.Tensor, layout: Layout) -> tuple[torch.Tensor, Layout]:
    if isinstance(layout, AttentionLayout):
        return keys, layout
    root = layout.path_slots[:1].expand_as(layout.path_slots).contiguous()
    return keys, replace(layout, path_slots=root)


@pytest.mark.parametrize(
    ("broken", "wrong"),
    [
        (reads_the_next_page, {"off", "on"}),
        # Prompts have no paths, and a tree of one row has its root alone.
        (reads_the_root_for_all, {"on"}),
    ],
)
def test_a_wrong_kernel_is_a_fault(
    tmp_path: Path,
    broken: Callable[[torch.Tensor, Layout], tuple[torch.Tensor, Layout]],
    wrong: set[str],
) -> None:
    right = spectrie_kernels.tree_attention

    def attention(
        query: torch.Tensor,
        keys: torch.Tensor,
        values: torch.Tensor,
        layout: Layout,
        *others: Any,
        **options: Any,
    ) -> torch.Tensor:
        keys, layout = broken(keys, layout)
        return right(query, keys, values, layout, *others, **options)

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
