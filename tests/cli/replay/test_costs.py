"""Cost curves: the time of a forward by its rows, and where curves come from."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from spectrie.cli.replay.costs import PUBLISHED, CostCurve, measured_curves, parse_curve


def test_costs_lie_on_lines_between_points_and_go_on_behind_the_last() -> None:
    curve = parse_curve("1:10,3:12,5:20")
    costs = [curve.milliseconds(rows) for rows in (1, 2, 3, 4, 5, 6)]
    assert costs == pytest.approx([10, 11, 12, 16, 20, 24])
    assert parse_curve("2:10").milliseconds(1) == 10
    assert parse_curve("2:10").milliseconds(9) == 10


def test_a_cost_never_falls_as_rows_grow() -> None:
    curves = [CostCurve("noisy", ((1, 10.0), (2, 12.0), (4, 11.0), (8, 20.0))), *PUBLISHED]
    for curve in curves:
        costs = [curve.milliseconds(rows) for rows in range(1, 80)]
        assert costs == sorted(costs)
    assert [curves[0].milliseconds(rows) for rows in (1, 2, 4, 6)] == [10.0, 11.5, 11.5, 15.75]


def test_a_speedup_weighs_what_came_against_what_was_computed() -> None:
    curve = parse_curve("1:10,3:20")
    # 8 tokens alone take 80 ms; here 2 forwards of one row and 1 of three took 40.
    assert curve.speedup(8, [2, 0, 1]) == pytest.approx(2.0)
    assert curve.speedup(0, []) is None


def test_curves_that_serving_measured_are_found_by_the_model(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SPECTRIE_CACHE", str(tmp_path))
    model = tmp_path / "models" / "tiny"
    model.mkdir(parents=True)
    assert measured_curves(model) == []
    answers = {
        f"hash {model.resolve()} [('config.json', 9, 9)]": "0123456789abcdef",
        "step costs [1, 2, 4] threads2 0123456789abcdef/float32/zen": [10.0, 11.0, 13.0],
        "step costs [1, 2, 4] threads2 fedcba9876543210/float32/zen": [1.0, 1.0, 1.0],
    }
    (tmp_path / "measurements.json").write_text(json.dumps(answers))
    (curve,) = measured_curves(model)
    assert curve.points == ((1, 10.0), (2, 11.0), (4, 13.0))
    assert curve.name == "measured here, float32, 2 threads"
