"""A loaded model with its engine and step loop."""

from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING

from spectrie.worker.config import EngineOptions, RunnerOptions
from spectrie.worker.loop import StepLoop

if TYPE_CHECKING:
    from spectrie import _core
    from spectrie.model import Runner

__all__ = ["EngineHost"]

log = logging.getLogger("spectrie.worker")

MAX_RUNNING_DEFAULT = 64
PAGES_PER_RUNNING = 16
"""A default `max_running` leaves each request at least this many pages, 256 tokens."""


class EngineHost:
    """A model, warm and ready to take requests.

    Args:
        folder: Model folder in Hugging Face form.
        runner: How to load it.
        engine: How to schedule it.
        deliver: Takes the output of each step, on the loop's thread; must return at once.
        on_death: Takes the exception that ended the step loop, on the loop's thread.
        progress: Takes one line per stage of loading.

    Raises:
        ModelError: The folder is not a model this build runs.
    """

    def __init__(
        self,
        folder: Path,
        *,
        runner: RunnerOptions,
        engine: EngineOptions,
        deliver: Callable[[_core.StepOutput], None],
        on_death: Callable[[BaseException], None],
        progress: Callable[[str], None] | None = None,
    ) -> None:
        from spectrie.model import load_runner

        self.folder = folder
        self.runner: Runner = load_runner(
            folder,
            dtype=runner.dtype,
            device=runner.device,
            threads=runner.threads,
            num_pages=runner.num_pages,
            kv_memory_bytes=runner.kv_memory_bytes,
            max_context=runner.max_context,
            max_batch_rows=engine.max_batch_rows,
            progress=progress,
        )
        self.speculation = self._speculation(engine.speculation)
        self.max_running = max_running(engine, self.runner.num_pages)
        self.engine_options = engine
        self.engine = _engine(self.runner, engine, self.speculation, self.max_running)
        if self.speculation != "off":
            rows, milliseconds = self.runner.measure_costs()
            self.engine.set_costs(rows, milliseconds)
        self._loop = StepLoop(self.engine, self.runner, deliver, on_death)
        self._loop.start()

    def _speculation(self, wanted: str) -> str:
        if wanted != "off" and not self.runner.exact:
            log.warning(
                "speculation is off: no packing of this CPU's linears keeps a row's bytes "
                "independent of its company (spectrie doctor tells more)"
            )
            return "off"
        return wanted

    @property
    def can_speculate(self) -> bool:
        """Whether anything may be drafted: rows must be exact in any company."""
        return self.runner.exact

    @property
    def steps(self) -> int:
        """Steps done since the start."""
        return self._loop.steps

    @property
    def busy(self) -> bool:
        """Whether there was work at the last look."""
        return self._loop.busy

    def submit(self, request: _core.Request) -> None:
        """Queues a request; its tokens and its end come through `deliver`.

        Raises:
            EngineError: The inbox is full.
        """
        self.engine.submit(request)
        self._loop.wake()

    def cancel(self, handle: int, keep_tokens: int | None = None, finished: bool = False) -> None:
        """Stops a request within one step; unknown handles are ignored."""
        self.engine.cancel(handle, keep_tokens, finished)
        self._loop.wake()

    def learn(self, namespace: str, token_ids: list[int]) -> None:
        """Teaches the draft memory of `namespace` a sequence."""
        self.engine.learn(namespace, token_ids)
        self._loop.wake()

    def close(self) -> None:
        """Ends the step loop after the step it is in."""
        self._loop.stop()

    def __enter__(self) -> EngineHost:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


def max_running(options: EngineOptions, num_pages: int) -> int:
    """Most requests that run at once: as asked, else what the cache has room for."""
    if options.max_running is not None:
        return options.max_running
    return max(1, min(MAX_RUNNING_DEFAULT, options.max_batch_rows, num_pages // PAGES_PER_RUNNING))


def _engine(runner: Runner, options: EngineOptions, speculation: str, running: int) -> _core.Engine:
    from spectrie import _core

    return _core.Engine(
        vocabulary_size=runner.vocabulary_size,
        eos_token_ids=list(runner.eos_token_ids),
        num_pages=runner.num_pages,
        max_context=runner.max_context,
        max_running=running,
        page_size=runner.page_size,
        chunk_tokens=options.chunk_tokens,
        max_batch_rows=options.max_batch_rows,
        speculation=speculation,
        max_draft_tokens=options.max_draft_tokens,
        min_match=options.min_match,
        max_match=options.max_match,
        min_breadth=options.min_breadth,
        max_breadth=options.max_breadth,
        max_depth=options.max_depth,
        memory_bytes=options.memory_bytes,
        holdout_every=options.holdout_every,
    )
