"""First levels that are computed behind a step, before the host knows what it drew, and second ones behind these."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
import torch
from numpy.typing import NDArray

import spectrie_kernels
from spectrie._core import PackedSection
from spectrie.model.drafters.plan import Answers, DraftPlan
from spectrie.model.launch import capacity
from spectrie.model.launch.drafts.levels.beams import Beams, Roots
from spectrie.model.launch.drafts.levels.demand import BeamsAt
from spectrie.model.launch.drafts.levels.output import Head, Launch, Output, Size
from spectrie.model.launch.drafts.levels.roots import StepWalks
from spectrie.model.launch.drafts.levels.rows import RowRoom
from spectrie.model.launch.drafts.levels.trunk import Trunk
from spectrie.model.step.device import Device, Span
from spectrie.model.step.scratch import Scratch
from spectrie_kernels import (
    ROOT_WORDS,
    RootAnswers,
    RootPlaces,
    RootSections,
    StepArray,
    StepArrays,
)

__all__ = ["Ahead", "Left"]

Int32 = NDArray[np.int32]
Int64 = NDArray[np.int64]

_SECTIONS = RootSections(PackedSection.ROW_TOKEN, PackedSection.ROW_PARENT, PackedSection.PAGE_IDS)


@dataclass(frozen=True, slots=True)
class Left:
    """What a step leaves on the device, int32.

    Attributes:
        packed: The packed step.
        beside: What the drafter reads of it, the walks among that.
        drawn: The token of each sampled row, and anything behind them.
    """

    packed: torch.Tensor
    beside: torch.Tensor
    drawn: torch.Tensor

    def is_at(self, other: Left) -> bool:
        """Whether both lie in the same memory."""
        pairs = zip(self._tensors, other._tensors, strict=True)
        return all(one.data_ptr() == two.data_ptr() for one, two in pairs)

    @property
    def _tensors(self) -> tuple[torch.Tensor, ...]:
        return self.packed, self.beside, self.drawn


@dataclass(frozen=True, slots=True)
class _Answered:
    """A first level that was answered: behind which walk each of its rows stands, and the position of each walk's."""

    walks: StepWalks
    of_rows: Int64
    positions: Int64


