"""Answers of a device are compared with the CPU's: what is wrong there is a fault here."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest import mock

import pytest
import torch

import spectrie_kernels
from bench.gpu import simulated
from bench.gpu.check import NeedsDevice, Settings
from bench.gpu.smoke import answers
from spectrie.model.launch.graphs import StepGraphs
from spectrie.model.launch.launcher import Launcher
from spectrie.model.runner import self_check
from spectrie.model.step.wanted import Wanted
from spectrie_kernels import AttentionArrays, AttentionLayout

CHOSEN = (Wanted.LIKELIEST, Wanted.DRAWN)
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


NAMES = {
    "tiny float32, on the CPU",
    "tiny float32, start",
    "tiny float32, speculation off",
    "tiny float32, speculation on",
    "tiny float32, tokens of the device at 0.0",
    "tiny float32, tokens of the device at 0.8",
}


def test_right_answers_are_no_fault(tmp_path: Path) -> None:
    assert outcomes(tmp_path) == dict.fromkeys(NAMES, "")


def test_steps_of_every_kind_are_smoked_recorded_and_started_early(tmp_path: Path) -> None:
    kinds: Counter[tuple[Wanted, bool]] = Counter()
    whole: Counter[Wanted] = Counter()
    right, find = Launcher.launch, StepGraphs.whole

    def launch(
        launcher: Launcher,
        plan: Any,
        wanted: Wanted,
        pack: Any = None,
        behind: Any = None,
        logit_samples: Any = (),
    ) -> Any:
        if pack is not None:  # the engine's
            kinds[wanted, behind is not None] += 1
        return right(launcher, plan, wanted, pack, behind, logit_samples)

    def found(graphs: StepGraphs, layers: Any, packed: Any, wanted: Wanted) -> Any:
        work = find(graphs, layers, packed, wanted)
        whole[wanted] += work is not None
        return work

    with (
        mock.patch.object(Launcher, "launch", launch),
        mock.patch.object(StepGraphs, "whole", found),
    ):
        outcomes(tmp_path)
    assert set(kinds) >= {
        (Wanted.LOGITS, False),
        *((wanted, early) for wanted in CHOSEN for early in (False, True)),
    }
    assert whole[Wanted.LOGITS] == 0 and all(whole[wanted] > 0 for wanted in CHOSEN)


@pytest.mark.parametrize(("kernel", "temperature"), [("row_argmax", "0.0"), ("draw", "0.8")])
def test_tokens_that_the_host_would_not_choose_are_a_fault(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kernel: str, temperature: str
) -> None:
    right = getattr(spectrie_kernels, kernel)

    def wrong(logits: torch.Tensor, *arguments: Any, **options: Any) -> torch.Tensor:
        chosen: torch.Tensor = right(logits, *arguments, **options)
        return chosen.sub_((chosen > 0).int())

    # Without the interpreter bytes are nearly exact.
    monkeypatch.setattr(self_check, "same", simulated._nearly_same)
    with mock.patch.object(spectrie_kernels, kernel, wrong):
        found = outcomes(tmp_path)
    (name,) = (name for name, error in found.items() if error)
    assert name.endswith(f"tokens of the device at {temperature}")
    assert "is not the host's" in found[name]


def test_a_model_that_cannot_be_opened_is_one_fault(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse() -> None:
        raise AssertionError("no device")

    monkeypatch.setattr(simulated, "FakeDevice", refuse)
    assert outcomes(tmp_path) == {
        "tiny float32, on the CPU": "",
        "tiny float32, start": "no device",
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
