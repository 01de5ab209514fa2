"""Computes the model's own bigrams while a worker is idle."""

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
"""A request that arrives during a slice waits for the end of the slice."""

NUM_PARTS = 12
"""The engine receives the growing table after each such part of the vocabulary."""


MAX_WAITED_SHARE = 0.2
"""Share of a slice that its thread may wait for a core before other processes count as delayed."""

MAX_REST_SLICES = 16.0
"""Longest rest after a slice that delayed other processes, as a multiple of its length."""


class IdleBigrams:
    """Drafts from the stored table and completes it one slice at a time.

    If other processes compete for the cores, it rests between slices, longer each time: this worker
    is idle, but the machine may not be.

    Failures are logged and never end the worker; the table keeps what it has.

    Args:
        engine: The engine that drafts from the table; its speculation is on.
        runner: The model. The thread that runs its steps must also call `step`.
    """

    def __init__(self, engine: _core.Engine, runner: Runner) -> None:
        self._engine = engine
        self._runner = runner
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
        """Computes the next slice; returns False if none is left, or during a rest.

        May be called only while the engine holds no request. The slice overwrites pages that the
        engine reports as free; only the next plan, made by the same thread, hands them out.
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
        """Saves the computed rows, so that the next start continues from there."""
        self._done = True
        if self._saving is not None:
            self._saving.join()
        self._save()

    def _compute(self) -> None:
        started, waited_before = time.monotonic(), waited_s()
        self._keep_features()
        pages = self._engine.scratch_pages(self._table.max_pages)
        self._table.extend(self._slice_tokens, pages)
        ended = time.monotonic()
        self._elapsed_s += ended - started
        if waited_s() - waited_before > MAX_WAITED_SHARE * (ended - started):
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

    def _keep_features(self) -> None:
        """Has the drafter keep what it needs of the last step's forward, which the slice overwrites."""
        due = self._engine.feature_plan()
        if due is None:
            return
        try:
            self._runner.draft(due)
        except Exception:
            # The engine does without those features. If the drafter is broken, its next level says so.
            log.warning("the drafter kept no features of the last step", exc_info=True)
        else:
            self._engine.features_copied()

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
                "the model's bigrams were not saved, a restart computes them again: %s", error
            )


def waited_s() -> float:
    """Returns the seconds this thread has waited for a core; 0 if the system does not report it."""
    try:
        fields = Path("/proc/thread-self/schedstat").read_text(encoding="ascii").split()
    except OSError:
        return 0.0
    return int(fields[1]) / 1e9


def slice_tokens(rows: list[int], milliseconds: list[float]) -> int:
    """Returns the maximum number of tokens in a slice of about `SLICE_MS`, at least one.

    Args:
        rows: Rows of a forward, ascending.
        milliseconds: Time of a forward for each entry of `rows`, never decreasing.
    """
    # One row more than tokens: the token that begins the text. No more rows than were measured.
    counts = np.arange(2, min(MAX_SLICE_TOKENS + 1, rows[-1]) + 1)
    fitting = np.interp(counts, rows, milliseconds) <= SLICE_MS
    return max(int(fitting.sum()), 1)
