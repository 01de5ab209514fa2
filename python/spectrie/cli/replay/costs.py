"""The cost of a forward by its number of rows, and the speed-up that a replay projects from it."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean

from spectrie.model.files.measurements import Measurements
from spectrie.model.files.store import cache_folder

__all__ = ["PUBLISHED", "CostCurve", "measured_curves", "parse_curve"]


@dataclass(frozen=True, slots=True)
class CostCurve:
    """Milliseconds of a forward by its rows: lines between points, the last one extended.

    Attributes:
        name: Where it comes from.
        points: Rows and milliseconds, rows ascending.
    """

    name: str
    points: tuple[tuple[int, float], ...]

    def milliseconds(self, rows: int) -> float:
        """The cost of `rows` rows; never falls as rows grow."""
        points = self._rising
        right = next((at for at, point in enumerate(points) if point[0] >= rows), len(points) - 1)
        if right == 0:
            return points[0][1]
        (few, low), (many, high) = points[right - 1 : right + 1]
        return low + (high - low) * (rows - few) / (many - few)

    @property
    def _rising(self) -> list[tuple[int, float]]:
        """The points, of costs that never fall: the nearest to the measured ones in squares, as the engine takes them."""
        costs = [cost for _, cost in self.points]
        places = range(len(costs))

        def least(begin: int, at: int) -> float:
            return min(fmean(costs[begin : end + 1]) for end in places[at:])

        return [
            (rows, max(least(begin, at) for begin in places[: at + 1]))
            for at, (rows, _) in enumerate(self.points)
        ]

    def speedup(self, output_tokens: int, steps_by_drafted: Sequence[int]) -> float | None:
        """Times plain decoding's speed; None without tokens.

        Args:
            output_tokens: Tokens that came, one forward of one row each without drafts.
            steps_by_drafted: Forwards by the number of draft rows beside the one; drafting itself
                is not counted, see `draft_us_p50` for it.
        """
        if not output_tokens:
            return None
        plain = output_tokens * self.milliseconds(1)
        drafted = sum(
            steps * self.milliseconds(1 + nodes) for nodes, steps in enumerate(steps_by_drafted)
        )
        return plain / drafted


PUBLISHED: tuple[CostCurve, ...] = (
    CostCurve(
        "CPU, bfloat16, 2 threads of Zen 5, SmolLM2-135M",
        ((1, 15.1), (2, 15.7), (4, 15.6), (8, 18.3), (16, 22.5), (32, 30.9)),
    ),
    CostCurve(
        "CPU, float32, 2 threads of Zen 5, SmolLM2-135M",
        ((1, 17.4), (2, 17.7), (4, 20.6), (8, 24.4), (16, 42.6), (32, 57.5)),
    ),
    CostCurve(
        "GPU, calculated: one request, 8B bfloat16, H200",
        ((1, 4.2), (4, 4.24), (8, 4.28), (16, 4.37), (32, 4.54), (64, 4.83)),
    ),
)
"""Curves to use without measurements of your own: two measured, one from the roofline of a GPU."""


def parse_curve(text: str) -> CostCurve:
    """Reads `rows:milliseconds` pairs such as `1:10,2:10.4,8:12,16:15`.

    Raises:
        ValueError: Saying what is wrong.
    """
    points: list[tuple[int, float]] = []
    for part in text.split(","):
        rows, colon, cost = part.partition(":")
        try:
            point = (int(rows), float(cost))
        except ValueError:
            raise ValueError(
                f"{part!r} is not ROWS:MILLISECONDS, as in 1:10,2:10.4,8:12,16:15"
            ) from None
        if not colon or point[0] < 1 or not 0 < point[1] < math.inf:
            raise ValueError(f"{part!r}: rows are at least 1 and milliseconds above 0")
        if points and point[0] <= points[-1][0]:
            raise ValueError(f"{part!r}: rows must ascend")
        points.append(point)
    return CostCurve("given", tuple(points))


def measured_curves(folder: Path) -> list[CostCurve]:
    """The curves that serving measured on this machine for the model in `folder`."""
    kept = Measurements(cache_folder() / "measurements.json")
    digests = {str(digest) for _, digest in kept.items(f"hash {folder.resolve()} ")}
    curves = []
    for key, times in kept.items("step costs ["):
        rows, _, rest = key.removeprefix("step costs ").partition("] ")
        threads, _, arithmetic = rest.partition(" ")
        digest, _, remainder = arithmetic.partition("/")
        if digest in digests:
            dtype = remainder.split("/")[0]
            name = f"measured here, {dtype}, {threads.replace('threads', '')} threads"
            curves.append(CostCurve(name, tuple(zip(json.loads(rows + "]"), times, strict=True))))
    return curves
