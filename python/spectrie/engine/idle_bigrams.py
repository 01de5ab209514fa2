"""The model's own bigrams, computed while a worker has nothing else to do."""

from __future__ import annotations

import logging
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from spectrie.model.runner.bigrams import MAX_SLICE_TOKENS, BigramTable

if TYPE_CHECKING:
    from spectrie import _core
    from spectrie.model import Runner

__all__ = ["IdleBigrams"]

log = logging.getLogger("spectrie.worker")

SLICE_MS = 50.0
"""A request that comes while a slice is computed waits for its end."""

NUM_PARTS = 12
"""The engine is given the growing table after each part of the vocabulary."""


MOST_WAITED = 0.2
"""Share of a slice that its thread may wait for a core before somebody else's work counts as held up."""

MAX_REST_SLICES = 16.0
"""Longest rest after a slice that held others up, in times of its length."""


class IdleBigrams:
    """Drafts from the stored table, and completes it one slice at a time.

    Where others want the cores too it rests between slices, longer from slice to slice: this worker
    is idle, the machine may not be.

    What fails is logged and never ends the worker; the table stays as far as it came.

    Args:
        engine: Whose drafts it is for; its speculation is on.
        runner: The model. Calls of `step` must come from the thread that runs its steps.
    """

    def __init__(self, engine: _core.Engine, runner: Runner) -> None:
        self._engine = engine
        self._table = BigramTable(runner)
        self._slice_tokens = slice_tokens(*runner.measure_costs())
        self._num_published = 0
        self._num_saved = self._table.num_known
        self._elapsed_s = 0.0
        self._saving: threading.Thread | None = None
        self._done = False
        self._rest_slices = 0.0
        self._rests_until_s = 0.0
        if self._table.trouble is not None:
            log.warning("the model's bigrams are computed again: %s", self._table.trouble)
        if self._table.num_known:
            self._publish()
        self._done = self._table.is_complete
        if self._done:
            log.info("drafting from the model's bigrams of %d tokens", self._table.num_tokens)
        else:
            log.info(
                "computing the model's bigrams in idle time, %d tokens",
                self._table.num_tokens - self._table.num_known,
            )

    def step(self) -> bool:
        """Computes the next slice; False when there was none, or it rests. Only while no request is held.

        The slice overwrites pages that the engine says hold nothing. They are handed out only by the
        next plan, which the same thread asks for.
        """
        if self._done or time.monotonic() < self._rests_until_s:
            return False
        try:
            self._compute()
        except Exception:
            log.exception("the model's bigrams are not computed any further")
            self._done = True
        return True

    def close(self) -> None:
        """Keeps what was computed, so that the next start goes on from there."""
        self._done = True
        if self._saving is not None:
            self._saving.join()
        self._save()

    def _compute(self) -> None:
        started, waited_before = time.monotonic(), waited_s()
        pages = self._engine.scratch_pages(self._table.max_pages)
        self._table.extend(self._slice_tokens, pages)
        ended = time.monotonic()
        self._elapsed_s += ended - started
        if waited_s() - waited_before > MOST_WAITED * (ended - started):
            self._rest_slices = min(max(2 * self._rest_slices, 1.0), MAX_REST_SLICES)
        else:
            self._rest_slices //= 2
        self._rests_until_s = ended + self._rest_slices * (ended - started)
        self._done = self._table.is_complete
        part = -(-self._table.num_tokens // NUM_PARTS)
        if self._done or self._table.num_known - self._num_published >= part:
            self._publish()
        if self._done:
            log.info("computed the model's bigrams in %.1f s of idle time", self._elapsed_s)
            # On a thread of its own: no request waits for the disk.
            self._saving = threading.Thread(target=self._save, name="spectrie-bigrams", daemon=True)
            self._saving.start()

    def _publish(self) -> None:
        self._engine.set_bigrams(self._table.freeze())
        self._num_published = self._table.num_known

    def _save(self) -> None:
        if self._table.num_known == self._num_saved:
            return
        self._num_saved = self._table.num_known
        try:
            self._table.save()
        except (OSError, ValueError) as error:
            log.warning(
                "the model's bigrams are not kept, a restart computes them again: %s", error
            )


def waited_s() -> float:
    """Seconds that this thread was ready to run and had no core; 0 where the system does not tell."""
    try:
        fields = Path("/proc/thread-self/schedstat").read_text(encoding="ascii").split()
    except OSError:
        return 0.0
    return int(fields[1]) / 1e9


def slice_tokens(rows: list[int], milliseconds: list[float]) -> int:
    """Most tokens of a slice of about `SLICE_MS`, at least one.

    Args:
        rows: Rows of a forward, ascending.
        milliseconds: What it takes, by its rows; never falls.
    """
    # One row more than tokens: the token that begins the text. No more rows than were measured.
    counts = np.arange(2, min(MAX_SLICE_TOKENS + 1, rows[-1]) + 1)
    fitting = np.interp(counts, rows, milliseconds) <= SLICE_MS
    return max(int(fitting.sum()), 1)
