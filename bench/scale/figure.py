"""What each figure of the scale bench means, and when it is good enough."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from bench.support.pairs import median_interval

__all__ = ["FIGURES", "Figure", "verdict"]

WIDEST = 0.1
"""Of the median: an interval that is wider and holds the limit decides nothing."""

Better = Literal["more", "less"]


@dataclass(frozen=True, slots=True)
class Figure:
    """One row of the table.

    Attributes:
        name: As samplers give it.
        floor: What must be reached; None where the figure only explains others.
        goal: What is aimed at.
        better: Which side of the floor is good.
        of_base: Whether the limits are for ours over the base's, as for times, which depend on the
            machine.
    """

    name: str
    floor: float | None = None
    goal: float | None = None
    better: Better = "less"
    of_base: bool = False


FIGURES = (
    Figure("tokens held", 0.9, 0.97, "more"),
    Figure("recycling in the last tenant", 0.8, 0.95, "more"),
    Figure("bytes of budget", 1.0, 1.0),
    Figure("draft, 4M tokens alone, us"),
    Figure("draft, 4M tokens beside 1,000 tenants, us"),
    Figure("beside 1,000 tenants over alone", 1.3, 1.05),
    Figure("draft, 1M tokens, us"),
    Figure("draft, 100M tokens, us"),
    Figure("100M tokens over 1M", 4.0, 2.0),
    # 7 and 15 microseconds where the base takes 7.5 and 18.9; the goals are 4 and 8.
    Figure("draft p50, own text, us", 7 / 7.5, 4 / 7.5, of_base=True),
    Figure("draft p50, with corpus, us", 15 / 18.9, 8 / 18.9, of_base=True),
    Figure("longest plan or commit, end of 128k, ms", 1.5, 0.5),
    Figure("longest plan or commit, preemption, ms", 1.5, 0.5),
    Figure("longest plan or commit, chunk of 2,048, ms"),
    Figure("longest plan or commit, 128k from the prefix cache, ms"),
    Figure("first token beside priority 100, s", 2.0, 1.1),
    Figure("admission beside 16,000 siblings, us", 30.0, 10.0),
    Figure("start of a request after 1,000,000 tenants, us"),
    Figure("end of a request after 1,000,000 tenants, us", 10.0, 5.0),
    Figure("accepted after 64 unpredictable requests, over before", 0.8, 0.95, "more"),
    Figure("bytes of a second save of nothing new", 0.0, 0.0),
    Figure("bytes read to open a corpus", 64e6, 8e6),
    Figure("bytes of the corpus"),
    Figure("on/off alone, 8 requests", better="more"),
    Figure("on/off alone, 32 requests", better="more"),
    Figure("on/off beside 100 tenants, 32 requests", better="more"),
    Figure("on/off beside 1,000 tenants, 8 requests", better="more"),
    Figure("beside 100 tenants, 32 requests, over alone", 0.9, 0.98, "more"),
    Figure("beside 1,000 tenants, 8 requests, over alone", 0.9, 0.98, "more"),
    Figure("on/off nothing predictable, 1 requests", 0.98, 0.995, "more"),
    Figure("on/off nothing predictable, 8 requests", 0.98, 0.995, "more"),
    Figure("on/off nothing predictable, 32 requests", 0.98, 0.995, "more"),
    Figure("on/off nothing predictable, all learnt, 32 requests", 0.98, 0.995, "more"),
    Figure("net gain of the metric off by", 0.05, 0.02),
)
"""In the order of the table."""


def verdict(figure: Figure, values: Sequence[float]) -> str:
    """`goal`, `floor`, `missed`, `not decided`, or nothing where there is no limit.

    Args:
        figure: Whose limits count.
        values: Samples, or ratios to the base's where the figure's limits are for these.
    """
    if figure.floor is None or figure.goal is None:
        return ""
    low, high = median_interval(values)
    for limit, name in ((figure.goal, "goal"), (figure.floor, "floor")):
        best, worst = (high, low) if figure.better == "more" else (low, high)
        sign = 1 if figure.better == "more" else -1
        narrow = high - low <= WIDEST * abs(statistics.median(values))
        if sign * worst >= sign * limit or (sign * best >= sign * limit and narrow):
            return name
        if name == "floor" and sign * best >= sign * limit:
            return "not decided"
    return "missed"
