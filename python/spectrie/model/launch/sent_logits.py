"""Which sample rows of a step send their logits to the host."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

__all__ = ["SentLogits"]


@dataclass(frozen=True, slots=True)
class SentLogits:
    """Sample rows whose logits lie behind one another in memory of the host.

    Attributes:
        runs: Neighbouring rows, ascending: the first, and the one behind the last.
    """

    runs: tuple[tuple[int, int], ...] = ()

    @classmethod
    def of(cls, samples: NDArray[np.int32]) -> SentLogits:
        """Returns those of these indices of sample rows, which ascend."""
        if not len(samples):
            return cls()
        begins = np.flatnonzero(np.diff(samples, prepend=-2) != 1)
        firsts = samples[begins].tolist()
        lasts = samples[np.append(begins[1:], len(samples)) - 1].tolist()
        return cls(tuple((first, last + 1) for first, last in zip(firsts, lasts, strict=True)))

    @classmethod
    def all_of(cls, samples: int) -> SentLogits:
        """Returns so many rows, all of a step."""
        return cls(((0, samples),) if samples else ())

    @property
    def rows(self) -> int:
        """How many there are."""
        return sum(end - begin for begin, end in self.runs)

    def scattered(self, begin: int, end: int) -> NDArray[np.int32] | None:
        """Returns those of the sample rows from `begin` to before `end`, counted from `begin`; None where they
        are neighbours."""
        runs = [part for _, part in self.parts(begin, end)]
        if len(runs) < 2:
            return None
        return np.concatenate([np.arange(run.start, run.stop, dtype=np.int32) for run in runs])

    def parts(self, begin: int, end: int) -> Iterator[tuple[int, slice]]:
        """Gives those of the sample rows from `begin` to before `end`: how many sent rows lie before each
        run, and the run, counted from `begin`."""
        before = 0
        for first, behind in self.runs:
            low, high = max(first, begin), min(behind, end)
            if low < high:
                yield before + low - first, slice(low - begin, high - begin)
            before += behind - first
