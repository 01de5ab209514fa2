"""Rows of a table of figures, each beside its floor and its goal."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["HEADER", "Row", "least", "most"]

HEADER = ("what", "measured", "floor", "goal", "verdict")


@dataclass(frozen=True, slots=True)
class Row:
    """A figure.

    Attributes:
        what: What was measured.
        value: The figure.
        floor: What it is to reach.
        goal: What it is meant to.
        unit: Behind all three.
        is_less_better: Whether it is to be at most that.
    """

    what: str
    value: float
    floor: float
    goal: float
    unit: str
    is_less_better: bool

    @property
    def verdict(self) -> str:
        """What it reaches."""
        if self._reaches(self.goal):
            return "goal met"
        return "floor met" if self._reaches(self.floor) else "missed"

    def cells(self) -> list[str]:
        """Its cells, under `HEADER`."""
        bound = "<=" if self.is_less_better else ">="
        numbers = [
            _shown(self.value),
            f"{bound} {_shown(self.floor)}",
            f"{bound} {_shown(self.goal)}",
        ]
        return [self.what, *(f"{number} {self.unit}".rstrip() for number in numbers), self.verdict]

    def _reaches(self, limit: float) -> bool:
        return self.value <= limit if self.is_less_better else self.value >= limit


def most(what: str, value: float, floor: float, goal: float, unit: str) -> Row:
    """A figure that is to be at most its floor."""
    return Row(what, value, floor, goal, unit, is_less_better=True)


def least(what: str, value: float, floor: float, goal: float, unit: str) -> Row:
    """A figure that is to be at least its floor."""
    return Row(what, value, floor, goal, unit, is_less_better=False)


def _shown(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}"
