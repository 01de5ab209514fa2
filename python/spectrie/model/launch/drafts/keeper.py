"""Features of a step's rows, and the entries that follow from them, written in the step itself."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Protocol

import numpy as np
import torch
from numpy.typing import NDArray

import spectrie_kernels
from spectrie.model.launch.drafts.entries import Entries, OwnAttention
from spectrie.model.launch.drafts.kinds.kind import Kind
from spectrie.model.launch.drafts.levels.checks import check_pairs, refuse
from spectrie.model.launch.drafts.operators import DraftOperators, NamedScratch
from spectrie.model.launch.drafts.words import LevelArrays, LevelShape, Sections
from spectrie.model.operators.gpu import GpuOperators
from spectrie.model.plan import LEFT_OUT, PlanArrays
from spectrie.model.step.device import Device
from spectrie.model.step.input import StepInput
from spectrie.model.step.scratch import HeldScratch, Scratch
from spectrie_kernels import MAX_TREE_ROWS, StepArray

__all__ = ["EntryKeeper", "FeaturePlan"]

Int32 = NDArray[np.int32]

_TIMED = 20


class FeaturePlan(PlanArrays, Protocol):
    """A step beside a drafter that reads features; see `StepPlan`."""

    @property
    def request_feature(self) -> Int32: ...
    @property
    def feature_moves(self) -> Int32: ...
    @property
    def feature_copies(self) -> Int32: ...


class EntryKeeper:
    """Follows the layers of a decoder: it taps them, then writes the drafter's entry of every row whose token
    and feature before it are known. What a guess left is thus never kept.

    Attributes:
        features: [store_rows + rows of the largest step, width]: those that outlive a step, then those of the
            last one's rows.
        store_rows: The former.
        num_rows: Rows of the last step.
        own_attention: What attention of the entries' layers takes; None where the model's suits them, or where
            they need none.
    """

    def __init__(
        self,
        kind: Kind,
        operators: DraftOperators,
        target: GpuOperators,
        *,
        store_rows: int,
        max_rows: int,
        width: int,
    ) -> None:
        """Allocates the features.

        Args:
            kind: The drafter.
            operators: Of its layers.
            target: Of the model.
            store_rows: Rows of features that outlive a step.
            max_rows: Rows of the largest step.
            width: Of the model's residual stream.
        """
        self._kind = kind
        self._operators = operators
        self._width = width
        shape = (store_rows + max_rows, width * len(kind.taps))
        self.features = torch.zeros(shape, dtype=operators.dtype, device=operators.device)
        self.store_rows = store_rows
        self.num_rows = 0
        self._entries: Entries | None = None
        self.own_attention: OwnAttention | None = None
        if kind.entries_attend and not operators.suits(target):
            # How high tiles are changes no bit, and a step does not say it before it is packed.
            heights = operators.heights(MAX_TREE_ROWS)
            self.own_attention = OwnAttention(operators.shape, heights)

    def sections(self, plan: FeaturePlan, owed: Int32, walks: Int32) -> Sections:
        """Returns which rows of a step get an entry, what they continue, and which features are moved before.

        Args:
            plan: The step.
            owed: int32 [any, 2], moves of features that levels before it left to do.
            walks: int32 [any, ROOT_WORDS], those behind which a first level is computed.

        Raises:
            ValueError: The plan names features that do not exist.
        """
        store, starts = self.store_rows, plan.request_row_start
        given = plan.request_feature
        if len(given) not in (0, len(starts)):
            raise ValueError(f"request_feature has {len(given)} elements, expected {len(starts)}")
        wrong = (given < LEFT_OUT) | (given >= store)
        if wrong.any():
            index = int(np.argmax(wrong))
            refuse("request_feature", index, given[index], f"{LEFT_OUT}, -1 or 0..{store}")
        moves = check_pairs("feature_moves", plan.feature_moves, self.num_rows, store)
        copies = check_pairs("feature_copies", plan.feature_copies, store, store)
        rows = len(plan.row_token)
        owner = np.repeat(np.arange(len(starts)), plan.request_row_count)
        own = np.arange(rows) - starts[owner]
        parent = np.where(plan.request_kind[owner] == 0, own - 1, plan.row_parent)
        before = given[owner] if len(given) else np.full(rows, -1)
        origins = np.where(parent >= 0, store + starts[owner] + parent, before)
        # There is no feature before the first token.
        origins = np.where((plan.row_position == 0) | (before == LEFT_OUT), -1, origins)
        origins = origins.astype(np.int32)
        slots = np.where(origins >= 0, plan.row_slot, -1).astype(np.int32)
        first = moves + np.array([store, 0], np.int32)
        arrays = [origins, slots, np.concatenate([owed, first, copies])]
        if self.own_attention is not None:
            arrays += self.own_attention.sections(plan)
        return Sections([*arrays, walks])

    @property
    def walks_section(self) -> int:
        """Number of the section of walks."""
        return Entries.num_sections(self.own_attention)

    def room(self, rows: int) -> tuple[StepArray, ...]:
        """Returns the arrays of the entries of recorded steps of up to `rows` rows."""
        return Entries.room(rows, self.own_attention)

    def entries(self, room: Sequence[StepArray]) -> Entries:
        """Returns what such arrays hold."""
        return Entries(room, self.own_attention, self._operators.device)

    def begin(self, entries: Entries, step: StepInput, scratch: Scratch) -> None:
        """Launches what comes before the layers of a step: moves of features, and of slots.

        Args:
            entries: Those of the step, filled.
            step: As the model's operators began with it.
            scratch: Where results go.
        """
        self._entries = entries
        spectrie_kernels.move_rows(self.features, entries.moves, entries.num_moves)
        own = replace(step, slots=entries.slots, layout=entries.layout(step.layout))
        self._operators.begin_step(own, NamedScratch(scratch))

    def tap(self, layer: int | None, stream: torch.Tensor) -> None:
        """Keeps what a layer gave, if the drafter reads it.

        Args:
            layer: Its number; None for the norm before the head.
            stream: [rows, width].
        """
        rows, width = stream.shape[0], self._width
        of_step = self.features[self.store_rows : self.store_rows + rows]
        for index, tapped in enumerate(self._kind.taps):
            if tapped == layer:
                of_step[:, index * width : (index + 1) * width].copy_(stream)

    def finish(self, normed: torch.Tensor) -> None:
        """Launches what comes behind the layers: the entries.

        Args:
            normed: [rows, width], as the head takes it.
        """
        self.tap(None, normed)
        entries, operators = self._entries, self._operators
        if entries is None:
            raise ValueError("a step's entries were wanted before it began")
        shape = (normed.shape[0], self.features.shape[1])
        before = operators.scratch.empty("before", shape, operators.dtype)
        spectrie_kernels.gather_rows(self.features, entries.origins, before)
        tokens = operators.input.tokens
        self._kind.entries(tokens, before, operators)

    def upkeep_ms(self, device: Device, words: torch.Tensor, heights: tuple[int, int]) -> float:
        """Returns the milliseconds that entries add to a recorded step of one row, by the device's clock. No step may
        be in flight.

        Args:
            device: Where everything is.
            words: int32, what recorded steps read of entries; zeroed.
            heights: Of attention's tiles.
        """
        on, operators = self.features.device, self._operators
        shape = LevelShape(operators.shape, None, None, dump=0, weighs_single=False)
        step = LevelArrays(shape.room(1, is_first=True), shape, heights, on).step
        entries, scratch = self.entries(self.room(1)), HeldScratch(on)
        words.zero_()
        row = torch.zeros(1, self._width, dtype=torch.float32, device=on)

        @torch.inference_mode()
        def work() -> None:
            entries.fill(words)
            self.begin(entries, step, scratch)
            for tapped in self._kind.taps:
                if tapped is not None:
                    self.tap(tapped, row)
            self.finish(row)

        device.launch(work)
        device.wait()
        recorded, span = device.record(work), device.span()
        span.begin()
        for _ in range(_TIMED):
            recorded.launch()
        span.end()
        return span.milliseconds() / _TIMED
