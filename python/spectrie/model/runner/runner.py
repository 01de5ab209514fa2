"""The runner: computes the logits of a plan and reports the arithmetic they depend on."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import torch

from spectrie.model import machine
from spectrie.model.decoder.cpu import CpuDecoder
from spectrie.model.files.measurements import Measurements
from spectrie.model.plan import Forward, PlanArrays, StepPlan, StepResult

if TYPE_CHECKING:
    from spectrie import _core

__all__ = ["ContextCost", "Runner", "RunnerInfo"]

_TREE_ROWS = 64
_COST_ROWS = (1, 2, 4, 8, 12, 16, 24, 32, 48, _TREE_ROWS)
# A GPU's curve is flat and then bends: a line through its first points would miss the rest by far.
_GPU_COST_ROWS = (*_COST_ROWS, 128, 256, 512)
_COST_CONTEXT = 256
_COST_SECONDS = 1.2
_LONG_CONTEXT = 1024
_LONG_ROWS = 8
_GPU_LONG_REQUESTS = 8
_THREAD_SECONDS = 0.25


@dataclass(frozen=True, slots=True)
class ContextCost:
    """What reading the cache adds to a forward.

    Attributes:
        context_tokens: Cached tokens of each row in the forwards of `measure_costs`.
        ms_per_key: Milliseconds for each row and cached token.
        ms_per_read: Milliseconds for each cached token, once for all rows of a tile.
        tile_rows: Rows of a request that read its cached tokens together.
    """

    context_tokens: int
    ms_per_key: float
    ms_per_read: float
    tile_rows: int


@dataclass(frozen=True, slots=True)
class RunnerInfo:
    """Facts about a loaded model.

    Attributes:
        bigram_prefix: Returns the ids of the shortest text that anything can follow.
        kv_bytes: Size of the key-value cache; memory is allocated as pages are used.
        arithmetic: Everything that the bits of a logit depend on, besides the preceding tokens.
        exact: Whether a row's logits are independent of the other rows in the batch, bit by bit, so
            that equal requests and seeds get equal answers, with and without drafts.
        can_speculate: Whether drafts may be verified: every token is the model's own draw, `exact` or
            not.
        ranks: Processes that share the model; they affect times, never bits.
        tile_rows: Rows of a request that read its cached tokens together.
        why_fast: Why the arithmetic is fast where nobody asked for that by name.
    """

    vocabulary_size: int
    eos_token_ids: list[int]
    bigram_prefix: Callable[[], list[int]]
    max_context: int
    num_pages: int
    page_size: int
    max_batch_rows: int
    kv_bytes: int
    dtype_name: str
    device_name: str
    model_hash: str
    arithmetic: str
    exact: bool
    can_speculate: bool
    ranks: int = 1
    tile_rows: int = 1
    why_fast: str | None = None

    @property
    def on_gpu(self) -> bool:
        """Whether a GPU computes the forward."""
        return self.device_name != "cpu"


class Runner:
    """A model with its key-value cache. Calls must come from one thread at a time."""

    def __init__(
        self,
        decoder: Forward,
        info: RunnerInfo,
        measurements: Measurements,
        threads: int,
        close: Callable[[], None] = lambda: None,
        check: Callable[[], None] = lambda: None,
    ) -> None:
        """Takes a decoder whose cache is empty.

        Args:
            decoder: Computes the forward.
            info: Facts about the model.
            measurements: Stores measured times.
            threads: Threads that share a forward.
            close: Ends the processes that the decoder has started.
            check: Raises the error of the next forward if it can be detected without one.
        """
        self._decoder = decoder
        self._measurements = measurements
        self.info = info
        self._threads = threads
        self._close = close
        self._check = check

    def close(self) -> None:
        """Ends the other ranks, if any. No call may be running or follow."""
        self._close()

    def check(self) -> None:
        """Checks, at no cost, that forwards are still possible.

        Raises:
            RankLost: Another rank has ended.
        """
        self._check()

    @property
    def vocabulary_size(self) -> int:
        """Number of tokens; the width of the logits."""
        return self.info.vocabulary_size

    @property
    def eos_token_ids(self) -> list[int]:
        """Tokens that end an answer."""
        return self.info.eos_token_ids

    @cached_property
    def bigram_prefix(self) -> list[int]:
        """Ids of the shortest text that anything can follow, or []; reads the tokenizer once."""
        return self.info.bigram_prefix()

    @property
    def max_context(self) -> int:
        """Maximum prompt plus answer, in tokens."""
        return self.info.max_context

    @property
    def num_pages(self) -> int:
        """Pages of the key-value cache."""
        return self.info.num_pages

    @property
    def page_size(self) -> int:
        """Slots of a page."""
        return self.info.page_size

    @property
    def dtype_name(self) -> str:
        """`float32`, `bfloat16` or `float16`."""
        return self.info.dtype_name

    @property
    def device_name(self) -> str:
        """`cpu`, or the name of the GPU."""
        return self.info.device_name

    @property
    def model_hash(self) -> str:
        """Identity of configuration and weights, 16 hex characters."""
        return self.info.model_hash

    @property
    def exact(self) -> bool:
        """Whether a row's logits are independent of the other rows, bit by bit."""
        return self.info.exact

    @property
    def why_fast(self) -> str | None:
        """Why rows are not independent where nobody asked for that by name."""
        return self.info.why_fast

    @property
    def can_speculate(self) -> bool:
        """Whether drafts may be verified, by exact arithmetic or not."""
        return self.info.can_speculate

    @property
    def native(self) -> _core.CpuDecoder | None:
        """The forward as one call that needs no Python; None on a GPU and on several ranks."""
        return self._decoder.native if isinstance(self._decoder, CpuDecoder) else None

    @property
    def threads(self) -> int:
        """Threads that share the work of a forward."""
        return self._threads

    @property
    def numeric_fingerprint(self) -> str:
        """Exact workers of equal fingerprint return equal tokens for equal requests and seeds."""
        return self.info.arithmetic

    def step(self, plan: PlanArrays) -> StepResult:
        """Computes the logits of the plan's sample rows and the likeliest tokens of its top rows.

        The logits are valid until the next step, which overwrites them on a CPU. Performs the plan's
        cache moves, then writes the keys and values of all rows to their slots.

        Args:
            plan: One step, at most `max_batch_rows` rows.

        Raises:
            ValueError: The plan is inconsistent, or exceeds the cache, the vocabulary or a limit.
            RankLost: Another rank ended or does not respond; no further step is possible.
        """
        tokens = plan.row_token
        if len(tokens) > self.info.max_batch_rows:
            raise ValueError(f"plan has {len(tokens)} rows, at most {self.info.max_batch_rows}")
        if len(tokens) and not 0 <= tokens.min() <= tokens.max() < self.info.vocabulary_size:
            raise ValueError(
                f"row_token holds {tokens.min()}..{tokens.max()}; "
                f"allowed: 0..{self.info.vocabulary_size - 1}"
            )
        return self._decoder.forward(plan)

    def forward(self, plan: PlanArrays) -> torch.Tensor:
        """Returns the logits of `step`: float32 [S, vocabulary], contiguous, on the device."""
        return self.step(plan).logits

    def set_threads(self, threads: int) -> None:
        """Sets the number of threads that share a forward."""
        self._decoder.set_threads(threads)
        self._threads = threads

    def choose_threads(self, num_cores: int) -> None:
        """Measures and sets the fastest thread count for one row and for eight.

        Overwrites the cache's first pages: call it before serving. The result is kept on disk, unless
        other processes keep the machine busy.
        """
        key = f"threads of {num_cores}{self._ranks} {self.info.arithmetic} on {machine.cpu_class()}"
        fastest = self._measurements.get(key)
        if not isinstance(fastest, int) or not 1 <= fastest <= num_cores:
            counts = sorted({1, num_cores, *(1 << i for i in range(num_cores.bit_length()))})
            counts = [count for count in counts if count <= num_cores]
            times = {}
            busy = machine.is_busy()
            for count in counts:
                self.set_threads(count)
                one, eight = (self._time(self._cost_plan(n), _THREAD_SECONDS / 2) for n in (1, 8))
                times[count] = 2 * one + eight
            fastest = min(counts, key=lambda count: times[count])
            self._measurements.put(key, fastest, on_disk=not busy)
        self.set_threads(fastest)

    def warm_up(self) -> None:
        """Computes a forward of every size that `measure_costs` times, on a GPU.

        There the first forward of a size compiles or reads its kernels, which no request shall wait for.
        Overwrites the cache's first pages: call it before serving.
        """
        if self.info.on_gpu:
            for num_rows in self._cost_rows:
                self.step(self._cost_plan(num_rows))

    def measure_costs(self) -> tuple[list[int], list[float]]:
        """Measures a forward by its number of rows, at a context of about 256 tokens.

        Takes up to 1.5 seconds, or a few forwards of a slow model. The result is kept on disk like
        that of `choose_threads`. Overwrites the cache's first pages: call it before serving.

        Returns:
            Row counts, ascending, and the milliseconds of one forward for each.
        """
        rows = self._cost_rows
        work = f"threads{self._threads}{self._ranks} {self.info.arithmetic}"
        key = f"step costs {rows} {work} on {machine.cpu_class()}"
        stored = self._measurements.get(key)
        if isinstance(stored, list) and len(stored) == len(rows):
            return rows, [float(value) for value in stored]
        busy = machine.is_busy()
        times = [self._time(self._cost_plan(n), _COST_SECONDS / len(rows)) for n in rows]
        # More rows never cost less; where they seem to, something else ran meanwhile.
        for index in range(len(times) - 1, 0, -1):
            times[index - 1] = min(times[index - 1], times[index])
        self._measurements.put(key, times, on_disk=not busy)
        return rows, times

    def measure_context_cost(self) -> ContextCost:
        """Measures the cost of cached tokens, by second runs at a long context.

        Takes about 0.6 seconds; otherwise like `measure_costs`. Prices are 0 if the cache is too small to
        measure them.
        """
        tile = self.info.tile_rows
        room = min(self.max_context, self.num_pages * self.page_size) - _LONG_ROWS
        added = min(_LONG_CONTEXT, room) - _COST_CONTEXT
        if added < _COST_CONTEXT or self.info.max_batch_rows < _LONG_ROWS:
            return ContextCost(_COST_CONTEXT, 0.0, 0.0, tile)
        requests = _GPU_LONG_REQUESTS if self.info.on_gpu else 1
        # Each on its own pages: caches would answer a second one.
        requests = max(1, min(requests, self.num_pages // self._pages(_COST_CONTEXT + added + 1)))
        key = f"context costs {added} threads{self._threads}{self._ranks} {self.info.arithmetic}"
        stored = self._measurements.get(key)
        if not isinstance(stored, list) or len(stored) != 2:
            busy = machine.is_busy()
            stored = [
                self._time_added(lambda context: self._cost_plan(_LONG_ROWS, context), added),
                self._time_added(lambda context: self._plain_plan(requests, context), added)
                / requests,
            ]
            self._measurements.put(key, stored, on_disk=not busy)
        together, alone = (float(value) for value in stored)
        # Rows of one request: a price each, and one for every tile. A request alone: one of both.
        tiles = -(-_LONG_ROWS // tile)
        per_read = 0.0
        if tiles < _LONG_ROWS:
            per_read = max(alone - together / _LONG_ROWS, 0.0) / (1 - tiles / _LONG_ROWS)
            per_read = min(per_read, alone)
        return ContextCost(_COST_CONTEXT, max(alone - per_read, 0.0), per_read, tile)

    def _time_added(self, plan_at: Callable[[int], StepPlan], added: int) -> float:
        """Milliseconds that each of `added` cached tokens adds to a forward."""
        short, long = (
            self._time(plan_at(context), _COST_SECONDS / 8)
            for context in (_COST_CONTEXT, _COST_CONTEXT + added)
        )
        return max(long - short, 0.0) / added

    @property
    def _cost_rows(self) -> list[int]:
        """Sizes of the forwards that are timed."""
        most = min(self.info.max_batch_rows, self.max_context)
        return [n for n in (_GPU_COST_ROWS if self.info.on_gpu else _COST_ROWS) if n <= most]

    @property
    def _ranks(self) -> str:
        """Prefix of the keys of measured times."""
        return f" ranks{self.info.ranks}" if self.info.ranks > 1 else ""

    def _cost_plan(self, num_rows: int, context: int = _COST_CONTEXT) -> StepPlan:
        """A step of as few requests as these rows fit into, each a tree of one path."""
        # Unlike each other, so that they choose unlike experts where there are any.
        tokens = [row * self.vocabulary_size // num_rows for row in range(num_rows)]
        parts = [tokens[first : first + _TREE_ROWS] for first in range(0, num_rows, _TREE_ROWS)]
        return StepPlan.joined([self._path(part, context) for part in parts])

    def _plain_plan(self, num_requests: int, context: int) -> StepPlan:
        """A step of requests of one row, each on its own pages."""
        pages = self._pages(context + 1)
        return StepPlan.joined(
            [self._path([index], context, index * pages) for index in range(num_requests)]
        )

    def _pages(self, tokens: int) -> int:
        return -(-tokens // self.page_size)

    def _path(self, tokens: list[int], context: int, first_page: int = 0) -> StepPlan:
        kv_len = max(min(context, self.max_context - len(tokens)), 0)
        pages = range(first_page, first_page + self._pages(kv_len + len(tokens)))
        return StepPlan.single(
            tokens,
            kv_len=kv_len,
            pages=list(pages),
            parents=list(range(-1, len(tokens) - 1)),
            top_rows=list(range(len(tokens))),
            page_size=self.page_size,
        )

    def _time(self, plan: StepPlan, seconds: float) -> float:
        """Returns the milliseconds of the fastest of at least three forwards within `seconds`.

        Only the fastest is independent of the machine's other load, which must not be kept on disk.
        """
        self.forward(plan)
        times: list[float] = []
        end = time.perf_counter() + seconds
        while len(times) < 3 or time.perf_counter() < end:
            start = time.perf_counter()
            # As a step does; a GPU has then finished.
            self.step(plan).logits.cpu()
            times.append((time.perf_counter() - start) * 1e3)
        return min(times)
