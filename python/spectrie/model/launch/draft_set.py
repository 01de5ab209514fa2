"""All drafters beside a model on one GPU."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch

from spectrie.model.decoder.decoder import Decoder, Follower
from spectrie.model.drafters.plan import Answers, DraftPlan
from spectrie.model.launch.drafts.drafts import Beside, Drafts, Kept
from spectrie.model.launch.ring import Pinned, Ring
from spectrie.model.plan import PlanArrays
from spectrie.model.step.device import Device, Span
from spectrie.model.step.input import StepInput
from spectrie.model.step.scratch import Scratch

__all__ = ["DraftSet"]


class DraftSet:
    """Drafters by number. Each reads and keeps its own of every step; what a level of one moves, moves for all."""

    def __init__(self, decoder: Decoder, device: Device) -> None:
        """Begins without any.

        Args:
            decoder: Of the model; what its layers give is followed from the first drafter on.
            device: Its device.
        """
        self._decoder = decoder
        self._all: dict[int, Drafts] = {}
        self._num_added = 0
        # That of a step is read when the next one is over.
        self._spans = [device.span(), device.span()]

    def __getitem__(self, number: int) -> Drafts:
        """The drafter of a number.

        Raises:
            KeyError: There is none.
        """
        return self._all[number]

    @property
    def numbers(self) -> list[int]:
        """Their numbers, in the order in which they were added."""
        return list(self._all)

    def add(self, drafts: Drafts) -> None:
        """Puts one behind those that are there. It takes the next number, from 0 on."""
        self._all[self._num_added] = drafts
        self._num_added += 1
        self._follow()

    def remove(self, number: int) -> None:
        """Takes one away; the others keep their numbers."""
        self._all.pop(number, None)
        self._follow()

    def _follow(self) -> None:
        followers = [one.follower for one in self._all.values() if one.follower is not None]
        if len(followers) > 1:
            self._decoder.follow(_Followers(followers))
        else:
            self._decoder.follow(next(iter(followers), None))

    def settle(self) -> None:
        """Does what the next step was to do for the last one: steps without rows are computed before it."""
        for drafts in self._all.values():
            drafts.settle()

    def record(
        self, report: Callable[[str], None], packed: torch.Tensor, drawn: torch.Tensor
    ) -> list[int]:
        """Records most levels of each; returns the words of a step that each has room for. See `Drafts.record`."""
        for drafts in self._all.values():
            drafts.record(report, packed, drawn)
        return [drafts.step_words for drafts in self._all.values()]

    # What a launcher asks, step by step.

    def beside(self, plan: PlanArrays) -> list[Beside | None]:
        """Begins a step: returns what each reads of it.

        Raises:
            ValueError: The plan names features that do not exist.
        """
        return [drafts.beside(plan) for drafts in self._all.values()]

    def holds(self, beside: Sequence[Beside | None], rows: int) -> bool:
        """Returns whether recorded steps of so many rows have room for what is read of a step."""
        pairs = zip(self._all.values(), beside, strict=True)
        return all(drafts.holds(one, rows) for drafts, one in pairs)

    def send(
        self, beside: Sequence[Beside | None], pinned: Pinned, ring: Ring, rows: int
    ) -> list[Kept | None]:
        """Launches the copies of what is read of a step, and ends the drafts of the step before.

        Args:
            beside: Of the step.
            pinned: Memory of the step.
            ring: Of that.
            rows: Rows of the step.
        """
        kept = []
        for index, (drafts, one) in enumerate(zip(self._all.values(), beside, strict=True)):
            memory = ring.beside(pinned, index, 0 if one is None else one.sections.words)
            kept.append(drafts.send(one, memory, rows))
        return kept

    def begin(self, kept: Sequence[Kept | None], step: StepInput, scratch: Scratch) -> None:
        """Launches what comes before the layers of a step that is not recorded."""
        for drafts, one in zip(self._all.values(), kept, strict=True):
            drafts.begin(one, step, scratch)

    def beginning(self, rows: int, scratch: Scratch) -> Callable[[StepInput], None]:
        """Returns what launches the same in recorded steps of up to `rows` rows."""
        each = [drafts.beginning(rows, scratch) for drafts in self._all.values()]

        def begin(step: StepInput) -> None:
            for one in each:
                one(step)

        return begin

    def compact(self, step: StepInput, drawn: torch.Tensor) -> None:
        """Brings entries of accepted rows to their places; see `GpuOperators.compact`."""
        for drafts in self._all.values():
            drafts.compact(step, drawn)

    def follow(
        self, kept: Sequence[Kept | None], packed: torch.Tensor, drawn: torch.Tensor
    ) -> Span | None:
        """Launches the levels behind a step that was launched, as far as they are wanted; returns their stretch of the
        device's work, None where there are none. The step's results do not wait for them. Arguments as for
        `Drafts.follow`."""
        pairs = zip(self._all.values(), kept, strict=True)
        wanting = [(drafts, one) for drafts, one in pairs if one is not None and one.is_followed]
        if not wanting:
            return None
        self._spans.reverse()
        span = self._spans[0]
        span.begin()
        for drafts, one in wanting:
            drafts.follow(one, packed, drawn, span)
        return span

    # What a runner asks.

    def draft(self, plan: DraftPlan) -> Answers:
        """Answers a level of the drafter that it names; see `Drafts.draft`.

        Raises:
            ValueError: There is none, or the level contradicts itself; nothing was changed.
        """
        asked = self._all.get(plan.drafter)
        if asked is None:
            raise ValueError(f"there is no drafter of number {plan.drafter}")
        others = [(one, one.moves_of(plan)) for one in self._all.values() if one is not asked]
        answers = asked.draft(plan)
        for one, (slots, rows) in others:
            one.move(slots, rows)
        return answers


class _Followers:
    """Several that read what the layers of a decoder give."""

    def __init__(self, each: Sequence[Follower]) -> None:
        self._each = each

    def tap(self, layer: int, stream: torch.Tensor) -> None:
        for one in self._each:
            one.tap(layer, stream)

    def finish(self, normed: torch.Tensor) -> None:
        for one in self._each:
            one.finish(normed)
