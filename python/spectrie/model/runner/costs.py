"""Times forwards of a model at the start: by their rows, and by the cached tokens that these read."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Protocol

from spectrie.model import machine
from spectrie.model.decoder.sizing import LOGIT_ROWS
from spectrie.model.files.measurements import Measurements
from spectrie.model.plan import TREE_ROWS, StepPlan
from spectrie.model.runner.info import ContextCost, RunnerInfo

__all__ = ["CostTimer", "Timer"]

_COST_ROWS = (1, 2, 4, 8, 12, 16, 24, 32, 48, TREE_ROWS)
# A GPU's curve is flat and then bends: a line through its first points would miss the rest by far.
_GPU_COST_ROWS = (*_COST_ROWS, 128, 256, 512, 1024, 2048)
_COST_CONTEXT = 256
_COST_SECONDS = 1.2
_GAP_SECONDS = 0.1
_LONG_CONTEXT = 1024
_LONG_ROWS = 8
_GPU_LONG_REQUESTS = 8
_AGREED = 1.5


class Timer(Protocol):
    """Computes steps and times them."""

    @property
    def has_device_clock(self) -> bool:
        """Whether `of_device` works."""

    def of_host(self, plan: StepPlan, /) -> float:
        """Returns the milliseconds of a step by the host's clock, until its results are there."""

    def of_device(self, plan: StepPlan, /) -> float:
        """Returns the milliseconds that the device works on a step, by its own clock."""

    def recorded_rows(self) -> Sequence[int]:
        """Returns the sizes of steps that are recorded, ascending."""


