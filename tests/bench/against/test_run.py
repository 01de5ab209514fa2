"""Two builds in turn: the order of samples, verdicts and facts; no time is measured here."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import pytest

from bench.against.build import Build
from bench.against.run import Row, pairs_of, samplers_of
from bench.against.samplers import SAMPLERS
from bench.support import machine


class Fake:
    """Gives a rate and notes when it was asked."""

    def __init__(self, name: str, rate: float, asked: list[tuple[str, int]]) -> None:
        self.name, self.rate, self.asked = name, rate, asked

    def __call__(self, number: int) -> tuple[dict[str, float], dict[str, Any]]:
        self.asked.append((self.name, number))
        return {"decode": self.rate}, {"tokens": [number], "name": self.name}


def test_every_other_pair_begins_with_ours_and_facts_are_compared(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(machine, "foreign_cores", lambda take: (take(), 0.0))
    asked: list[tuple[str, int]] = []
    base, ours = Fake("base", 10.0, asked), Fake("ours", 11.0, asked)
    rows, equal = pairs_of(base, ours, 4)
    assert [name for name, _ in asked] == ["base", "ours", "ours", "base"] * 2
    assert [number for _, number in asked] == [0, 0, 1, 1, 2, 2, 3, 3]
    assert rows["decode"].ratios == pytest.approx([1.1] * 4)
    assert equal == {"tokens": True, "name": False}


def test_a_pair_beside_foreign_load_is_taken_again(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[str, int]] = []
    cores = itertools.chain([2.0], itertools.repeat(0.0))
    monkeypatch.setattr(machine, "foreign_cores", lambda take: (take(), next(cores)))
    base, ours = Fake("base", 1.0, asked), Fake("ours", 1.0, asked)
    rows, _ = pairs_of(base, ours, 1)
    assert len(asked) == 4
    assert len(rows["decode"].ratios) == 1


@pytest.mark.parametrize(
    ("ratios", "verdict"),
    [
        ([0.97, 1.01] * 12, "no slower"),
        ([0.985, 0.99] * 12, "no slower"),
        ([0.95, 0.97] * 12, "slower"),
        ([1.02, 1.05] * 12, "faster"),
        ([0.5] * 19, "too few pairs"),
    ],
)
def test_verdict_is_the_intervals(ratios: list[float], verdict: str) -> None:
    row = Row([1.0] * len(ratios), ratios)
    assert row.verdict == verdict
    assert row.cells("decode")[-1] == verdict


def test_a_checkout_without_its_module_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="run `make setup` there first"):
        Build.of(tmp_path)


def test_a_process_imports_the_package_of_its_build(tmp_path: Path) -> None:
    environment = Build(tmp_path, "abc").environment("cache")
    assert environment["PYTHONPATH"].split(":")[0] == str(tmp_path / "python")
    assert environment["SPECTRIE_CACHE"] == "cache"


def test_every_sampler_of_a_run_is_known() -> None:
    assert {name for name, _ in samplers_of(["float32"], "")} == set(SAMPLERS)
