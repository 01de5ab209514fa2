"""Verdicts of the scale bench."""

from __future__ import annotations

import pytest

from bench.scale.figure import FIGURES, Figure, verdict
from bench.scale.run import QUICK_CORPUS_TOKENS
from bench.scale.samplers import SAMPLERS


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ([1.0, 1.04] * 12, "goal"),
        ([1.2, 1.25] * 12, "floor"),
        ([1.28, 1.32] * 12, "floor"),
        ([1.4, 1.45] * 12, "missed"),
        ([1.0, 2.0] * 12, "not decided"),
    ],
)
def test_less_is_better_where_a_figure_says_so(values: list[float], expected: str) -> None:
    assert verdict(Figure("ratio", 1.3, 1.05), values) == expected


@pytest.mark.parametrize(("value", "expected"), [(0.98, "goal"), (0.93, "floor"), (0.5, "missed")])
def test_more_is_better_where_a_figure_says_so(value: float, expected: str) -> None:
    assert verdict(Figure("held", 0.9, 0.97, "more"), [value]) == expected


def test_zero_is_reached_by_zero_alone() -> None:
    figure = Figure("bytes", 0.0, 0.0)
    assert (verdict(figure, [0.0]), verdict(figure, [1.0])) == ("goal", "missed")


def test_every_name_of_a_figure_is_its_own() -> None:
    names = [figure.name for figure in FIGURES]
    assert len(set(names)) == len(names)


def test_a_sample_of_disk_gives_figures_of_the_table(tmp_path: object) -> None:
    with SAMPLERS["disk"](tmp_path, 1, {"corpus_tokens": QUICK_CORPUS_TOKENS // 100}) as sampler:  # type: ignore[arg-type]
        figures, _ = sampler.take(0)
    assert figures.keys() <= {figure.name for figure in FIGURES}
    assert figures["bytes of the corpus"] > 0
