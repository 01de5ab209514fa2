"""Lines of the table: what was measured, what it is held against, and the verdict."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from bench.support.pairs import Comparison, median_interval, shown_interval

__all__ = ["Line", "against_rival", "cost_line", "from_comparison", "limit_line"]

NEVER_SLOWER_WIDTH = 0.04
"""Widest interval that decides a floor of about 1."""
WIDTH_SHARE = 0.1
"""Widest interval that decides any other floor, as a share of the median."""


@dataclass(frozen=True, slots=True)
class Line:
    """One line.

    Attributes:
        what: What was measured.
        theirs: The other side's figure, in words; empty where there is none.
        ours: Our figure, in words.
        value: The figure that floor and goal are about.
        interval: Its 95 % bootstrap interval; None for figures without one.
        floor: Bound of `value`.
        goal: Bound to reach.
        at_most: Whether small values are good.
        unit: Suffix of value, floor and goal: `x`, `%` or ` s`.
        passes_by: Another way to meet the floor that holds, in words; empty when none does.
        data: Everything measured, for the JSON file.
    """

    what: str
    theirs: str
    ours: str
    value: float
    interval: tuple[float, float] | None
    floor: float
    goal: float
    at_most: bool = False
    unit: str = "x"
    passes_by: str = ""
    data: dict[str, Any] = field(default_factory=dict)

    @property
    def verdict(self) -> str:
        """`goal met`, `floor met`, `missed` or `not decided`."""
        low, high = self.interval or (self.value, self.value)
        if self.at_most:
            reaches_goal, reaches_floor = low <= self.goal, low <= self.floor
            surely_floor = high <= self.floor
        else:
            reaches_goal, reaches_floor = high >= self.goal, high >= self.floor
            surely_floor = low >= self.floor
        near_one = 0.95 <= self.floor <= 1.0 and self.unit == "x"
        narrow = high - low <= (NEVER_SLOWER_WIDTH if near_one else WIDTH_SHARE * self.value)
        if reaches_goal and narrow:
            return "goal met"
        if reaches_floor:
            return "floor met" if narrow or surely_floor else "not decided"
        return f"floor met: {self.passes_by}" if self.passes_by else "missed"

    def cells(self) -> list[str]:
        """The cells of the table."""
        sign = "≤ " if self.at_most else ""
        spread = "" if self.interval is None else shown_interval(*self.interval, self.value)
        return [
            self.what,
            self.theirs,
            self.ours,
            self._number(self.value),
            spread,
            sign + self._number(self.floor),
            sign + self._number(self.goal),
            self.verdict,
        ]

    def _number(self, value: float) -> str:
        if self.unit == "%":
            return f"{value:.0%}"
        return f"{value:.3g}{self.unit}"


def from_comparison(
    what: str,
    comparison: Comparison,
    *,
    floor: float,
    goal: float,
    names: tuple[str, str],
    passes_by: str = "",
    **data: Any,
) -> Line:
    """A line of paired rates in tokens per second; `names` are those of base and contender."""
    summary = comparison.summary()
    low, high = median_interval(comparison.ratios)
    return Line(
        what,
        f"{summary['base_median']:.1f} tok/s {names[0]}",
        f"{summary['ours_median']:.1f} tok/s {names[1]}".rstrip(),
        float(str(summary["ratio"])),
        (low, high),
        floor,
        goal,
        passes_by=passes_by,
        data={**summary, **data},
    )


def against_rival(
    what: str, comparison: Comparison, rival: str, *, floor: float, goal: float, **data: Any
) -> Line:
    """Our rate over a rival's."""
    return from_comparison(what, comparison, floor=floor, goal=goal, names=(rival, ""), **data)


def cost_line(
    what: str, one_ms: Sequence[float], many_ms: Sequence[float], *, floor: float, goal: float
) -> Line:
    """How many times the cost of one row several rows have, from times taken side by side."""
    ratios = [many / one for one, many in zip(one_ms, many_ms, strict=True)]
    middle = sorted(ratios)[len(ratios) // 2]
    return Line(
        what,
        f"{min(one_ms):.2f} ms one row",
        f"{min(many_ms):.2f} ms",
        middle,
        median_interval(ratios),
        floor,
        goal,
        at_most=True,
        data={"one_row_ms": list(one_ms), "rows_ms": list(many_ms)},
    )


def limit_line(
    what: str,
    limit: str,
    ours: str,
    shares: Sequence[float],
    *,
    floor: float,
    goal: float,
    **data: Any,
) -> Line:
    """Shares of the machine's limit, each with the limit as it was beside that sample."""
    share, interval = statistics.median(shares), median_interval(shares)
    return Line(
        what,
        limit,
        ours,
        share,
        interval,
        floor,
        goal,
        unit="%",
        data={"shares": list(shares), **data},
    )
