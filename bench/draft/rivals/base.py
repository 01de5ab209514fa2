"""What a rival must do to be replayed."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from bench.draft.trace import Request

__all__ = ["NO_DRAFT", "Absent", "Draft", "Rival", "Setup", "Tokens", "chain"]

Tokens = npt.NDArray[np.int32]
Draft = tuple[list[int], list[int]]
"""Tokens, and for each the index of its parent, -1 for the root; parents come first."""
NO_DRAFT: Draft = ([], [])


class Absent(Exception):
    """The rival cannot be had on this machine; the message says why."""


@dataclass(frozen=True, slots=True)
class Setup:
    """What one replay asks of a rival.

    Attributes:
        nodes: Maximum number of draft tokens per step.
        online: Whether finished requests are inserted for later ones; else each starts from what `insert`
            gave alone.
    """

    nodes: int = 16
    online: bool = False


class Rival(ABC):
    """One drafter with its settings, for one replay."""

    @abstractmethod
    def insert(self, documents: list[list[int]]) -> None:
        """Takes a corpus, before the first request.

        Raises:
            Absent: It has no memory beyond the request.
        """

    @abstractmethod
    def start(self, request: Request) -> None:
        """A request begins; only its prompt (and top-k of it) may be read now."""

    @abstractmethod
    def draft(self, context: Tokens) -> Draft:
        """What may follow `context`, the prompt and the output so far: int32 [length]."""

    @abstractmethod
    def accept(self, context: Tokens, count: int) -> None:
        """The last `count` tokens of `context` were emitted."""

    @abstractmethod
    def finish(self) -> None:
        """The request is over."""

    def empty_call(self) -> None:  # noqa: B027 -- a rival in Python has no binding to time
        """Calls its binding for nothing, so that the cost of calling shows."""


def chain(tokens: list[int]) -> Draft:
    """Tokens one after the other, as a tree."""
    return tokens, list(range(-1, len(tokens) - 1))
