"""Progress of a long step, on stderr: a bar on a terminal, a line every ten seconds elsewhere."""

from __future__ import annotations

import sys
import time
from typing import Self, TextIO

__all__ = ["Progress"]

_BAR_CELLS = 24
_TERMINAL_EVERY_S = 0.1
_LOG_EVERY_S = 10.0


class Progress:
    """A progress bar that clears its line when the step ends; use it as a context manager."""

    def __init__(self, label: str, total: int | None, stream: TextIO | None = None) -> None:
        """Begins a step.

        Args:
            label: Name of the step, before the bar.
            total: Amount of work, in any unit; None if unknown.
            stream: Where to write; stderr by default.
        """
        self._label = label
        self._total = total
        self._stream = sys.stderr if stream is None else stream
        self._terminal = self._stream.isatty()
        self._every_s = _TERMINAL_EVERY_S if self._terminal else _LOG_EVERY_S
        self._began = self._shown = time.monotonic()
        self._drawn = False

    @property
    def elapsed_s(self) -> float:
        """Seconds since the start."""
        return time.monotonic() - self._began

    def show(self, done: int, note: str) -> None:
        """Shows the state, unless one was shown a moment ago.

        Args:
            done: Amount of the total done so far.
            note: Counts so far, after the bar.
        """
        now = time.monotonic()
        if now - self._shown < self._every_s:
            return
        self._shown = now
        text = self._text(done, note)
        if self._terminal:
            self._stream.write(f"\r\x1b[K{text}")
            self._drawn = True
        else:
            self._stream.write(f"{text}\n")
        self._stream.flush()

    def _text(self, done: int, note: str) -> str:
        if not self._total:
            return f"{self._label}: {note}"
        share = min(done / self._total, 1.0)
        left = ""
        if share > 0.02:
            left = f", {_duration(self.elapsed_s * (1 - share) / share)} left"
        if not self._terminal:
            return f"{self._label}: {share:.0%}, {note}{left}"
        filled = round(share * _BAR_CELLS)
        bar = "#" * filled + "." * (_BAR_CELLS - filled)
        return f"{self._label} [{bar}] {share:4.0%}  {note}{left}"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._drawn:
            self._stream.write("\r\x1b[K")
            self._stream.flush()


def _duration(seconds: float) -> str:
    return f"{seconds:.0f} s" if seconds < 100 else f"{seconds / 60:.0f} min"
