"""Steps whose lists are longer than recorded work has room for."""

from __future__ import annotations

import logging
from collections import Counter
from dataclasses import dataclass

__all__ = ["Overflow", "Overflows"]

log = logging.getLogger("spectrie.worker")


@dataclass(frozen=True, slots=True)
class Overflow:
    """A list that is too long.

    Attributes:
        what: Its name.
        words: Its length, int32.
        room: What there is room for.
    """

    what: str
    words: int
    room: int


class Overflows:
    """Counts such steps and logs the first, second, fourth, eighth: they are right, but slow."""

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()
        """Steps by what was launched kernel by kernel for want of room."""

    def note(self, work: str, overflow: Overflow) -> None:
        """Notes that recorded `work` could not take a step."""
        self.counts[work] += 1
        count = self.counts[work]
        if count & (count - 1) == 0:
            log.warning(
                "a step has %s of %d words, recorded %s have room for %d: its kernels are launched one by "
                "one, which is slower (%d such steps so far)",
                overflow.what,
                overflow.words,
                work,
                overflow.room,
                count,
            )
