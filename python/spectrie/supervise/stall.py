"""When a process that says how far it is counts as stalled."""

from __future__ import annotations

from spectrie.supervise.pulse import Pulse

__all__ = ["LOADING_S", "StallWatch"]

LOADING_S = 120.0
"""Time without progress that a process has until it is ready, at least: large libraries are read in it."""

_ABSENT_S = 1.0
"""A watcher that did not look for so long was itself held up, and saw nothing."""


class StallWatch:
    """Watches the pulses of one process. Times are seconds on one clock that never goes back.

    A process is stalled when for the limit in force it said nothing, or had work pending and did
    none. The limit is `timeout_s`, or what the process asks for if that is more.

    Args:
        timeout_s: Seconds without progress.
        now_s: The time at which the process was started.
    """

    def __init__(self, timeout_s: float, now_s: float) -> None:
        self._timeout_s = timeout_s
        self._patience_s = LOADING_S
        self._progress: int | None = None
        self._moved_s = now_s
        self._heard_s = now_s
        self._looked_s = now_s

    @property
    def limit_s(self) -> float:
        """The limit in force, in seconds."""
        return max(self._timeout_s, self._patience_s)

    def note(self, pulse: Pulse, now_s: float) -> None:
        """Takes a pulse."""
        self._heard_s = now_s
        if not pulse.pending or pulse.progress != self._progress:
            self._moved_s = now_s
        self._progress = pulse.progress
        self._patience_s = pulse.patience_s

    def stalled(self, now_s: float) -> str | None:
        """Why the process is stalled; None if it is not. To be asked several times a second."""
        absent_s = now_s - self._looked_s
        self._looked_s = now_s
        if absent_s > _ABSENT_S:
            self._moved_s = min(self._moved_s + absent_s, now_s)
            self._heard_s = min(self._heard_s + absent_s, now_s)
        if now_s - self._moved_s <= self.limit_s:
            return None
        if now_s - self._heard_s > self.limit_s / 2:
            return f"said nothing for {self.limit_s:g} s"
        return f"made no progress for {self.limit_s:g} s with work pending"
