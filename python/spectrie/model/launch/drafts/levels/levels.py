"""Levels of a drafter on the device: recorded by numbers of rows, or launched kernel by kernel."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch

import spectrie_kernels
from spectrie.model.drafters.plan import Answers, DraftPlan
from spectrie.model.launch import capacity
from spectrie.model.launch.drafts.blocks import Block
from spectrie.model.launch.drafts.kinds.kind import Kind
from spectrie.model.launch.drafts.levels.fill import Fill
from spectrie.model.launch.drafts.levels.level import Level
from spectrie.model.launch.drafts.levels.mover import Mover
from spectrie.model.launch.drafts.levels.trunk import Trunk
from spectrie.model.launch.drafts.memory import ahead_rows, beam_rows, together
from spectrie.model.launch.drafts.naming.naming import Naming
from spectrie.model.launch.drafts.operators import DraftOperators
from spectrie.model.launch.drafts.results import LevelSizes
from spectrie.model.launch.drafts.words import LevelArrays, LevelShape, Sections
from spectrie.model.launch.ring import Ring
from spectrie.model.operators import TOP_K
from spectrie.model.operators.gpu import GpuOperators
from spectrie.model.step.device import Device, Recorded
from spectrie.model.step.scratch import HeldScratch, Scratch
from spectrie_kernels import StepArray

__all__ = ["Levels"]

_FIRST_WORDS = 1 << 17
_DEVICE_WORDS = 1 << 19
_NOTHING = Answers(
    np.zeros((0, TOP_K), np.int32), np.zeros((0, TOP_K), np.float32), np.zeros(0, np.float32)
)


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
        block: Block | None,
        mover: Mover,
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
            block: What a row of a first level becomes; None where it stays one row.
            mover: Of the drafter.
            max_rows: Draft rows of a step.
        """
        self._mover = mover
        self._ring = Ring(device, _FIRST_WORDS)
        self._naming = naming
        self._operators, self._target = operators, target
        self._device = device
        self._block = block
        self.together = min(together(block), max_rows)
        """Rows of a level that are computed together at most."""
        # What later levels continue; behind it what rows leave that stand for none.
        states = max_rows if block is None else max_rows * block.states
        dump = states + ahead_rows(block, max_rows) + beam_rows(block, max_rows)
        dtype = torch.float32 if block is None else operators.dtype
        shape = (dump + 1, kind.layers.hidden)
        self.trunk = Trunk(
            kind,
            naming,
            operators,
            features,
            torch.zeros(shape, dtype=dtype, device=operators.device),
        )
        """What they compute."""
        self._shape = LevelShape(
            operators.shape, operators.ahead_shape, block, dump, naming.weighs_single
        )
        self._words = torch.zeros(_DEVICE_WORDS, dtype=torch.int32, device=operators.device)
        # What was recorded uses it as long as it may be launched.
        self.scratch = HeldScratch(operators.device)
        """Where recorded levels leave their results."""
        self._results = torch.zeros(0, dtype=torch.int32, device=operators.device)
        self._recorded: dict[tuple[int, bool], _Level] = {}
        self._buckets: tuple[int, ...] = ()

    @property
    def heights(self) -> tuple[int, int]:
        """Heights of attention's tiles."""
        return self._operators.heights(1 if self._block is None else self._block.rows)

    @property
    def num_recorded(self) -> int:
        """How many were recorded."""
        return len(self._recorded)

    def record(self) -> None:
        """Records levels of numbers of rows; none may be in flight. Where that fails, none is recorded any more."""
        # What was recorded before writes to memory that is given up now.
        self._recorded, self._buckets = {}, ()
        buckets = capacity.buckets_up_to(self.together)
        scratch = self.scratch = HeldScratch(self._operators.device)
        self._words.zero_()
        keys = [(rows, is_first) for rows in reversed(buckets) for is_first in (True, False)]
        rooms = {(rows, is_first): self._room(rows, is_first=is_first) for rows, is_first in keys}
        arrays: dict[tuple[int, bool], LevelArrays] = {}
        for rows, is_first in keys:
            # Without blocks, first levels and later ones read the same arrays.
            shared = not is_first and self._block is None
            arrays[rows, is_first] = (
                arrays[rows, True] if shared else self._arrays(rooms[rows, is_first])
            )
        sizes = {
            key: self._naming.sizes(key[0], one.asked.at.shape[0]) for key, one in arrays.items()
        }
        self._results = torch.zeros(
            max(one.words for one in sizes.values()), dtype=torch.int32, device=self._words.device
        )
        work = {
            key: self._work(one, self._words, sizes[key], self._results, scratch, is_first=key[1])
            for key, one in arrays.items()
        }
        # The largest first: what they leave in the scratch has room for all others.
        for one in work.values():
            self._device.launch(one)
        self._device.wait()
        scratch.close()
        for key, one in work.items():
            recorded = self._device.record(one)
            self._recorded[key] = _Level(rooms[key], arrays[key], sizes[key], recorded)
        self._ring.reserve(_FIRST_WORDS, self._results.numel())
        self._buckets = buckets

    def answers(self, plan: DraftPlan, level: Level, fill: Fill) -> Answers:
        """Moves what a level moves, makes up what it lacks, and answers its rows; waits for that.

        Args:
            plan: The level.
            level: The same, checked.
            fill: Committed tokens whose keys it lacks.
        """
        moves_apart = fill.count > 0 or level.rows == 0
        if moves_apart:
            self._make_up(level, fill)
        found = [_NOTHING]
        for start in range(0, level.rows, self.together):
            rows = slice(start, min(start + self.together, level.rows))
            found.append(self._answer(plan, level, rows, with_moves=not moves_apart and not start))
        if moves_apart and not level.rows:
            self._device.wait()
        names = Answers.__slots__
        return Answers(*(np.concatenate([getattr(one, name) for one in found]) for name in names))

    def _make_up(self, level: Level, fill: Fill) -> None:
        """Launches a level's moves, then the keys of committed tokens, kernel by kernel."""
        operators, kind, device = self._operators, self.trunk.kind, self._words.device
        self._mover.launch(level.moves, level.feature_moves, with_model=True)
        pieces = list(fill.pieces(operators.tiles, device))

        @torch.inference_mode()
        def work() -> None:
            for piece in pieces:
                operators.begin_step(piece, Scratch(device))
                kind.entries(piece.tokens, None, operators)

        self._device.launch(work)

    def _answer(self, plan: DraftPlan, level: Level, rows: slice, *, with_moves: bool) -> Answers:
        """Answers some rows of a level."""
        indptr = plan.scored_indptr[rows.start : rows.stop + 1]
        tokens = plan.scored_token[indptr[0] : indptr[-1]]
        scored = self._naming.scored(indptr, tokens)
        sections = level.part(rows, scored, with_moves=with_moves)
        pinned = self._ring.take()
        pinned.words = self._ring.grown(pinned.words, sections.words)
        sections.write(pinned.words.numpy())
        count = rows.stop - rows.start
        sizes, results = self._launch(sections, count, pinned.words, is_first=level.is_first)
        # Scored tokens come last, and mostly fewer than there is room for.
        words = sizes.words - sizes.scored + len(scored.at)
        pinned.results = self._ring.grown(pinned.results, sizes.words)
        self._device.copy(pinned.results[:words], results[:words])
        pinned.done.record()
        pinned.done.wait()
        return self._naming.answers(pinned.results, sizes, count, scored, indptr)

    def _launch(
        self, sections: Sections, rows: int, pinned: torch.Tensor, *, is_first: bool
    ) -> tuple[LevelSizes, torch.Tensor]:
        """Launches rows of a level; returns where their results are.

        Args:
            sections: The rows, also in `pinned`.
            rows: How many, up to `together`.
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
        arrays = self._arrays(sections.own_room(self._room(rows, is_first=is_first)))
        sizes = self._naming.sizes(rows, arrays.asked.at.shape[0])
        results = torch.empty(sizes.words, dtype=torch.int32, device=words.device)
        scratch = Scratch(words.device)
        self._device.launch(self._work(arrays, words, sizes, results, scratch, is_first=is_first))
        return sizes, results

    def _room(self, rows: int, *, is_first: bool) -> tuple[StepArray, ...]:
        return self._shape.room(rows, is_first=is_first)

    def _arrays(self, room: tuple[StepArray, ...]) -> LevelArrays:
        return LevelArrays(room, self._shape, self.heights, self._operators.device)

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
        trunk, target = self.trunk, self._target
        naming, operators, features = trunk.naming, trunk.operators, trunk.features
        views = sizes.split(results)
        recalls = self._block is not None and not is_first

        @torch.inference_mode()
        def work() -> None:
            arrays.fill(words)
            step = arrays.step
            target.move(step.moves, step.num_moves)
            operators.begin_level(step, arrays.ahead, scratch)
            if features is not None:
                moves, count = arrays.feature_moves, arrays.num_feature_moves
                spectrie_kernels.move_rows(features, moves, count)
            if recalls:
                head_input = trunk.gathered(trunk.states, arrays.origins, scratch)
            else:
                head_input = trunk.compute(
                    step, arrays.origins, arrays.places, scratch, is_first=is_first
                )
            found = naming.answer(head_input, arrays.asked, operators, views)
            naming.score(head_input, found, arrays.asked, operators, views.scored)

        return work
