"""Verdicts of the CPU table; no time is measured here."""

from __future__ import annotations

import pytest

from bench.cpu.lines import Line, cost_line, limit_line


def line(value: float, interval: tuple[float, float] | None = None, **more: object) -> Line:
    facts: dict[str, object] = {"floor": 2.0, "goal": 4.0, **more}
    return Line("what", "", "", value, interval, **facts)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("one", "verdict"),
    [
        (line(4.5, (4.4, 4.6)), "goal met"),
        (line(2.5, (2.4, 2.6)), "floor met"),
        (line(1.9, (1.85, 1.95)), "missed"),
        (line(1.95, (1.9, 2.0)), "floor met"),
        (line(2.0, (1.5, 2.5)), "not decided"),
        (line(3.0, (2.2, 4.2)), "floor met"),
        (line(1.9, (1.85, 1.95), passes_by="61% of bandwidth"), "floor met: 61% of bandwidth"),
        (line(1.5, (1.45, 1.55), floor=1.6, goal=1.3, at_most=True), "floor met"),
        (line(1.7, (1.68, 1.72), floor=1.6, goal=1.3, at_most=True), "missed"),
        (line(1.2, (1.18, 1.22), floor=1.6, goal=1.3, at_most=True), "goal met"),
        (line(0.98, (0.97, 0.99), floor=0.97, goal=0.99), "goal met"),
        (line(0.96, (0.92, 0.99), floor=0.97, goal=0.99), "not decided"),
        (line(2.5, floor=3.0, goal=3.0, at_most=True, unit=" s"), "goal met"),
    ],
)
def test_verdict_needs_a_narrow_interval_on_the_right_side(one: Line, verdict: str) -> None:
    assert one.verdict == verdict


def test_cost_is_the_median_of_ratios_taken_side_by_side() -> None:
    one = cost_line("rows", [1.0, 2.0, 1.0], [1.5, 3.2, 1.4], floor=1.6, goal=1.3)
    assert one.value == pytest.approx(1.5)
    assert one.cells()[3:] == ["1.5x", "1.40-1.60, wide", "≤ 1.6x", "≤ 1.3x", "floor met"]


def test_a_share_of_the_limit_is_the_median_of_those_of_the_samples() -> None:
    one = limit_line("reads", "limit", "ours", [0.7, 0.6, 0.9], floor=0.6, goal=0.8)
    assert one.cells()[3:7] == ["70%", "0.60-0.90, wide", "60%", "80%"]
    assert one.data["shares"] == [0.7, 0.6, 0.9]
