"""The rows of price: what is compared, and that small memories give every figure."""

from __future__ import annotations

from pathlib import Path

from bench.scale.figure import FIGURES
from bench.scale.price import Price


def test_a_small_run_gives_every_figure_of_price(tmp_path: Path) -> None:
    with Price(tmp_path, 1, {"share": 0.01}) as sampler:
        for number in range(2):
            figures, _ = sampler.take(number)
            assert all(value > 0 for value in figures.values())
        assert isinstance(sampler, Price)
        drafted = [one.load().draft_calls for one in (sampler.off, sampler.alone, sampler.full)]
    assert drafted[0] == 0 and min(drafted[1:]) > 0
    known = {
        figure.name for figure in FIGURES if "on/off" in figure.name or "over alone" in figure.name
    }
    known.discard("beside 1,000 tenants over alone")
    assert set(figures) == known
