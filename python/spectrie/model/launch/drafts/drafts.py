"""A drafter beside a model on one GPU: what it keeps of steps, and what it answers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import cast

import numpy as np
import torch
from numpy.typing import NDArray

from spectrie.model.decoder.decoder import Decoder, Follower
from spectrie.model.drafters.plan import Answers, DraftPlan
from spectrie.model.launch.capacity import buckets_up_to
from spectrie.model.launch.drafts.entries import Entries
from spectrie.model.launch.drafts.keeper import EntryKeeper, FeaturePlan
from spectrie.model.launch.drafts.levels.ahead import Ahead, Left
from spectrie.model.launch.drafts.levels.demand import BeamsAt, Demand
from spectrie.model.launch.drafts.levels.fill import Fill
from spectrie.model.launch.drafts.levels.level import Bounds, Drafted, Level
from spectrie.model.launch.drafts.levels.levels import Levels
from spectrie.model.launch.drafts.levels.mover import (
    NO_MOVES,
    Mover,
    moved_features,
    moved_slots,
)
from spectrie.model.launch.drafts.levels.roots import StepWalks
from spectrie.model.launch.drafts.memory import MAX_DRAFT_ROWS, SEATS, scratch_rows
from spectrie.model.launch.drafts.operators import DraftOperators
from spectrie.model.launch.drafts.weights import DraftWeights
from spectrie.model.launch.drafts.words import Sections
from spectrie.model.operators.gpu import GpuOperators
from spectrie.model.plan import PlanArrays
from spectrie.model.step.device import Device, Span
from spectrie.model.step.input import StepInput
from spectrie.model.step.scratch import Scratch
from spectrie_kernels import RootPlaces

__all__ = ["Beside", "Drafts", "Kept"]

Int32 = NDArray[np.int32]

_STEP_WORDS = 1 << 15
_ATTENDING_WORDS = 1 << 18


@dataclass(frozen=True, slots=True)
class Beside:
    """What a drafter reads of a step, and the walks behind which a first level is computed: None for no level; and
    when a second one is launched behind that."""

    sections: Sections
    walks: StepWalks | None
    beams_at: BeamsAt


@dataclass(frozen=True, slots=True)
class Kept:
    """The same on its way to the device."""

    beside: Beside
    words: torch.Tensor

    @property
    def is_followed(self) -> bool:
        """Whether levels are computed behind the step."""
        return self.beside.walks is not None


class Drafts:
    """Entries that steps write, and levels. Calls must come from one thread at a time."""

    def __init__(
        self,
        weights: DraftWeights,
        decoder: Decoder,
        target: GpuOperators,
        device: Device,
        *,
        max_rows: int,
    ) -> None:
        """Allocates what a drafter needs beside its weights.

        Args:
            weights: Of the drafter.
            decoder: Of the model, which `follower` reads.
            target: Its operators.
            device: Theirs.
            max_rows: Rows of the largest step.
        """
        kind, settings = weights.kind, target.settings
        page_size, reads_features = settings.page_size, bool(kind.taps)
        self._bytes = weights.bytes
        self._target, self._device = target, device
        self.max_draft_rows = min(MAX_DRAFT_ROWS, max_rows)
        self._operators = DraftOperators(
            settings,
            weights.geometry,
            hidden=kind.layers.hidden,
            draft_pages=-(-scratch_rows(weights.block, self.max_draft_rows) // page_size),
            first_key=int(reads_features),
        )
        self._keeper: EntryKeeper | None = None
        if reads_features:
            self._keeper = EntryKeeper(
                kind,
                self._operators,
                target,
                store_rows=settings.num_pages + SEATS,
                max_rows=max(max_rows, buckets_up_to(max_rows)[-1]),
                width=decoder.hidden_size,
            )
        features = None if self._keeper is None else self._keeper.features
        self._mover = Mover(self._operators, target, device, features)
        self._levels = Levels(
            kind,
            weights.naming,
            self._operators,
            target,
            device,
            features=features,
            block=weights.block,
            mover=self._mover,
            max_rows=self.max_draft_rows,
        )
        self._bounds = Bounds(
            num_pages=settings.num_pages,
            max_context=settings.max_context,
            vocabulary=settings.config.vocabulary_size,
            store_rows=None if self._keeper is None else self._keeper.store_rows,
            max_rows=self.max_draft_rows,
            shape=self._operators.shape,
            heights=self._levels.heights,
            embedded=kind.table.shape[0],
            ahead=self._operators.ahead_shape,
            block=weights.block,
        )
        self._drafted = Drafted.none()
        self._ahead = self._new_ahead()
        self._demand = Demand()
        self._owed = NO_MOVES
        self.num_ahead = 0
        """Rows of first levels that were answered by what had been computed behind a step."""
        self.num_beams = 0
        """The same of second levels."""
        attends = self._keeper is not None and self._keeper.own_attention is not None
        words = _ATTENDING_WORDS if attends else _STEP_WORDS
        self._step_words = torch.zeros(words, dtype=torch.int32, device=target.device)
        self._entries: dict[int, Entries] = {}

    @property
    def follower(self) -> Follower | None:
        """What reads the model's layers; None for a drafter that reads no features."""
        return self._keeper

    @property
    def step_words(self) -> int:
        """Words of a step's entries for which there is room on the device."""
        return self._step_words.numel()

    @property
    def num_bytes(self) -> int:
        """Memory of the drafter's weights."""
        return self._bytes

    def _new_ahead(self) -> Ahead | None:
        """Returns what computes levels behind steps: rows that stay single, behind features."""
        keeper, bounds = self._keeper, self._bounds
        if keeper is None or bounds.block is not None:
            return None
        places = RootPlaces(
            first_feature=keeper.store_rows,
            first_slot=bounds.draft_slots + self.max_draft_rows,
            first_state=self.max_draft_rows,
            dump=self._levels.trunk.states.shape[0] - 1,
            max_context=bounds.max_context,
            embedded=bounds.embedded,
        )
        return Ahead(
            self._levels.trunk,
            self._device,
            places=places,
            section=keeper.walks_section,
            heights=self._levels.heights,
            max_rows=self._levels.together,
        )

    def record(
        self, report: Callable[[str], None], packed: torch.Tensor, drawn: torch.Tensor
    ) -> None:
        """Records most levels; see `Launcher.record`.

        Args:
            report: Receives a line.
            packed: int32, where recorded steps have the packed step.
            drawn: int32, where they leave tokens.
        """
        self._levels.record()
        number = self._levels.num_recorded
        if self._ahead is not None:
            left = Left(packed, self._step_words, drawn)
            number += self._ahead.record(left, self._levels.scratch)
        report(f"recorded {number} levels of drafts")

    # What a launcher asks, step by step.

    def beside(self, plan: PlanArrays) -> Beside | None:
        """Begins a step: returns what is read of it; None for a drafter that reads no features.

        Raises:
            ValueError: The plan names features that do not exist.
        """
        if self._keeper is None:
            return None
        walks, demand = None, self._demand
        # A head that sleeps costs nothing.
        if self._ahead is not None and not demand.is_asleep:
            walks = StepWalks(plan)
            is_wanted = demand.wants_roots(len(walks))
            if not is_wanted or not 0 < len(walks) <= self._ahead.max_rows:
                walks = None
        words = StepWalks.none() if walks is None else walks.words
        sections = self._keeper.sections(cast(FeaturePlan, plan), self._owed, words)
        return Beside(sections, walks, demand.beams_at(len(walks or ())))

    def holds(self, beside: Beside | None, rows: int) -> bool:
        """Returns whether recorded steps of so many rows have room for what is read of a step."""
        if self._keeper is None or beside is None:
            return True
        has_place = beside.sections.words <= self._step_words.numel()
        return has_place and beside.sections.fit(self._keeper.room(rows))

    def send(self, beside: Beside | None, memory: torch.Tensor, rows: int) -> Kept | None:
        """Launches the copy of what is read of a step, and ends the drafts of the step before.

        Args:
            beside: Of the step.
            memory: int32, pinned, of the step, with room for what is read of it.
            rows: Rows of the step.
        """
        self._drafted = Drafted.none()
        self._demand.forget()
        if self._ahead is not None:
            self._ahead.forget()
        if self._keeper is None or beside is None:
            return None
        self._owed = NO_MOVES
        self._keeper.num_rows = rows
        sections = beside.sections
        count = sections.words
        sections.write(memory.numpy())
        words = self._step_words[:count]
        if count > self._step_words.numel():
            words = torch.empty(count, dtype=torch.int32, device=self._step_words.device)
        self._device.copy(words, memory[:count])
        return Kept(beside, words)

    def follow(self, kept: Kept, packed: torch.Tensor, drawn: torch.Tensor, span: Span) -> None:
        """Launches the levels behind a step that was launched, as far as they are wanted. The step's results do not wait
        for them.

        Args:
            kept: Of the step.
            packed: int32, the packed step on the device.
            drawn: int32, its tokens there.
            span: The device's work behind the step, begun; ended behind these levels.
        """
        if kept.beside.walks is not None and self._ahead is not None:
            left = Left(packed, kept.words, drawn)
            self._ahead.launch(kept.beside.walks, left, kept.beside.beams_at, span)

    def begin(self, kept: Kept | None, step: StepInput, scratch: Scratch) -> None:
        """Launches what comes before the layers of a step that is not recorded."""
        if self._keeper is None or kept is None:
            self._operators.move(step.moves, step.num_moves)
            return
        rows = step.tokens.shape[0]
        entries = self._keeper.entries(kept.beside.sections.own_room(self._keeper.room(rows)))
        entries.fill(kept.words)
        self._keeper.begin(entries, step, scratch)

    def beginning(self, rows: int, scratch: Scratch) -> Callable[[StepInput], None]:
        """Returns what launches the same in recorded steps of up to `rows` rows."""
        keeper, operators, words = self._keeper, self._operators, self._step_words
        if keeper is None:
            return lambda step: operators.move(step.moves, step.num_moves)
        if rows not in self._entries:
            self._entries[rows] = keeper.entries(keeper.room(rows))
        entries, held = self._entries[rows], keeper

        def begin(step: StepInput) -> None:
            entries.fill(words)
            held.begin(entries, step, scratch)

        return begin

    def compact(self, step: StepInput, drawn: torch.Tensor) -> None:
        """Brings entries of accepted rows to their places; see `GpuOperators.compact`."""
        if self._keeper is not None:
            self._operators.compact(step, drawn)

    # What a runner asks.

    def draft(self, plan: DraftPlan) -> Answers:
        """Moves keys, values and features, makes up what the level says, then answers its rows.

        Raises:
            ValueError: The level contradicts itself; nothing was changed.
        """
        num_features = 0 if self._keeper is None else self._keeper.num_rows
        level = Level(plan, self._drafted, self._bounds, num_features, self._owed)
        fill = Fill(plan, self._bounds)
        known = None
        if self._ahead is not None and level.rows:
            known = self._ahead.answers(plan, level.feature_moves)
        if known is None:
            if self._ahead is not None:
                self._ahead.forget()
            answers = self._levels.answers(plan, level, fill)
            self._drafted, self._owed = level.drafted, NO_MOVES
        else:
            answers, places = known
            # No later level and no step begins without these.
            self._owed = level.feature_moves
            before = level.drafted.places[: -level.rows]
            self._drafted = replace(level.drafted, places=np.concatenate([before, places]))
            self.num_ahead += level.rows if level.is_first else 0
            self.num_beams += 0 if level.is_first else level.rows
        self._demand.note(plan, answers)
        return answers

    def moves_of(self, plan: DraftPlan) -> tuple[Int32, Int32]:
        """Returns what a level of another drafter moves here: slots, and rows of features, int32 [any, 2] each.

        Raises:
            ValueError: There is no such row.
        """
        keeper = self._keeper
        if keeper is None:
            return moved_slots(plan), NO_MOVES
        return moved_slots(plan), moved_features(plan, keeper.num_rows, keeper.store_rows)

    def move(self, slots: Int32, rows: Int32) -> None:
        """Moves what `moves_of` gave: keys and values at once, features before they are read."""
        if len(slots):
            if self._ahead is not None:
                # Keys that were not there when its levels were computed.
                self._ahead.forget()
            self._mover.launch(slots, NO_MOVES)
        self._owed = np.concatenate([self._owed, rows])

    def settle(self) -> None:
        """Moves the features whose moves wait, and reads nothing of the last step any more: steps without rows are
        computed before the next one, over its rows."""
        if len(self._owed):
            self._mover.launch(NO_MOVES, self._owed)
            self._owed = NO_MOVES
        if self._ahead is not None:
            self._ahead.forget()
        self._step_words.zero_()

    def upkeep_ms(self) -> float:
        """Returns the milliseconds that entries add to a recorded step of one row, by the device's clock; 0 for a
        drafter that reads no features. No step may be in flight."""
        if self._keeper is None:
            return 0.0
        return self._keeper.upkeep_ms(self._device, self._step_words, self._levels.heights)