class CostTimer:
    """Times of a model's forwards. Overwrites the cache's first pages: for use before serving.

    Where a device has a clock, a forward's time by its rows is what the device says, and what the host adds
    to a step is a number of its own, the same for all. The first is kept for the device, the second for the
    device beside this kind of host.
    """

    def __init__(
        self,
        info: RunnerInfo,
        measurements: Measurements,
        timer: Timer,
        beside: Callable[[], Sequence[str]] = lambda: (),
    ) -> None:
        """Takes what computes.

        Args:
            info: The model.
            measurements: Stores times.
            timer: Computes and times steps.
            beside: Identities of the drafters beside the model, whose entries are part of recorded steps.
        """
        self._info = info
        self._beside = beside
        self._measurements = measurements
        self._timer = timer

    def forwards(self, threads: int) -> tuple[list[int], list[float]]:
        """Measures a forward by its number of rows, at a context of about 256 tokens.

        Takes up to 1.5 seconds, or a few forwards of a slow model. The result is kept on disk; one that was
        measured while other processes kept the machine busy, for an hour and for busy machines. Overwrites the cache's first pages: call it before serving.

        Returns:
            Row counts, ascending, and the milliseconds of one forward for each, with what the host adds.
        """
        rows = self.sizes
        gap_ms = self.gap(threads)
        key = f"step costs {rows} {self._work(threads)}"
        stored = self._measurements.get(key, is_busy=machine.is_busy)
        if isinstance(stored, list) and len(stored) == len(rows):
            return rows, [float(value) + gap_ms for value in stored]
        competition = machine.Competition()
        times = [self.time(n, _COST_SECONDS / len(rows)) for n in rows]
        # More rows never cost less; where they seem to, something else ran meanwhile.
        for index in range(len(times) - 1, 0, -1):
            times[index - 1] = min(times[index - 1], times[index])
        self._measurements.put(key, times, is_rough=competition.is_there())
        return rows, [value + gap_ms for value in times]

    def gap(self, threads: int) -> float:
        """Measures what the host adds to the device's time of a step, in milliseconds, by a step of one row;
        0 where times are the host's anyway. Otherwise like `forwards`."""
        if not self._timer.has_device_clock:
            return 0.0
        key = f"host gap {self._work(threads)} on {machine.cpu_class()}"
        stored = self._measurements.get(key, is_busy=machine.is_busy)
        if not isinstance(stored, float):
            competition = machine.Competition()
            plans = [self.plan(1)]
            (by_device,) = self._times(plans, _GAP_SECONDS)
            (by_host,) = _fastest(self._timer.of_host, plans, _GAP_SECONDS)
            stored = max(by_host - by_device, 0.0)
            self._measurements.put(key, stored, is_rough=competition.is_there())
        return stored

    def _work(self, threads: int) -> str:
        """What times are kept for: with a device's clock not the host."""
        work = f"threads{threads}{self.ranks} {self._info.arithmetic}"
        if self._timer.has_device_clock:
            beside = "".join(f" beside {digest}" for digest in self._beside())
            return f"{work}{beside} by the device's clock"
        return f"{work} on {machine.cpu_class()}"

    def context(self, threads: int) -> ContextCost:
        """Measures the cost of cached tokens, by second runs at a long context.

        Takes about 0.6 seconds; otherwise like `forwards`. Prices are 0 if the cache is too small to
        measure them.
        """
        tile = self._info.tile_rows
        room = min(self._info.max_context, self._info.num_pages * self._info.page_size) - _LONG_ROWS
        added = min(_LONG_CONTEXT, room) - _COST_CONTEXT
        if added < _COST_CONTEXT or self._info.max_batch_rows < _LONG_ROWS:
            return ContextCost(_COST_CONTEXT, 0.0, 0.0, tile, self._stair_rows)
        requests = _GPU_LONG_REQUESTS if self._info.on_gpu else 1
        # Each on its own pages: caches would answer a second one.
        requests = max(
            1, min(requests, self._info.num_pages // self._pages(_COST_CONTEXT + added + 1))
        )
        key = f"context costs {added} {self._work(threads)}"
        stored = self._measurements.get(key, is_busy=machine.is_busy)
        if not isinstance(stored, list) or len(stored) != 2:
            competition = machine.Competition()
            contexts = (_COST_CONTEXT, _COST_CONTEXT + added)
            plans = [self.plan(_LONG_ROWS, context) for context in contexts]
            plans += [self._plain_plan(requests, context) for context in contexts]
            halves = [self._times(plans, _COST_SECONDS / 4) for _ in range(2)]
            prices = [_added(times, added, requests) for times in halves]
            stored = _added([min(both) for both in zip(*halves, strict=True)], added, requests)
            # Differences of times suffer more from other load than times do.
            agree = all(
                0 < least and most < _AGREED * least
                for least, most in map(sorted, zip(*prices, strict=True))
            )
            is_rough = competition.is_there() or not agree
            self._measurements.put(key, stored, is_rough=is_rough)
        together, alone = (float(value) for value in stored)
        # Rows of one request: a price each, and one for every tile. A request alone: one of both.
        tiles = -(-_LONG_ROWS // tile)
        per_read = 0.0
        if tiles < _LONG_ROWS:
            per_read = max(alone - together / _LONG_ROWS, 0.0) / (1 - tiles / _LONG_ROWS)
            per_read = min(per_read, alone)
        return ContextCost(
            _COST_CONTEXT, max(alone - per_read, 0.0), per_read, tile, self._stair_rows
        )

    @property
    def sizes(self) -> list[int]:
        """Sizes of the forwards that are timed."""
        most = min(self._info.max_batch_rows, self._info.max_context)
        rows = _GPU_COST_ROWS if self._info.on_gpu else _COST_ROWS
        # Recorded steps have the sizes that they were recorded in.
        beyond = [n for n in rows if n > self._stair_rows]
        return [n for n in (*self._timer.recorded_rows(), *beyond) if n <= most]

    @property
    def _stair_rows(self) -> int:
        """Rows up to which steps are recorded."""
        return max(self._timer.recorded_rows(), default=0)

    @property
    def ranks(self) -> str:
        """Prefix of the keys of measured times."""
        return f" ranks{self._info.ranks}" if self._info.ranks > 1 else ""

    def plan(self, num_rows: int, context: int = _COST_CONTEXT) -> StepPlan:
        """A step of as few requests as these rows fit into, each a tree of one path, all of whose rows are
        sampled up to `LOGIT_ROWS`."""
        # Unlike each other, so that they choose unlike experts where there are any.
        tokens = [row * self._info.vocabulary_size // num_rows for row in range(num_rows)]
        parts = [tokens[first : first + TREE_ROWS] for first in range(0, num_rows, TREE_ROWS)]
        # Larger steps are mostly rows of prompts, which recycle their likeliest tokens and draw none.
        is_prompt = num_rows > LOGIT_ROWS
        return StepPlan.joined([self._path(part, context, is_prompt=is_prompt) for part in parts])

    def _plain_plan(self, num_requests: int, context: int) -> StepPlan:
        """A step of requests of one row, each on its own pages."""
        pages = self._pages(context + 1)
        return StepPlan.joined(
            [self._path([index], context, index * pages) for index in range(num_requests)]
        )

    def _pages(self, tokens: int) -> int:
        return -(-tokens // self._info.page_size)

    def _path(
        self, tokens: list[int], context: int, first_page: int = 0, *, is_prompt: bool = False
    ) -> StepPlan:
        kv_len = max(min(context, self._info.max_context - len(tokens)), 0)
        pages = range(first_page, first_page + self._pages(kv_len + len(tokens)))
        return StepPlan.single(
            tokens,
            kv_len=kv_len,
            pages=list(pages),
            parents=list(range(-1, len(tokens) - 1)),
            sample_rows=[len(tokens) - 1] if is_prompt else None,
            top_rows=list(range(len(tokens))),
            page_size=self._info.page_size,
        )

    def time(self, num_rows: int, seconds: float) -> float:
        """Returns the milliseconds of a forward of so many rows; see `_times`."""
        return self._times([self.plan(num_rows)], seconds)[0]

    def _times(self, plans: list[StepPlan], seconds: float) -> list[float]:
        """See `_fastest`: by the device's clock where it has one."""
        timer = self._timer
        return _fastest(
            timer.of_device if timer.has_device_clock else timer.of_host, plans, seconds
        )


def _fastest(
    time_of: Callable[[StepPlan], float], plans: list[StepPlan], seconds: float
) -> list[float]:
    """Returns the milliseconds of the fastest of at least three forwards of each plan within `seconds`.

    Only the fastest is independent of the machine's other load, which must not be kept on disk. Plans
    take turns: a load that comes and goes then slows none of them alone.
    """
    for plan in plans:
        time_of(plan)
    times: list[list[float]] = [[] for _ in plans]
    end = time.perf_counter() + seconds
    while len(times[0]) < 3 or time.perf_counter() < end:
        for plan, taken in zip(plans, times, strict=True):
            taken.append(time_of(plan))
    return [min(taken) for taken in times]


def _added(times: list[float], added: int, requests: int) -> list[float]:
    """Milliseconds that each of `added` cached tokens adds to rows of one request, and to a request alone, by
    times of the first and of `requests` of the second, short and long each."""
    return [
        max(times[1] - times[0], 0.0) / added,
        max(times[3] - times[2], 0.0) / added / requests,
    ]
