"""A drafter beside a model on one GPU: what it keeps of steps, and what it answers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import cast

import numpy as np
import torch
from numpy.typing import NDArray

import spectrie_kernels
from spectrie.model.decoder.decoder import Decoder
from spectrie.model.drafters.plan import Answers, DraftPlan
from spectrie.model.launch.capacity import buckets_up_to
from spectrie.model.launch.drafts.entries import Entries
from spectrie.model.launch.drafts.fill import Fill
from spectrie.model.launch.drafts.keeper import EntryKeeper, FeaturePlan
from spectrie.model.launch.drafts.levels.ahead import Ahead, Left
from spectrie.model.launch.drafts.levels.demand import BeamsAt, Demand
from spectrie.model.launch.drafts.levels.level import Bounds, Drafted, Level
from spectrie.model.launch.drafts.levels.levels import Levels
from spectrie.model.launch.drafts.levels.roots import StepWalks
from spectrie.model.launch.drafts.memory import MAX_DRAFT_ROWS, SEATS, scratch_rows
from spectrie.model.launch.drafts.operators import DraftOperators
from spectrie.model.launch.drafts.weights import DraftWeights
from spectrie.model.launch.drafts.words import Sections
from spectrie.model.launch.ring import Pinned, Ring
from spectrie.model.operators import TOP_K
from spectrie.model.operators.gpu import GpuOperators
from spectrie.model.plan import PlanArrays
from spectrie.model.step.device import Device, Span
from spectrie.model.step.input import StepInput
from spectrie.model.step.scratch import Scratch
from spectrie_kernels import RootPlaces

__all__ = ["Beside", "Drafts", "Kept"]

Int32 = NDArray[np.int32]

_FIRST_WORDS = 1 << 17
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
            decoder: Of the model, which is followed from now on.
            target: Its operators.
            device: Theirs.
            max_rows: Rows of the largest step.
        """
        kind, settings = weights.kind, target.settings
        page_size, reads_features = settings.page_size, bool(kind.taps)
        self._bytes = weights.bytes
        self._naming = weights.naming
        self._target, self._device = target, device
        self.max_draft_rows = min(MAX_DRAFT_ROWS, max_rows)
        self._operators = DraftOperators(
            settings,
            weights.geometry,
            hidden=kind.layers.hidden,
            draft_pages=-(-scratch_rows(weights.block, self.max_draft_rows) // page_size),
            first_key=int(reads_features),
        )
        self._kind = kind
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
        decoder.follow(self._keeper)
        self._levels = Levels(
            kind,
            weights.naming,
            self._operators,
            target,
            device,
            features=None if self._keeper is None else self._keeper.features,
            block=weights.block,
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
        self._owed = _NO_MOVES
        self.num_ahead = 0
        """Rows of first levels that were answered by what had been computed behind a step."""
        self.num_beams = 0
        """The same of second levels."""
        self._ring = Ring(device, _FIRST_WORDS)
        attends = self._keeper is not None and self._keeper.own_attention is not None
        words = _ATTENDING_WORDS if attends else _STEP_WORDS
        self._step_words = torch.zeros(words, dtype=torch.int32, device=target.device)
        self._entries: dict[int, Entries] = {}

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
        self._step_words.zero_()
        self._levels.record()
        self._ring.reserve(_FIRST_WORDS, self._levels.result_words)
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

    def send(self, beside: Beside | None, pinned: Pinned, rows: int) -> Kept | None:
        """Launches the copy of what is read of a step, and ends the drafts of the step before.

        Args:
            beside: Of the step.
            pinned: Memory of the step.
            rows: Its rows.
        """
        self._drafted = Drafted.none()
        self._demand.forget()
        if self._ahead is not None:
            self._ahead.forget()
        if self._keeper is None or beside is None:
            return None
        self._owed = _NO_MOVES
        self._keeper.num_rows = rows
        sections = beside.sections
        count = sections.words
        pinned.beside = self._ring.grown(pinned.beside, count)
        sections.write(pinned.beside.numpy())
        words = self._step_words[:count]
        if count > self._step_words.numel():
            words = torch.empty(count, dtype=torch.int32, device=self._step_words.device)
        self._device.copy(words, pinned.beside[:count])
        return Kept(beside, words)

    def follow(self, kept: Kept | None, packed: torch.Tensor, drawn: torch.Tensor) -> Span | None:
        """Launches the levels behind a step that was launched, as far as they are wanted; returns their stretch of the
        device's work. The step's results do not wait for them.

        Args:
            kept: Of the step.
            packed: int32, the packed step on the device.
            drawn: int32, its tokens there.
        """
        if kept is None or kept.beside.walks is None or self._ahead is None:
            return None
        left = Left(packed, kept.words, drawn)
        return self._ahead.launch(kept.beside.walks, left, kept.beside.beams_at)

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
            known = self._ahead.answers(plan)
        if known is None:
            answers = self._computed(plan, level, fill)
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

    def _computed(self, plan: DraftPlan, level: Level, fill: Fill) -> Answers:
        """Answers a level that was not computed ahead."""
        if self._ahead is not None:
            self._ahead.forget()
        moves_apart = fill.count > 0 or level.rows == 0
        if moves_apart:
            self._make_up(level, fill)
        found = []
        together = self._levels.together
        for start in range(0, level.rows, together):
            rows = slice(start, min(start + together, level.rows))
            found.append(self._answer(plan, level, rows, with_moves=not moves_apart and not start))
        if moves_apart and not level.rows:
            self._device.wait()
        self._drafted, self._owed = level.drafted, _NO_MOVES
        return Answers(
            *(
                np.concatenate([getattr(one, name) for one in [*found, _NOTHING]])
                for name in Answers.__slots__
            )
        )

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
        sizes, results = self._levels.launch(sections, count, pinned.words, is_first=level.is_first)
        # Scored tokens come last, and mostly fewer than there is room for.
        words = sizes.words - sizes.scored + len(scored.at)
        pinned.results = self._ring.grown(pinned.results, sizes.words)
        self._device.copy(pinned.results[:words], results[:words])
        pinned.done.record()
        pinned.done.wait()
        return self._naming.answers(pinned.results, sizes, count, scored, indptr)

    @torch.inference_mode()
    def _make_up(self, level: Level, fill: Fill) -> None:
        """Launches a level's moves, then the keys of committed tokens, kernel by kernel."""
        operators, target, device = self._operators, self._target, self._target.device

        def pairs(moves: Int32) -> tuple[torch.Tensor, torch.Tensor]:
            count = torch.tensor([len(moves)], dtype=torch.int32).to(device)
            return torch.from_numpy(np.ascontiguousarray(moves)).to(device), count

        moves, feature_moves = pairs(level.moves), pairs(level.feature_moves)
        pieces = list(fill.pieces(operators.tiles, device))
        kind, keeper = self._kind, self._keeper

        @torch.inference_mode()
        def work() -> None:
            target.move(*moves)
            operators.move(*moves)
            if keeper is not None:
                spectrie_kernels.move_rows(keeper.features, *feature_moves)
            for piece in pieces:
                operators.begin_step(piece, Scratch(device))
                kind.entries(piece.tokens, None, operators)

        self._device.launch(work)

    def upkeep_ms(self) -> float:
        """Returns the milliseconds that entries add to a recorded step of one row, by the device's clock; 0 for a
        drafter that reads no features. No step may be in flight."""
        if self._keeper is None:
            return 0.0
        return self._keeper.upkeep_ms(self._device, self._step_words, self._levels.heights)


_NO_MOVES = np.zeros((0, 2), np.int32)
_NOTHING = Answers(
    np.zeros((0, TOP_K), np.int32), np.zeros((0, TOP_K), np.float32), np.zeros(0, np.float32)
)
