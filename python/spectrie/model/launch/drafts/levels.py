"""Levels of a drafter on the device: recorded by numbers of rows, or launched kernel by kernel."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch

import spectrie_kernels
from spectrie.model.launch import capacity
from spectrie.model.launch.drafts.kinds import Kind
from spectrie.model.launch.drafts.memory import MAX_TOGETHER
from spectrie.model.launch.drafts.naming.naming import Naming
from spectrie.model.launch.drafts.operators import DraftOperators
from spectrie.model.launch.drafts.results import LevelSizes
from spectrie.model.launch.drafts.words import LevelArrays, Sections, level_room
from spectrie.model.operators.gpu import GpuOperators
from spectrie.model.step.device import Device, Recorded
from spectrie.model.step.scratch import HeldScratch, Scratch
from spectrie_kernels import StepArray

__all__ = ["Levels"]

_DEVICE_WORDS = 1 << 19


@dataclass(frozen=True, slots=True)
class _Level:
    """A recorded level of some rows.

    Attributes:
        room: The arrays that it reads.
        arrays: Their memory, which must stay where it is.
        sizes: Of its results.
        work: Launches it.
    """

    room: tuple[StepArray, ...]
    arrays: LevelArrays
    sizes: LevelSizes
    work: Recorded


class Levels:
    """Computes levels. States of the step's draft rows stay on the device."""

    def __init__(
        self,
        kind: Kind,
        naming: Naming,
        operators: DraftOperators,
        target: GpuOperators,
        device: Device,
        *,
        features: torch.Tensor | None,
        max_rows: int,
    ) -> None:
        """Records nothing yet.

        Args:
            kind: The drafter.
            naming: Its head.
            operators: Of its layers.
            target: Those of the model, whose slots are moved too.
            device: Theirs.
            features: As the keeper has them; None where none are read.
            max_rows: Draft rows of a step.
        """
        self._kind, self._naming = kind, naming
        self._operators, self._target = operators, target
        self._device = device
        self._features = features
        self._dump = max_rows
        shape = (max_rows + 1, kind.layers.hidden)
        self._states = torch.zeros(shape, dtype=torch.float32, device=operators.device)
        self._words = torch.zeros(_DEVICE_WORDS, dtype=torch.int32, device=operators.device)
        # What was recorded uses it as long as it may be launched.
        self._scratch = HeldScratch(operators.device)
        self._results = torch.zeros(0, dtype=torch.int32, device=operators.device)
        self._recorded: dict[tuple[int, bool], _Level] = {}
        self._buckets: tuple[int, ...] = ()

    @property
    def heights(self) -> tuple[int, int]:
        """Heights of attention's tiles."""
        return self._operators.heights(1)

    @property
    def result_words(self) -> int:
        """int32 words of the results of recorded levels, at most."""
        return self._results.numel()

    @property
    def num_recorded(self) -> int:
        """How many were recorded."""
        return len(self._recorded)

    def record(self) -> None:
        """Records levels of numbers of rows; none may be in flight."""
        most = min(MAX_TOGETHER, self._dump)
        self._buckets = capacity.buckets_up_to(most)
        scratch = self._scratch = HeldScratch(self._operators.device)
        self._words.zero_()
        rooms = {rows: self._room(rows) for rows in reversed(self._buckets)}
        arrays = {rows: self._arrays(room) for rows, room in rooms.items()}
        sizes = {
            rows: self._naming.sizes(rows, one.scored_at.shape[0]) for rows, one in arrays.items()
        }
        self._results = torch.zeros(
            max(one.words for one in sizes.values()), dtype=torch.int32, device=self._words.device
        )
        kinds = (True, False)
        work = {
            (rows, is_first): self._work(
                arrays[rows], self._words, sizes[rows], self._results, scratch, is_first=is_first
            )
            for rows in rooms
            for is_first in kinds
        }
        # The largest first: what they leave in the scratch has room for all others.
        for one in work.values():
            self._device.launch(one)
        self._device.wait()
        scratch.close()
        for (rows, is_first), one in work.items():
            recorded = self._device.record(one)
            self._recorded[rows, is_first] = _Level(
                rooms[rows], arrays[rows], sizes[rows], recorded
            )

    def launch(
        self, sections: Sections, rows: int, pinned: torch.Tensor, *, is_first: bool
    ) -> tuple[LevelSizes, torch.Tensor]:
        """Launches rows of a level; returns where their results are.

        Args:
            sections: The rows, also in `pinned`.
            rows: How many, up to `MAX_TOGETHER`.
            pinned: int32, pinned.
            is_first: Whether they continue requests.
        """
        bucket = capacity.bucket_of(rows, self._buckets)
        count = sections.words
        has_place = count <= self._words.numel()
        found = None if bucket is None else self._recorded[bucket, is_first]
        words = self._words[:count]
        if not has_place:
            words = torch.empty(count, dtype=torch.int32, device=self._words.device)
        self._device.copy(words, pinned[:count])
        if found is not None and has_place and sections.fit(found.room):
            found.work.launch()
            return found.sizes, self._results
        arrays = self._arrays(sections.own_room(self._room(rows)))
        sizes = self._naming.sizes(rows, arrays.scored_at.shape[0])
        results = torch.empty(sizes.words, dtype=torch.int32, device=words.device)
        scratch = Scratch(words.device)
        self._device.launch(self._work(arrays, words, sizes, results, scratch, is_first=is_first))
        return sizes, results

    def _room(self, rows: int) -> tuple[StepArray, ...]:
        return level_room(
            rows,
            self._operators.shape,
            dump=self._dump,
            weighs_single=self._naming.weighs_single,
        )

    def _arrays(self, room: tuple[StepArray, ...]) -> LevelArrays:
        operators = self._operators
        return LevelArrays(room, operators.shape, self.heights, operators.device)

    def _work(
        self,
        arrays: LevelArrays,
        words: torch.Tensor,
        sizes: LevelSizes,
        results: torch.Tensor,
        scratch: Scratch,
        *,
        is_first: bool,
    ) -> Callable[[], None]:
        """Returns what computes a level from packed words. It refers to what it uses and not to these levels:
        what holds it would then never be freed at once."""
        kind, naming, operators, target = self._kind, self._naming, self._operators, self._target
        features, states = self._features, self._states
        views = sizes.split(results)

        @torch.inference_mode()
        def work() -> None:
            arrays.fill(words)
            target.move(arrays.step.moves, arrays.step.num_moves)
            operators.begin_step(arrays.step, scratch)
            before = None
            if features is not None:
                moves, count = arrays.feature_moves, arrays.num_feature_moves
                spectrie_kernels.move_rows(features, moves, count)
                source = features if is_first else states
                shape = (sizes.rows, source.shape[1])
                before = scratch.empty("before", shape, source.dtype)
                spectrie_kernels.gather_rows(source, arrays.origins, before)
            tokens = arrays.step.tokens
            x, stream = kind.enter(tokens, before, operators, is_state=not is_first)
            head_input = kind.layers.states(x, stream, operators)
            if features is not None:
                if kind.carries_normed:
                    stream.copy_(head_input)
                places = scratch.empty("places", (sizes.rows,), torch.int64)
                states.index_copy_(0, places.copy_(arrays.places), stream)
            naming.answer(head_input, arrays.scored_at, arrays.single, operators, views)

        return work
