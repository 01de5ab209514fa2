"""A drafter beside a decoder: what answers levels, on a CPU in the compiled core."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from statistics import median
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from spectrie import _core
from spectrie.model.drafters.description import AttentionLayer, Drafter
from spectrie.model.drafters.plan import Answers, DraftPlan

__all__ = ["CpuDrafts", "Drafts", "added_seconds"]

_SEATS = 4096
"""Rows of the feature store for running requests: the most that the engine may run. Memory is taken as
they are used."""

_ROUNDS = 10
_MAX_ROUNDS = 100
_ENOUGH_S = 0.5


class Drafts(Protocol):
    """A drafter beside a decoder.

    Attributes:
        number: Its number among the decoder's drafters.
        seats: Running requests that it has room for.
        max_rows: Draft rows of a step, all levels together.
    """

    @property
    def number(self) -> int: ...
    @property
    def seats(self) -> int: ...
    @property
    def max_rows(self) -> int: ...
    @property
    def num_bytes(self) -> int:
        """Memory of its weights."""

    def draft(self, plan: DraftPlan) -> Answers:
        """Answers the rows of one level.

        Raises:
            ValueError: The plan is inconsistent.
        """

    def upkeep_ms(self, forward: Callable[[int], int], settle: Callable[[], object]) -> float:
        """Returns the milliseconds that entries add to a forward of one row.

        Args:
            forward: Computes a forward of so many rows, or of as many as there is room for, and gives their number.
            settle: Asks a level without rows, before which entries that wait are computed.
        """

    def close(self) -> None:
        """Takes the drafter away from the decoder."""


@dataclass(frozen=True, slots=True)
class _Attention:
    """Attention of a drafter, for the core."""

    heads: int
    kv_heads: int
    head_dim: int
    norm_epsilon: float
    layers: list[AttentionLayer]
    cosines: NDArray[np.float32]
    sines: NDArray[np.float32]


class CpuDrafts:
    """A drafter of the compiled core; see `Drafts`."""

    seats = _SEATS

    def __init__(
        self, core: _core.CpuDecoder, drafter: Drafter, *, max_context: int, max_rows: int
    ) -> None:
        """Puts the drafter beside the decoder; from then on every forward writes the entries of one that
        reads features.

        Args:
            core: A decoder of one rank.
            drafter: Read for its model.
            max_context: Positions of the model.
            max_rows: Draft rows of a step at most.

        Raises:
            ValueError: The core does not support a size, or there is no memory.
        """
        geometry = drafter.geometry
        cosines, sines = geometry.rope.tables(max_context + geometry.positions_ahead)
        attention = _Attention(
            heads=geometry.heads,
            kv_heads=geometry.kv_heads,
            head_dim=geometry.head_dim,
            norm_epsilon=geometry.norm_epsilon,
            layers=geometry.layers,
            cosines=cosines,
            sines=sines,
        )
        self.number = core.add_drafter(drafter, attention, max_rows=max_rows, seats=self.seats)
        self._core = core
        self.max_rows = max_rows

    @property
    def num_bytes(self) -> int:
        """Memory of its weights, and of activations."""
        return self._core.drafter_bytes(self.number) or 0

    def draft(self, plan: DraftPlan) -> Answers:
        """See `Drafts`."""
        return Answers(*self._core.draft(plan))

    def upkeep_ms(self, forward: Callable[[int], int], settle: Callable[[], object]) -> float:
        """See `Drafts`."""

        def forward_s(*, resting: bool) -> float:
            self._core.set_drafter_resting(self.number, resting)
            return _seconds(lambda: forward(1))

        try:
            at_once = added_seconds(
                partial(forward_s, resting=True), partial(forward_s, resting=False)
            )
        finally:
            self._core.set_drafter_resting(self.number, False)
        waited = []
        for _ in range(_ROUNDS // 2):
            # As many as may wait.
            rows = forward(_core.MAX_PENDING_ENTRIES - 1)
            waited.append(_seconds(settle) / rows)
        return (at_once + min(waited)) * 1e3

    def close(self) -> None:
        """See `Drafts`."""
        self._core.drop_drafter(self.number)


def added_seconds(base: Callable[[], float], more: Callable[[], float]) -> float:
    """Returns by how many seconds one measurement exceeds another, at least 0: the median of 10 pairs, and of up to
    100 while half a second has not passed.

    Pairs take turns at which comes first. What is added may be a hundredth of what one measurement differs from the
    next by: the least of each differ by more.
    """
    ended_s = time.perf_counter() + _ENOUGH_S
    added: list[float] = []
    while len(added) < _ROUNDS or (len(added) < _MAX_ROUNDS and time.perf_counter() < ended_s):
        if len(added) % 2:
            more_s, base_s = more(), base()
        else:
            base_s, more_s = base(), more()
        added.append(more_s - base_s)
    return max(median(added), 0.0)


def _seconds(work: Callable[[], object]) -> float:
    start = time.perf_counter()
    work()
    return time.perf_counter() - start
