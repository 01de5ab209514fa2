"""Interleaved pairs: two contenders in turn, order swapped, one ratio per pair."""

from __future__ import annotations

import math
import random
import statistics
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

from bench.support.machine import foreign_cores

__all__ = ["Comparison", "compare", "median_interval", "shown_interval"]

Verdict = Literal["met", "not met", "not decided"]

MAX_FOREIGN_CORES = 0.2
"""A sample during which others used more than this many cores is dropped and taken again."""
MIN_PAIRS = 20
"""Fewer pairs decide nothing."""
WIDE = 0.05
"""Share of the median beyond which an end of its interval is called wide."""
MOST_PAIRS = 100
"""As many are taken where they can narrow a wide interval enough."""
_RETRIES = 3
_RESAMPLES = 4000


@dataclass(frozen=True, slots=True)
class Comparison:
    """Rates of two contenders, pair by pair.

    Attributes:
        first: Rates of the base, in units per second.
        second: Rates of the contender, in the same units and order.
        dropped: Samples that were taken again because of foreign load.
        disturbed: Pairs kept although foreign load was seen at every try.
    """

    first: tuple[float, ...]
    second: tuple[float, ...]
    dropped: int
    disturbed: int

    @property
    def ratios(self) -> tuple[float, ...]:
        """Contender over base, per pair."""
        return tuple(b / a for a, b in zip(self.first, self.second, strict=True))

    def summary(self) -> dict[str, object]:
        """Medians, the median ratio with its 95 % interval, and the raw rates."""
        low, high = median_interval(self.ratios)
        return {
            "base_median": statistics.median(self.first),
            "ours_median": statistics.median(self.second),
            "ratio": statistics.median(self.ratios),
            "ratio_low": low,
            "ratio_high": high,
            "pairs": len(self.ratios),
            "dropped_samples": self.dropped,
            "disturbed_pairs": self.disturbed,
            "base": list(self.first),
            "ours": list(self.second),
        }

    def verdict(self, floor: float) -> Verdict:
        """Whether the median ratio reaches `floor`.

        The interval's upper end must reach it, and the interval must be narrow: 0.04 for floors
        of about 1 ("never slower"), else a tenth of the median.
        """
        if len(self.ratios) < MIN_PAIRS:
            return "not decided"
        low, high = median_interval(self.ratios)
        if high < floor:
            return "not met"
        limit = 0.04 if 0.95 <= floor <= 1.0 else 0.1 * statistics.median(self.ratios)
        return "met" if high - low <= limit or low >= floor else "not decided"


def compare(
    base: Sequence[Callable[[], float]],
    ours: Sequence[Callable[[], float]],
    *,
    pairs: int,
    title: str,
    alone: bool = True,
) -> Comparison:
    """Takes `pairs` pairs of samples, and more, round by round, where the interval is wide but 100 can narrow it.

    Every other pair begins with ours.

    Args:
        base: One sample each when called, giving a rate; used in turn.
        ours: Likewise; entry i is compared with entry i of `base`.
        pairs: How many pairs at least; exactly as many where they are fewer than 20.
        title: Shown with the progress, on stderr.
        alone: Whether samples are taken again during which others used cores.
    """
    first: list[float] = []
    second: list[float] = []
    dropped = disturbed = 0
    number = 0
    while number < pairs or _helps_more(first, second, pairs, len(base)):
        task = number % len(base)
        for attempt in range(_RETRIES):
            # Swapped in the second round through the tasks too, so that each sees both orders.
            ours_first = (number + number // len(base)) % 2 == 1
            order = (ours[task], base[task]) if ours_first else (base[task], ours[task])
            (one, foreign_one), (two, foreign_two) = (foreign_cores(sample) for sample in order)
            quiet = not alone or max(foreign_one, foreign_two) <= MAX_FOREIGN_CORES
            if quiet or attempt == _RETRIES - 1:
                break
            dropped += 2
        disturbed += not quiet
        rates = (two, one) if ours_first else (one, two)
        first.append(rates[0])
        second.append(rates[1])
        print(
            f"  {title}: pair {number + 1}/{max(pairs, number + 1)}  {rates[0]:.1f} -> {rates[1]:.1f}"
            f"  ({rates[1] / rates[0]:.2f}x)",
            file=sys.stderr,
            flush=True,
        )
        number += 1
    return Comparison(tuple(first), tuple(second), dropped, disturbed)


def _helps_more(
    first: Sequence[float], second: Sequence[float], pairs: int, num_tasks: int
) -> bool:
    """Whether a wide interval may become narrow with 100 pairs: it shrinks as the root of their number.

    Every task has its turn before this is asked again.
    """
    taken = len(first)
    if pairs < MIN_PAIRS:
        return False
    if taken > pairs and taken % num_tasks:
        return True
    if taken + num_tasks > MOST_PAIRS:
        return False
    ratios = [b / a for a, b in zip(first, second, strict=True)]
    share = _half_width(*median_interval(ratios), statistics.median(ratios))
    return WIDE < share <= WIDE * math.sqrt(MOST_PAIRS / taken)


def _half_width(low: float, high: float, middle: float) -> float:
    """The farther end of an interval, as a share of the median."""
    return max(high - middle, middle - low) / abs(middle) if middle else math.inf


def shown_interval(low: float, high: float, middle: float, digits: int = 2) -> str:
    """The interval as a table shows it, called wide where an end is over 5 % from the median."""
    wide = ", wide" if _half_width(low, high, middle) > WIDE else ""
    return f"{low:.{digits}f}-{high:.{digits}f}{wide}"


def median_interval(values: Sequence[float]) -> tuple[float, float]:
    """The 95 % bootstrap interval of the median; the same for the same values."""
    draw = random.Random(0)
    medians = sorted(
        statistics.median(draw.choices(values, k=len(values))) for _ in range(_RESAMPLES)
    )
    return medians[int(0.025 * _RESAMPLES)], medians[int(0.975 * _RESAMPLES) - 1]
