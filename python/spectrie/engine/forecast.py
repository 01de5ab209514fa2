"""Whether a drafter is expected to pay on this machine, from how often it was right and from what was measured."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate
from operator import mul
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from spectrie.model import load_runner

if TYPE_CHECKING:
    from spectrie.model.runner.drafting import DrafterInfo

__all__ = ["TEXT_RIGHT", "Forecast", "Measured", "forecast", "measure"]

_PAGES = 64

TEXT_RIGHT = 0.5
"""How often drafts from text are taken to be right, at each depth, in the second of the two cases."""


@dataclass(frozen=True, slots=True)
class Forecast:
    """What a drafter is expected to add for one request at a time. A server asks it only while it pays.

    Attributes:
        top_1: By level, how often it was right on held-out text, which the rest rests on.
        alone: Speed over plain decoding, in text that nothing else predicts.
        tokens: Tokens of a step there.
        levels: Levels that it is asked there; 0 where none pays.
        beside: Speed with it over that of drafts from text alone, where those are right `TEXT_RIGHT` of the time, and
            when one is right says nothing of the other.
        upkeep: Share of a step that it takes asleep: what is lost where it never helps.
    """

    top_1: tuple[float, ...]
    alone: float
    tokens: float
    levels: int
    beside: float
    upkeep: float

    def __str__(self) -> str:
        right = " / ".join(f"{100 * share:.0f}" for share in self.top_1)
        if self.levels:
            alone = (
                f"{self.alone:.2f} times plain decoding in text that nothing else predicts ({self.tokens:.2f} tokens"
                f" a step with {self.levels} levels)"
            )
        else:
            alone = "no gain even in text that nothing else predicts"
        beside = f"{self.beside:.2f} times drafts from text where those are right half of the time"
        return (
            f"expected here for one request: {alone}; {beside}; {-100 * self.upkeep:.1f} % where it never helps;"
            f" from being right {right} % of held-out text by level, and from times measured here"
        )


def forecast(
    drafter: DrafterInfo, rows: Sequence[int], forward_ms: Sequence[float]
) -> Forecast | None:
    """Returns what a head should add; None where its files do not say how often it was right for this model.

    Args:
        drafter: It, with its costs.
        rows: Numbers of rows, ascending.
        forward_ms: Milliseconds of a forward of so many rows, without the drafter's upkeep.
    """
    origin = drafter.origin
    if origin is None or not origin.held_out_top_1 or not drafter.is_for_model:
        return None
    top_1 = origin.held_out_top_1[: drafter.max_levels]
    costs = drafter.costs
    kept_ms = costs.upkeep_ms
    depths = range(1, len(top_1) + 1)

    def step_ms(num_drafts: int, levels: int) -> float:
        """Milliseconds of a step; a level asks about one node."""
        asked_ms = costs.first_ms[0] + (levels - 1) * costs.later_ms[0] if levels else 0.0
        return float(np.interp(1 + num_drafts, rows, forward_ms)) + asked_ms + kept_ms

    def tokens(shares: Sequence[float]) -> list[float]:
        """Tokens of a step by its depth, each the share that is right behind right ones."""
        return [1.0, *(1.0 + sum(list(accumulate(shares, mul))[:depth]) for depth in depths)]

    plain_ms = float(np.interp(1, rows, forward_ms))
    alone = tokens(top_1)
    best = max((0, *depths), key=lambda depth: alone[depth] / step_ms(depth, depth))
    by_text = tokens([TEXT_RIGHT] * len(top_1))
    without = max(by_text[d] / (step_ms(d, 0) - kept_ms) for d in (0, *depths))
    both = tokens([1 - (1 - share) * (1 - TEXT_RIGHT) for share in top_1])
    # Asleep it costs its upkeep; awake, each level drafts what both say.
    beside = max(
        *(by_text[d] / step_ms(d, 0) for d in (0, *depths)),
        *(both[d] / step_ms(2 * d, d) for d in depths),
    )
    return Forecast(
        top_1=tuple(top_1),
        alone=alone[best] / step_ms(best, best) * plain_ms,
        tokens=alone[best],
        levels=best,
        beside=beside / without,
        upkeep=kept_ms / (plain_ms + kept_ms),
    )


@dataclass(frozen=True, slots=True)
class Measured:
    """Drafters that were loaded beside their model.

    Attributes:
        drafters: They, each with its costs and what it should add alone, None as of `forecast`.
        why_none: Why `auto` found none.
    """

    drafters: list[tuple[DrafterInfo, Forecast | None]]
    why_none: str | None


def measure(
    folder: Path, drafter: str | Sequence[str], threads: int | None = None, device: str = "cpu"
) -> Measured:
    """Loads drafters beside their model, measures all, and closes them.

    Args:
        folder: The model's.
        drafter: As `load_runner` takes it.
        threads: CPU threads; None takes what the model would be served with.
        device: As `load_runner` takes it.

    Raises:
        ConfigError: The machine cannot load them.
        ModelError: One of them cannot be read, or they do not fit.
    """
    runner = load_runner(folder, device=device, num_pages=_PAGES, threads=threads, drafter=drafter)
    try:
        found = [(info, forecast(info, *runner.measure_costs())) for info in runner.drafters]
        return Measured(found, runner.why_no_drafter)
    finally:
        runner.close()
