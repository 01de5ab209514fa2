"""Rank 0's decoder: tells the other ranks what it does."""

from __future__ import annotations

from typing import Protocol

from spectrie.errors import RankLost
from spectrie.model.parallel.group import Group
from spectrie.model.parallel.message import Command, Message
from spectrie.model.parallel.ranks import Ranks
from spectrie.model.plan import PlanArrays, StepResult

__all__ = ["LeadDecoder"]


class _Forward(Protocol):
    def forward(self, plan: PlanArrays, /) -> StepResult: ...
    def set_threads(self, threads: int, /) -> None: ...


class LeadDecoder:
    """A slice of a model whose other slices run the same plans on other ranks."""

    def __init__(self, decoder: _Forward, group: Group, ranks: Ranks) -> None:
        """Takes rank 0's slice, the group, and the processes of the others."""
        self._decoder = decoder
        self._group = group
        self._ranks = ranks
        self._lost = False

    def forward(self, plan: PlanArrays) -> StepResult:
        """As one rank's decoder gives it, from all of them.

        Raises:
            ValueError: The plan contradicts itself or leaves the cache or the vocabulary.
            RankLost: A rank is gone or silent; nothing can be computed any more.
        """
        try:
            self._group.send(Message(Command.STEP, plan=plan))
            return self._decoder.forward(plan)
        except RankLost as error:
            self._lost = True
            raise RankLost(f"{error}; {self._ranks.describe()}") from error

    def set_threads(self, threads: int) -> None:
        """Shares each rank's forward among this many threads."""
        self._group.send(Message(Command.SET_THREADS, threads))
        self._decoder.set_threads(threads)

    def check(self) -> None:
        """Looks whether all ranks run.

        Raises:
            RankLost: One has ended.
        """
        try:
            self._ranks.check()
        except RankLost:
            self._lost = True
            raise

    def close(self) -> None:
        """Ends the other ranks."""
        if not self._lost:
            try:
                self._group.send(Message(Command.STOP))
            except RankLost:
                self._lost = True
        self._ranks.close(at_once=self._lost)
        self._group.close()