class Ahead:
    """Computes a row for each walk of a step: that of the last token drawn. Its answers come to the host by
    themselves, behind the step's results; its states stay where later levels find them."""

    def __init__(
        self,
        trunk: Trunk,
        device: Device,
        *,
        places: RootPlaces,
        section: int,
        heights: tuple[int, int],
        max_rows: int,
    ) -> None:
        """Records nothing yet.

        Args:
            trunk: The drafter, which reads features.
            device: Its device.
            places: Where things lie; what second levels leave stands behind what as many rows leave as the largest
                first level has.
            section: Number of the walks' section beside a step.
            heights: Of attention's tiles.
            max_rows: Walks of a step at most.
        """
        self._trunk, self._device, self._places = trunk, device, places
        on = trunk.operators.device
        self._buckets = capacity.buckets_up_to(max_rows)
        rows = self._buckets[-1]
        self.max_rows = min(max_rows, rows)
        """Walks of a step at most."""
        self._all_walks = StepArrays.of([StepArray(section, rows, ROOT_WORDS, keeps=True)], on)
        paths = (places.first_slot + np.arange(rows)).reshape(-1, 1)
        self._room = RowRoom(trunk.operators, paths, heights)
        self._output = Output(trunk, device, self._room.tokens, self._buckets)
        beams = replace(
            places, first_slot=places.first_slot + rows, first_state=places.first_state + rows
        )
        self._beams = Beams(
            trunk, device, roots=places, places=beams, heights=heights, max_rows=max_rows
        )
        self._span: Span | None = None
        self._fixed: Left | None = None
        self._walks: StepWalks | None = None
        self._launched: Launch | None = None
        self._launch_beams: Callable[[], None] | None = None
        self._answered: _Answered | None = None

    def record(self, left: Left, scratch: Scratch) -> int:
        """Records levels behind steps; none may be in flight. Returns how many.

        Args:
            left: Where most steps leave what levels read.
            scratch: Of recorded first levels, of the same sizes.
        """

        def computing(size: Size) -> Callable[[], None]:
            return self._computing(size, size.head, left, scratch)

        # Where this fails, none is recorded any more.
        self._fixed = None
        self._output.rehearse(scratch, computing)
        self._device.wait()
        self._output.record(scratch, computing)
        sizes = {size.rows: size for size in self._output.sizes}
        number = self._beams.record(lambda rows: self._roots(sizes[rows], left))
        self._fixed = left
        return len(sizes) + number

    def launch(self, walks: StepWalks, left: Left, beams_at: BeamsAt, span: Span) -> None:
        """Launches a level behind the step launched last.

        Args:
            walks: Of the step, one or more and up to `max_rows`.
            left: What the step leaves.
            beams_at: When a second level is launched too.
            span: The device's work on all levels that are launched behind the step, begun: ended behind this one, and
                again behind a second one that is launched later.
        """
        device, count = self._device, len(walks)
        bucket = capacity.bucket_of(count, self._buckets)
        size = next(one for one in self._output.sizes if one.rows == bucket)
        self._span = span
        head = None
        is_recorded = self._fixed is not None and left.is_at(self._fixed)
        if is_recorded and size.computes is not None:
            size.computes.launch()
        else:
            head = Head()
            device.launch(self._computing(size, head, left, Scratch(self._room.tokens.device)))
        # The host has these before the second level is over.
        self._output.send(size)
        self._walks, self._launched = walks, Launch(size, count, head)
        if beams_at is not BeamsAt.NEVER and self._beams.has_room(size.rows):
            roots = self._roots(size, left)
            launch = partial(self._beams.launch, roots, count, is_recorded=is_recorded)
            if beams_at is BeamsAt.STEP:
                launch()
            else:
                self._launch_beams = launch
        span.end()

    def forget(self) -> None:
        """Gives up the answers of the levels launched last."""
        self._launched = self._answered = self._launch_beams = None
        self._beams.forget()

    def answers(self, plan: DraftPlan, moves: Int32) -> tuple[Answers, Int64] | None:
        """Answers a level by one that was launched behind the last step, once; None where none of these is it.

        Args:
            plan: The level, checked, of one row or more.
            moves: int32 [any, 2], rows of features that are copied before it; those of the step stand behind the store.

        Returns:
            The answers, and the place of each row among draft slots and states.
        """
        if plan.level == 1:
            return self._first(plan, moves)
        answered, self._answered = self._answered, None
        if answered is None or plan.row_index != len(answered.of_rows):
            return None
        walks = answered.of_rows[plan.row_parent]
        if not answered.walks.are_behind(plan, walks, answered.positions):
            return None
        return self._beams.answers(plan, walks)

    def _first(self, plan: DraftPlan, moves: Int32) -> tuple[Answers, Int64] | None:
        """Answers a first level."""
        launched, self._launched, self._answered = self._launched, None, None
        if launched is None or self._walks is None or not self._output.takes(plan, launched):
            return None
        found = self._output.made(launched)
        rows = self._walks.walks_of(plan, found, moves, self._places.first_feature)
        if rows is None:
            return None
        self._answered = _Answered(self._walks, rows, found[:, 1].astype(np.int64))
        answers = self._output.answers(plan, launched, rows, self._go_on)
        return answers, self._places.first_state + rows

    def _go_on(self) -> None:
        """Launches a second level, if one was to be launched when the first is asked."""
        launch, self._launch_beams = self._launch_beams, None
        if launch is not None and self._span is not None:
            launch()
            # The next step begins no earlier.
            self._span.end()

    # Work refers to what it uses and not to this object: what holds it would then never be freed at once.

    def _roots(self, size: Size, left: Left) -> Roots:
        """Returns a level on the device, as second levels continue it."""
        views = self._output.results(size)
        return Roots(
            self._room.first(size.rows, self._output.found(size), left.packed).rows,
            RootAnswers(views.ids, views.weights, self._trunk.naming.names),
            self._all_walks.count(0),
            left.packed,
        )

    def _computing(
        self, size: Size, head: Head, left: Left, scratch: Scratch
    ) -> Callable[[], None]:
        """Returns what computes a level."""
        trunk, places = self._trunk, self._places
        all_walks, walks = self._all_walks, self._all_walks[0][: size.rows]
        count = all_walks.count(0)
        made = self._room.first(size.rows, self._output.found(size), left.packed)
        views, asked = self._output.results(size), self._output.asked(size)

        @torch.inference_mode()
        def compute() -> None:
            spectrie_kernels.unpack(left.beside, all_walks)
            rows = spectrie_kernels.draft_roots(
                left.packed, _SECTIONS, walks, count, left.drawn, places, made.rows
            )
            made.cut(count)
            trunk.operators.begin_level(made.step, None, scratch)
            x = trunk.compute(made.step, rows.origins, rows.places, scratch, is_first=True)
            head.x, head.found = x, trunk.naming.answer(x, asked, trunk.operators, views)

        return compute
