"""Recorded work of a model: its steps by bucket of rows and of sample rows, and its layers alone."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch

import spectrie_kernels
from spectrie._core import PackedSection
from spectrie.model.decoder.decoder import HEAD_RESULT, Decoder
from spectrie.model.launch.capacity import (
    MAX_SAMPLES,
    StepRoom,
    bucket_of,
    buckets_up_to,
    sample_buckets,
)
from spectrie.model.launch.draft_set import DraftSet
from spectrie.model.launch.overflows import Overflow, Overflows
from spectrie.model.launch.results import Sizes
from spectrie.model.operators.gpu import GpuOperators
from spectrie.model.step.device import Device, Recorded
from spectrie.model.step.input import StepInput, draw_rows
from spectrie.model.step.packed import CUTS, PackedStep
from spectrie.model.step.scratch import HeldScratch
from spectrie.model.step.wanted import Wanted
from spectrie_kernels import StepArrays

__all__ = ["Layers", "StepGraphs", "Whole"]

_TREE_ROWS = 64
_CUTS = (0, CUTS["top_k"] | CUTS["top_p"], sum(CUTS.values()))
"""Cuts of recorded draws: a step takes the first that has all of its own."""


@dataclass(frozen=True, slots=True)
class Layers:
    """The layers of up to `rows` rows.

    Attributes:
        rows: Rows that are computed.
        is_wide: Whether attention's tiles are for requests of several rows.
        heights: Their heights: split form, prompts.
        room: The arrays that it reads.
        work: Launches them alone.
    """

    rows: int
    is_wide: bool
    heights: tuple[int, int]
    room: StepRoom
    work: Recorded


@dataclass(frozen=True, slots=True)
class Whole:
    """All of a step: layers, logits, tokens, likeliest tokens of up to `samples` rows, and the moves of
    accepted rows to their places.

    Attributes:
        samples: Sample rows that are computed.
        room: The arrays that it reads beside those of the layers.
        work: Launches it.
    """

    samples: int
    room: StepRoom
    work: Recorded


@dataclass(frozen=True, slots=True)
class _WholeKey:
    rows: int
    is_wide: bool
    samples: int
    cuts: int | None
    """None takes the likeliest token."""


class StepGraphs:
    """Work that is recorded once and launched in most steps.

    It reads and writes memory that stays where it is: the packed step, the arrays that a kernel copies out
    of it, the scratch, and the results. Nothing is allocated or compiled while it is launched.

    Attributes:
        words: int32, the packed step on the device.
        results: int32, as `Sizes` has it.
        overflows: Steps whose lists were too long.
    """

    def __init__(
        self,
        decoder: Decoder,
        operators: GpuOperators,
        device: Device,
        *,
        max_rows: int,
        words: torch.Tensor,
        drafts: DraftSet,
    ) -> None:
        """Records nothing yet.

        Args:
            decoder: A whole model.
            operators: The decoder's.
            device: Theirs.
            max_rows: Rows of the largest step.
            words: The packed step on the device.
            drafts: The drafters beside the model, whose entries steps write.
        """
        self._drafts = drafts
        self._decoder = decoder
        self._operators = operators
        self._device = device
        self._buckets = buckets_up_to(max_rows)
        self._scratch = HeldScratch(operators.device)
        self.words = words
        most = min(self._buckets[-1], MAX_SAMPLES)
        self.results = torch.zeros(
            Sizes(most, most).words, dtype=torch.int32, device=operators.device
        )
        self.overflows = Overflows()
        self._arrays: dict[StepRoom, StepArrays] = {}
        self._layers: dict[tuple[int, bool], Layers] = {}
        self._wholes: dict[_WholeKey, Whole] = {}

    @property
    def buckets(self) -> tuple[int, ...]:
        """Rows that recorded layers compute, ascending."""
        return self._buckets

    @property
    def bytes(self) -> int:
        """Memory of results between kernels."""
        return self._scratch.bytes

    def normed(self, rows: int) -> torch.Tensor:
        """What the layers launched last left to a head: [rows, hidden]."""
        shape = (rows, self._decoder.hidden_size)
        return self._scratch.empty("normed", shape, self._operators.dtype)

    def logits(self, samples: int) -> torch.Tensor:
        """Returns what the step launched last computed of its first rows: float32 [samples, vocabulary]."""
        shape = (samples, self._operators.shape.vocabulary)
        return self._scratch.empty(HEAD_RESULT, shape, torch.float32)

    def has_drawn(self, drawn: torch.Tensor) -> bool:
        """Whether recorded work takes these tokens of the step before by itself."""
        return drawn.data_ptr() == self.results.data_ptr()

    def record(self, report: Callable[[str], None]) -> None:
        """Does each kind of work once, on a step without rows, then records all of it.

        Args:
            report: Receives one line per stage.
        """
        self.words.zero_()
        # The largest first: what they leave in the scratch has room for all others.
        sizes = [
            (rows, is_wide)
            for rows in reversed(self._buckets)
            for is_wide in ((True, False) if self._has_wide(rows) else (False,))
        ]
        keys = [
            _WholeKey(rows, is_wide, samples, cuts)
            for rows, is_wide in sizes
            for samples in reversed(sample_buckets(rows, is_wide))
            for cuts in (None, *_CUTS)
        ]
        report(f"computing {len(sizes)} sizes of a step once")
        for rows, is_wide in sizes:
            self._device.launch(self._layers_work(rows, is_wide))
        heads: dict[tuple[int, int | None], _WholeKey] = {}
        for key in sorted(keys, key=lambda key: -key.samples):
            # A head's kernels are the same for every number of rows, but for the product's.
            if key.cuts is None or key.samples == keys[0].samples:
                heads.setdefault((key.samples, key.cuts), key)
        for key in heads.values():
            self._device.launch(self._head_work(key))
        self._device.wait()
        self._scratch.close()
        total = len(sizes) + len(keys)
        report(f"recording {total} graphs, {self.bytes >> 20} MiB between their kernels")
        for rows, is_wide in sizes:
            room = StepRoom.of_rows(rows, self._operators.shape)
            recorded = self._device.record(self._layers_work(rows, is_wide))
            heights = self._heights(rows, is_wide)
            self._layers[rows, is_wide] = Layers(rows, is_wide, heights, room, recorded)
        for key in keys:
            recorded = self._device.record(self._whole_work(key))
            self._wholes[key] = Whole(key.samples, self._sample_room(key), recorded)

    def layers(self, rows: int, widest: int) -> Layers | None:
        """Returns the recorded layers for so many rows, the widest request's known; None if none fit."""
        bucket = bucket_of(rows, self._buckets)
        if bucket is None or rows == 0:
            return None
        is_wide = self._has_wide(bucket) and widest > self._narrow_nodes
        return self._layers.get((bucket, is_wide))

    def whole(self, layers: Layers, packed: PackedStep, wanted: Wanted) -> Whole | None:
        """Returns the recorded form of a whole step that recorded layers fit; None if none does."""
        sizes = sample_buckets(layers.rows, layers.is_wide)
        samples = bucket_of(packed.samples, sizes) if packed.samples else None
        if samples is None or wanted is Wanted.LOGITS or packed.tops not in (0, packed.samples):
            return None
        cuts = None
        if wanted is Wanted.DRAWN:
            cuts = next(cuts for cuts in _CUTS if cuts & packed.cuts == packed.cuts)
        found = self._wholes.get(_WholeKey(layers.rows, layers.is_wide, samples, cuts))
        return found if found is not None and self.holds(found.room, packed, "heads") else None

    def holds(self, room: StepRoom, packed: PackedStep, work: str) -> bool:
        """Returns whether a room has place for a step; notes where it has not.

        Args:
            room: Of some work.
            packed: The step.
            work: What such work is called.
        """
        overflow = room.overflow(packed)
        if overflow is None and packed.words > self.words.numel():
            overflow = Overflow("all lists", packed.words, self.words.numel())
        if overflow is not None:
            self.overflows.note(work, overflow)
        return overflow is None

    @property
    def _narrow_nodes(self) -> int:
        """Nodes of a request in the lowest tile of attention."""
        return max(1, self._operators.heights(1)[0] // self._operators.shape.group)

    def _has_wide(self, rows: int) -> bool:
        """Whether steps of a bucket may have requests that are worth higher tiles of attention."""
        return rows > self._narrow_nodes

    def _heights(self, rows: int, is_wide: bool) -> tuple[int, int]:
        """Heights of attention's tiles."""
        return self._operators.heights(min(rows, _TREE_ROWS) if is_wide else 1)

    def _sample_room(self, key: _WholeKey) -> StepRoom:
        shape = self._operators.shape
        return StepRoom.of_samples(key.samples, shape, drawn=key.cuts is not None)

    def _arrays_of(self, room: StepRoom) -> StepArrays:
        """Returns the arrays of a room, which all work with such a room shares."""
        if room not in self._arrays:
            self._arrays[room] = StepArrays.of(room.arrays, self._operators.device)
        return self._arrays[room]

    # Work refers to what it uses and not to these graphs: what holds it would then never be freed at once.

    def _layers_work(self, rows: int, is_wide: bool) -> Callable[[], None]:
        compute = self._layers_of(rows, is_wide)

        @torch.inference_mode()
        def work() -> None:
            compute()

        return work

    def _head_work(self, key: _WholeKey) -> Callable[[], None]:
        """A head behind layers that left nothing."""
        compute = self._head_of(key)
        step, scratch, operators = (
            self._input(key.rows, key.is_wide),
            self._scratch,
            self._operators,
        )
        shape = (key.rows, self._decoder.hidden_size)

        @torch.inference_mode()
        def work() -> None:
            operators.scratch = scratch
            compute(scratch.empty("normed", shape, operators.dtype), step)

        return work

    def _whole_work(self, key: _WholeKey) -> Callable[[], None]:
        layers, head = self._layers_of(key.rows, key.is_wide), self._head_of(key)

        @torch.inference_mode()
        def work() -> None:
            head(*layers())

        return work

    def _input(self, rows: int, is_wide: bool) -> StepInput:
        shape = self._operators.shape
        arrays = self._arrays_of(StepRoom.of_rows(rows, shape))
        return StepInput.fixed(arrays, shape, self._heights(rows, is_wide))

    def _layers_of(self, rows: int, is_wide: bool) -> Callable[[], tuple[torch.Tensor, StepInput]]:
        """Returns what computes the layers, and gives what they leave to a head with what they read."""
        arrays, words = self._arrays_of(StepRoom.of_rows(rows, self._operators.shape)), self.words
        decoder, operators, scratch = self._decoder, self._operators, self._scratch
        step, results = self._input(rows, is_wide), self.results
        begin = self._drafts.beginning(rows, scratch)

        def compute() -> tuple[torch.Tensor, StepInput]:
            # Tokens that the step before drew, which its head has left here.
            spectrie_kernels.take_drawn(words, PackedSection.ROW_TOKEN, results)
            spectrie_kernels.unpack(words, arrays)
            operators.begin_step(step, scratch)
            begin(step)
            return decoder.layers(), step

        return compute

    def _head_of(self, key: _WholeKey) -> Callable[[torch.Tensor, StepInput], None]:
        """Returns what computes all behind the layers, given what they leave and read."""
        decoder, operators, room = self._decoder, self._operators, self._sample_room(key)
        arrays, words, results = self._arrays_of(room), self.words, self.results
        index = {one.section: number for number, one in enumerate(room.arrays)}
        sizes = Sizes(key.samples, key.samples)
        drafts = self._drafts

        def section(which: PackedSection) -> torch.Tensor:
            return arrays.words_of(index[which])

        def compute(normed: torch.Tensor, step: StepInput) -> None:
            spectrie_kernels.unpack(words, arrays)
            logits = decoder.head(normed, section(PackedSection.SAMPLE_ROWS))
            tokens, ids, probabilities = sizes.split(results)
            if key.cuts is None:
                operators.likeliest(logits, tokens)
            else:
                operators.draw(logits, draw_rows(section, operators.shape, key.cuts), tokens)
            # Of steps without top rows nothing.
            operators.top_k(logits, ids, probabilities, section(PackedSection.TOP_ROWS))
            operators.compact(step, tokens)
            drafts.compact(step, tokens)

        return compute
