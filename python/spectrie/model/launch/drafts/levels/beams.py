"""Second levels that are computed behind first ones, before the host knows these: of the head's own beams."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

import spectrie_kernels
from spectrie.model.drafters.plan import Answers, DraftPlan
from spectrie.model.launch.drafts.levels.output import Head, Launch, Output, Size
from spectrie.model.launch.drafts.levels.rows import RowRoom
from spectrie.model.launch.drafts.levels.trunk import Trunk
from spectrie.model.launch.drafts.memory import BEAMS, beam_buckets
from spectrie.model.step.device import Device
from spectrie.model.step.scratch import HeldScratch, Scratch
from spectrie_kernels import RootAnswers, RootPlaces, RootRows

__all__ = ["Beams", "Roots"]

Int64 = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Roots:
    """A first level on the device.

    Attributes:
        rows: Its rows.
        answers: The head's.
        count: int32 [1], how many rows count.
        packed: int32, the packed step.
    """

    rows: RootRows
    answers: RootAnswers
    count: torch.Tensor
    packed: torch.Tensor


class Beams:
    """Computes a row for each of a root's likeliest tokens. Their answers come to the host by themselves, behind those
    of the roots; their states stay where later levels find them."""

    def __init__(
        self,
        trunk: Trunk,
        device: Device,
        *,
        roots: RootPlaces,
        places: RootPlaces,
        heights: tuple[int, int],
        max_rows: int,
    ) -> None:
        """Records nothing yet.

        Args:
            trunk: The drafter.
            device: Its device.
            roots: Where roots lie.
            places: Where beams do.
            heights: Of attention's tiles.
            max_rows: Roots at most, where they have no beams too.
        """
        self._trunk, self._device, self._places = trunk, device, places
        on = trunk.operators.device
        self._buckets = beam_buckets(max_rows)
        number = np.arange(BEAMS * self._buckets[-1])
        paths = np.stack([roots.first_slot + number // BEAMS, places.first_slot + number], axis=1)
        self._room = RowRoom(trunk.operators, paths, heights)
        self._number = torch.zeros(1, dtype=torch.int32, device=on)
        rows = [BEAMS * bucket for bucket in self._buckets]
        self._output = Output(trunk, device, self._room.tokens, rows)
        self._scratch: HeldScratch | None = None
        self._launched: Launch | None = None

    def has_room(self, roots: int) -> bool:
        """Whether so many roots, of a recorded size, have beams."""
        return roots in self._buckets

    def record(self, roots: Callable[[int], Roots]) -> int:
        """Records levels behind first ones, which are recorded; none may be in flight. Returns how many.

        Args:
            roots: Returns the first level of a size.
        """
        # Of their own: what first levels left is still read when tokens of them are scored. Held: what is recorded
        # knows addresses alone.
        scratch = self._scratch = HeldScratch(self._trunk.operators.device)

        def computing(size: Size) -> Callable[[], None]:
            return self._computing(size, size.head, roots(size.rows // BEAMS), scratch)

        self._output.rehearse(scratch, computing)
        self._device.wait()
        scratch.close()
        self._output.record(scratch, computing)
        return len(self._output.sizes)

    def launch(self, roots: Roots, count: int, *, is_recorded: bool) -> None:
        """Launches a level, and the copy of its answers, behind the first level launched last.

        Args:
            roots: That one.
            count: Its rows that stand for a root.
            is_recorded: Whether it was recorded.
        """
        rows = BEAMS * roots.rows.tokens.shape[0]
        size = next(one for one in self._output.sizes if one.rows == rows)
        head = None
        if is_recorded and size.computes is not None:
            size.computes.launch()
        else:
            head = Head()
            scratch = Scratch(self._trunk.operators.device)
            self._device.launch(self._computing(size, head, roots, scratch))
        self._output.send(size)
        self._launched = Launch(size, BEAMS * count, head)

    def forget(self) -> None:
        """Gives up the answers of the level launched last."""
        self._launched = None

    def answers(self, plan: DraftPlan, walks: Int64) -> tuple[Answers, Int64] | None:
        """Answers a second level by the one launched last, once; None where one of its tokens is no beam.

        Args:
            plan: The level.
            walks: int64 [rows], number of the root that each row continues.

        Returns:
            The answers, and the place of each row among draft slots and states.
        """
        launched, self._launched = self._launched, None
        if launched is None or not self._output.takes(plan, launched):
            return None
        beams = self._output.made(launched)[:, 0].reshape(-1, BEAMS)
        is_token = beams[walks] == plan.row_token[:, None]
        if not is_token.any(axis=1).all():
            return None
        rows: Int64 = BEAMS * walks + is_token.argmax(axis=1)
        return self._output.answers(plan, launched, rows), self._places.first_state + rows

    def _computing(
        self, size: Size, head: Head, roots: Roots, scratch: Scratch
    ) -> Callable[[], None]:
        """Returns what computes a level; as `Ahead`'s, it does not refer to this object."""
        trunk, places, number = self._trunk, self._places, self._number
        made = self._room.first(size.rows, self._output.found(size), roots.packed)
        views, asked = self._output.results(size), self._output.asked(size)

        @torch.inference_mode()
        def compute() -> None:
            rows = spectrie_kernels.draft_beams(
                roots.rows, roots.answers, roots.count, places, made.rows, number
            )
            made.cut(number)
            trunk.operators.begin_level(made.step, None, scratch)
            x = trunk.compute(made.step, rows.origins, rows.places, scratch, is_first=False)
            head.x, head.found = x, trunk.naming.answer(x, asked, trunk.operators, views)

        return compute
