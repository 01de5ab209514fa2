"""What runs the steps of a loop, and when it gives up."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Protocol

__all__ = ["MAX_CONSECUTIVE_FAILURES", "Failures", "Steps", "warn_of_drafter"]

log = logging.getLogger("spectrie.worker")

MAX_CONSECUTIVE_FAILURES = 5
"""Consecutive failed forwards after which the loop gives up: no single request is to blame."""


class Steps(Protocol):
    """Runs plan, forward and commit, and delivers each step's output once and in order.

    All but `run` and `close` may be called from any thread.
    """

    @property
    def steps(self) -> int:
        """Steps done since the start."""

    @property
    def busy(self) -> bool:
        """Whether the last plan had work."""

    @property
    def gaps_ms(self) -> Sequence[float]:
        """Milliseconds from the end of a forward to the start of the next, of the last 1,024.

        Empty where Python calls the steps: it learns of the end once it has the GIL.
        """

    def run(self, rest_s: float, rested: bool) -> None:
        """Runs steps while the engine has work, and sleeps while it has none.

        Returns after a sleep of `rest_s` without work or wake-up, or once it was stopped. With
        `rested` it does not sleep before its first step.

        Raises:
            BaseException: No further step is possible.
        """

    def wake(self) -> None:
        """Wakes `run` after a change to the engine."""

    def stop(self) -> None:
        """Ends `run` after the current step."""

    def close(self) -> None:
        """Delivers what is left. No `run` may follow.

        Raises:
            BaseException: What `deliver` raised, unless `run` has raised it.
        """

    def is_own_thread(self) -> bool:
        """Whether the caller is a thread that `close` waits for."""


class Failures:
    """Counts forwards that failed in a row."""

    MESSAGE = "the model failed on this step; the worker's log has the details"
    """What the callers of its requests are told."""

    def __init__(self) -> None:
        self._in_a_row = 0

    def clear(self) -> None:
        """Notes a forward that did not fail."""
        self._in_a_row = 0

    def add(self, step: int, error: Exception) -> None:
        """Notes and logs a forward that failed.

        Raises:
            RuntimeError: It is one too many.
        """
        self._in_a_row += 1
        log.error("step %d failed (%d in a row)", step, self._in_a_row, exc_info=error)
        if self._in_a_row >= MAX_CONSECUTIVE_FAILURES:
            raise RuntimeError(f"{self._in_a_row} steps failed in a row") from error


def warn_of_drafter(error: Exception, drafter: int | None = None) -> None:
    """Logs that a drafter failed. It is not asked again, so this is logged once for each.

    Args:
        error: What happened.
        drafter: Its number, as plans have it; None where the error says which one it was.
    """
    which = "the drafter" if drafter is None else f"drafter {drafter + 1}"
    log.warning("%s failed: steps go on without it", which, exc_info=error)
