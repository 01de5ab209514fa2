"""How long to wait before a child that ended is started again."""

from __future__ import annotations

__all__ = ["Backoff"]

FIRST_PAUSE_S = 0.5
LONGEST_PAUSE_S = 30.0
STABLE_AFTER_S = 60.0
STABLE_PAUSES = 10.0
"""A child that was ready for so long, or so many times its last pause, is started again after the
first, short pause."""


class Backoff:
    """Pauses of one child: each twice the one before, until the child shows that it can run.

    One that did work while it was ready pauses for a tenth of that time at most, or for the first
    pause: requests wait for it, and what ended it may be no fault of its own.
    """

    def __init__(self) -> None:
        self._next_s = FIRST_PAUSE_S

    def after_failed_start(self) -> float:
        """The pause in seconds after an end before it was ready."""
        pause_s, self._next_s = self._next_s, min(self._next_s * 2, LONGEST_PAUSE_S)
        return pause_s

    def after_hopeless_start(self) -> float:
        """The pause in seconds after an end that a start soon after would only repeat."""
        self._next_s = LONGEST_PAUSE_S
        return self._next_s

    def after_end(self, ready_s: float, *, has_worked: bool) -> float:
        """The pause in seconds after an end.

        Args:
            ready_s: Seconds for which it was ready.
            has_worked: Whether it made progress in them.
        """
        if ready_s >= min(STABLE_AFTER_S, STABLE_PAUSES * self._next_s):
            self._next_s = FIRST_PAUSE_S
        elif has_worked:
            self._next_s = min(self._next_s, max(ready_s / STABLE_PAUSES, FIRST_PAUSE_S))
        return self.after_failed_start()
