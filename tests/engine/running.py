"""A step loop over an engine and a tiny random model."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Literal

from spectrie import _core
from spectrie.engine.loop import StepLoop
from spectrie.model import Runner, load_runner
from spectrie.model.drafters import Answers
from spectrie.types import Source
from tests.tiny_model import VOCABULARY_SIZE, write_tiny_model
from tests.waiting import wait_until

__all__ = [
    "FORWARD_MS",
    "LEVEL_MS",
    "MAX_ROWS",
    "WAIT_S",
    "Kind",
    "RunningLoop",
    "load_tiny_runner",
]

WAIT_S = 30.0

MAX_ROWS = 16
"""Rows of a forward: the engine plans more for a longer prompt, and the forward fails."""

FORWARD_MS = [1, 64], [10.0, 40.0]
"""What a forward beside a drafter is said to take, by rows."""

LEVEL_MS = [1, MAX_ROWS], [0.01, 0.02]
"""The same of a drafter's level."""

Kind = Literal["native", "python"]


def load_tiny_runner(folder: Path, drafter: Path | None = None, max_rows: int = MAX_ROWS) -> Runner:
    """Writes and loads a model with room for 128 pages and `max_rows` rows."""
    return load_runner(
        write_tiny_model(folder),
        dtype="float32",
        threads=1,
        num_pages=128,
        max_batch_rows=max_rows,
        drafter="off" if drafter is None else drafter,
    )


class RunningLoop:
    """A loop of either kind, what it delivered, and in which order.

    Args:
        runner: From `load_tiny_runner`.
        kind: Whether the steps are called from Python.
        idle: See `StepLoop`; nothing by default.
        draft: Answers levels in the runner's place, where Python calls the steps; with it or `drafts` the
            engine asks the drafter.
        drafts: Whether the runner's own drafter is asked.
        draft_rows: Rows that it is thought to answer in a step.
        options: Of the engine, which drafts nothing by default.
    """

    def __init__(
        self,
        runner: Runner,
        kind: Kind,
        idle: Callable[[], bool] = lambda: False,
        draft: Callable[[_core.DraftPlan], Answers] | None = None,
        drafts: bool = False,
        draft_rows: int = MAX_ROWS,
        **options: Any,
    ) -> None:
        self.engine = _core.Engine(
            {
                "vocabulary_size": VOCABULARY_SIZE,
                "eos_token_ids": [],
                "num_pages": runner.num_pages,
                "max_context": 512,
                "max_running": 8,
                "speculation": "off",
            }
            | options
        )
        self.events: list[str] = []
        """`output` and `death`, in their order."""
        self.tokens: dict[int, list[int]] = {}
        self.finishes: dict[int, _core.Finish] = {}
        self.death: list[BaseException] = []
        self.gate = threading.Event()
        """While it is not set, `deliver` does not return."""
        self.gate.set()
        self.waits = threading.Event()
        """Set once `deliver` has begun."""
        native = runner.native if kind == "native" else None
        drafts = drafts or draft is not None
        if drafts:
            self._set_drafter(runner, draft_rows)
        self.is_dropped = False
        """Whether the loop gave the drafter up."""
        seen: Any = SimpleNamespace(
            step=runner.step,
            device_shape=None,
            native=native,
            drafts=drafts,
            draft=draft or runner.draft,
            drop_drafter=self._drop,
        )
        self._seen = seen
        self.loop = StepLoop(lambda: (self.engine, seen), self._deliver, self._die, idle)
        self.loop.start()

    def _drop(self, drafter: int) -> None:
        self._seen.drafts = False
        self.is_dropped = drafter == 0

    def _set_drafter(self, runner: Runner, max_rows: int) -> None:
        assert runner.drafter is not None
        # As if forwards were slow and levels next to nothing: the loop is shown, not the price.
        self.engine.set_costs(*FORWARD_MS)
        rows, level_ms = LEVEL_MS
        self.engine.add_drafter(
            source=Source.HEAD,
            max_levels=min(3, runner.drafter.max_levels),
            max_rows=max_rows,
            rows=rows,
            first_ms=level_ms,
            later_ms=level_ms,
        )

    def submit(self, request: _core.Request) -> None:
        """Passes a request to the engine and wakes the loop."""
        self.engine.submit(request)
        self.loop.wake()

    def await_finish(self, handle: int) -> _core.Finish:
        """Waits for the end of a request."""
        wait_until(lambda: handle in self.finishes, WAIT_S, lambda: f"{handle} has not ended")
        return self.finishes[handle]

    def await_death(self) -> BaseException:
        """Waits for the end of the loop."""
        wait_until(lambda: bool(self.death), WAIT_S, lambda: "the loop still runs")
        return self.death[0]

    def await_steps(self, count: int) -> None:
        """Waits until so many steps are done."""
        wait_until(lambda: self.loop.steps >= count, WAIT_S, lambda: f"{self.loop.steps} steps")

    @property
    def num_tokens(self) -> int:
        """Tokens delivered."""
        return sum(map(len, self.tokens.values()))

    def close(self) -> None:
        """Ends the loop."""
        self.gate.set()
        self.loop.stop()

    def _deliver(self, output: _core.StepOutput) -> None:
        self.waits.set()
        assert self.gate.wait(WAIT_S)
        self.events.append("output")
        bounds, ids = output.token_indptr, output.token_ids
        for index, (handle, finish) in enumerate(zip(output.handles, output.finishes, strict=True)):
            self.tokens.setdefault(handle, []).extend(ids[bounds[index] : bounds[index + 1]])
            if finish is not None:
                assert handle not in self.finishes
                self.finishes[handle] = finish

    def _die(self, error: BaseException) -> None:
        self.events.append("death")
        self.death.append(error)
