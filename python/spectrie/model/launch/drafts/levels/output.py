"""What levels answer that the device computes by itself: there, and in pinned memory of the host."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np
import torch
from numpy.typing import NDArray

import spectrie_kernels
from spectrie.model.drafters.plan import Answers, DraftPlan
from spectrie.model.launch.drafts.levels.trunk import Trunk
from spectrie.model.launch.drafts.naming.scored import Asked, Found
from spectrie.model.launch.drafts.results import LevelResults, LevelSizes
from spectrie.model.launch.drafts.words import MAX_SCORED, SCORED, Sections
from spectrie.model.step.device import Device, Recorded
from spectrie.model.step.scratch import Scratch
from spectrie_kernels import StepArray, StepArrays

__all__ = ["Head", "Launch", "Output", "Size"]

Int32 = NDArray[np.int32]
Int64 = NDArray[np.int64]

_FOUND_WORDS = 4


@dataclass(slots=True)
class Head:
    """What the head took when it was computed last, and what it found; nothing before."""

    x: torch.Tensor | None = None
    found: Found = ()


@dataclass(slots=True)
class Size:
    """Levels of up to `rows` rows.

    Attributes:
        sizes: Of their results, which stand behind what was found.
        computes: Launches a level, once it is recorded.
        scores: Launches what scores tokens of it, likewise.
        head: Of recorded levels.
    """

    rows: int
    sizes: LevelSizes
    computes: Recorded | None = None
    scores: Recorded | None = None
    head: Head = field(default_factory=Head)


@dataclass(frozen=True, slots=True)
class Launch:
    """A level that was launched, of `count` rows that stand for something; with a head of its own if it was not
    recorded."""

    size: Size
    count: int
    head: Head | None


class Output:
    """Owns the answers of the level launched last. Tokens that text names are scored behind it."""

    def __init__(
        self, trunk: Trunk, device: Device, tokens: torch.Tensor, buckets: Sequence[int]
    ) -> None:
        """Allocates memory for them.

        Args:
            trunk: The drafter.
            device: Its device.
            tokens: int32, those of the rows.
            buckets: Numbers of rows of levels, ascending.
        """
        self._trunk, self._device, self._tokens = trunk, device, tokens
        on = tokens.device
        self._scored = StepArrays.of(
            [StepArray(number, MAX_SCORED, fill=-1) for number in range(3)], on
        )
        self.sizes = [
            Size(rows, trunk.naming.sizes(rows, min(SCORED * rows, MAX_SCORED)))
            for rows in reversed(buckets)
        ]
        """Of each number of rows, the largest first: what they leave in a scratch has room for all others."""
        words = max(_FOUND_WORDS * one.rows + one.sizes.words for one in self.sizes)
        self._results = torch.zeros(words, dtype=torch.int32, device=on)
        self._score_words = torch.zeros(4 * MAX_SCORED, dtype=torch.int32, device=on)
        self._pinned, self._pinned_words = device.pinned(words), device.pinned(4 * MAX_SCORED)
        self._done = device.event()

    def found(self, size: Size) -> torch.Tensor:
        """Returns where a kernel says what rows it made: int32 [rows, 4], on the device."""
        return self._results[: _FOUND_WORDS * size.rows].view(-1, _FOUND_WORDS)

    def results(self, size: Size) -> LevelResults:
        """Returns where the head answers, on the device."""
        return size.sizes.split(self._results[_FOUND_WORDS * size.rows :])

    def asked(self, size: Size) -> Asked:
        """Returns what is answered, on the device."""
        at, row, token = (self._scored[which][: size.sizes.scored] for which in range(3))
        return Asked(self._tokens[: size.rows], at, row, token)

    def record(self, scratch: Scratch, computing: Callable[[Size], Callable[[], None]]) -> None:
        """Records levels of all sizes, which were launched before; none may be in flight.

        Args:
            scratch: As for `rehearse`.
            computing: Likewise.
        """
        for size in self.sizes:
            size.computes = self._device.record(computing(size))
            size.scores = self._device.record(self._scoring(size, size.head, scratch))

    def rehearse(self, scratch: Scratch, computing: Callable[[Size], Callable[[], None]]) -> None:
        """Launches what `record` will record.

        Args:
            scratch: Where levels leave their results.
            computing: Returns what computes levels of a size, with that size's head.
        """
        self._score_words.zero_()
        for size in self.sizes:
            self._device.launch(computing(size))
            self._device.launch(self._scoring(size, size.head, scratch))

    def send(self, size: Size) -> None:
        """Launches the copy of a level's answers to the host."""
        # Scored tokens come last, and none are asked yet.
        words = _FOUND_WORDS * size.rows + size.sizes.words - size.sizes.scored
        self._device.copy(self._pinned[:words], self._results[:words])
        self._done.record()

    def made(self, launch: Launch) -> Int32:
        """Waits for the answers; returns what the rows are that count, int32 [count, 4], until the next level."""
        self._done.wait()
        words = self._pinned[: _FOUND_WORDS * launch.size.rows].view(-1, _FOUND_WORDS)
        found: Int32 = words.numpy()[: launch.count]
        return found

    def takes(self, plan: DraftPlan, launch: Launch) -> bool:
        """Whether there is room to score a level's tokens."""
        return len(plan.scored_token) <= launch.size.sizes.scored

    def answers(
        self,
        plan: DraftPlan,
        launch: Launch,
        rows: Int64,
        launch_behind: Callable[[], None] | None = None,
    ) -> Answers:
        """Answers a level whose answers are there, and scores its tokens.

        Args:
            plan: The level.
            launch: What was computed.
            rows: int64, which of its rows each of the level's is.
            launch_behind: Launches what no answer is to wait for.
        """
        count, size, naming = launch.count, launch.size, self._trunk.naming
        indptr, tokens = plan.scored_indptr, plan.scored_token
        # Scored tokens in the order of the rows that were computed: where each stands in the plan.
        owner = np.repeat(rows, np.diff(indptr))
        by_row = np.argsort(owner, kind="stable")
        number = np.concatenate([[0], np.cumsum(np.bincount(owner, minlength=count))])
        own_indptr = number.astype(np.int32)
        scored = naming.scored(own_indptr, tokens[by_row])
        if len(tokens):
            self._score(launch, [scored.at, scored.row, scored.token])
        if launch_behind is not None:
            launch_behind()
        if len(tokens):
            self._done.wait()
        begin = _FOUND_WORDS * size.rows
        results = self._pinned[begin : begin + size.sizes.words]
        given = naming.answers(results, size.sizes, count, scored, own_indptr)
        scores = np.empty_like(given.scored)
        scores[by_row] = given.scored
        return Answers(given.ids[rows], given.probabilities[rows], scores)

    def _score(self, launch: Launch, arrays: list[Int32]) -> None:
        """Launches what scores tokens of a level's rows, and the copy of that to the host."""
        device, size, sections = self._device, launch.size, Sections(arrays)
        sections.write(self._pinned_words.numpy())
        device.copy(self._score_words[: sections.words], self._pinned_words[: sections.words])
        if launch.head is not None:
            device.launch(self._scoring(size, launch.head, Scratch(self._results.device)))
        elif size.scores is not None:
            size.scores.launch()
        begin = _FOUND_WORDS * size.rows + size.sizes.words - size.sizes.scored
        behind = begin + len(arrays[0])
        device.copy(self._pinned[begin:behind], self._results[begin:behind])
        self._done.record()

    def _scoring(self, size: Size, head: Head, scratch: Scratch) -> Callable[[], None]:
        """Returns what scores tokens of the level whose head that is. It refers to what it uses and not to this
        object: what holds it would then never be freed at once."""
        trunk, words, arrays = self._trunk, self._score_words, self._scored
        views, asked = self.results(size), self.asked(size)

        @torch.inference_mode()
        def work() -> None:
            assert head.x is not None
            spectrie_kernels.unpack(words, arrays)
            trunk.operators.scratch = scratch
            trunk.naming.score(head.x, head.found, asked, trunk.operators, views.scored)

        return work
