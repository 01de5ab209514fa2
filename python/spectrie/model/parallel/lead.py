"""Rank 0's decoder: sends its commands to the other ranks."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from spectrie.errors import RankLost
from spectrie.model.parallel.group import Group
from spectrie.model.parallel.message import Command, Message
from spectrie.model.parallel.ranks import Ranks
from spectrie.model.plan import Int32, PlanArrays, RankForward, StepPlan, StepResult

__all__ = ["LeadDecoder"]


class LeadDecoder:
    """A slice of a model whose other slices run the same plans on other ranks."""

    def __init__(self, decoder: RankForward, group: Group, ranks: Ranks) -> None:
        """Wraps rank 0's slice, the group, and the processes of the other ranks."""
        self._decoder = decoder
        self._group = group
        self._ranks = ranks
        self._lost = False
        group.watch(ranks.check)

    def forward(self, plan: PlanArrays) -> StepResult:
        """Runs the plan on all ranks; returns what a single rank would.

        Raises:
            ValueError: The plan is inconsistent, or exceeds the cache or the vocabulary.
            RankLost: A rank ended or does not respond; no further forward is possible.
        """
        with self._losses():
            self._group.send(Message(Command.STEP, plan=plan))
            read = self._decoder.begin(plan)
            # Before anything is read: that would wait for ever behind a rank that is gone.
            self._group.wait(self._ranks.check)
            return read()

    def follow(self, sources: Int32, destinations: Int32) -> None:
        """Has the other ranks copy slots that rank 0 has copied for its drafters: the forward that comes next does
        not repeat it.

        Args:
            sources: int32 [M], slots.
            destinations: int32 [M], slots.

        Raises:
            RankLost: A rank ended or does not respond; no further forward is possible.
        """
        if len(sources):
            moves = StepPlan.of_moves(sources, destinations)
            with self._losses():
                self._group.send(Message(Command.STEP, plan=moves))

    @contextmanager
    def _losses(self) -> Iterator[None]:
        try:
            yield
        except RankLost as error:
            self._lost = True
            raise RankLost(f"{error}; {self._ranks.describe()}") from error

    def set_threads(self, threads: int) -> None:
        """Sets the number of threads of each rank."""
        self._group.send(Message(Command.SET_THREADS, threads))
        self._decoder.set_threads(threads)

    def check(self) -> None:
        """Checks that all ranks run.

        Raises:
            RankLost: A rank ended.
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
        self._group.close(lost=self._lost)
