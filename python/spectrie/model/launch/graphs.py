"""Recorded work of a model: its layers by bucket of rows, its heads by bucket of sample rows."""

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
)
from spectrie.model.launch.overflows import Overflow, Overflows
from spectrie.model.launch.results import Sizes
from spectrie.model.operators.gpu import GpuOperators
from spectrie.model.step.device import Device, Recorded
from spectrie.model.step.input import StepInput, draw_rows
from spectrie.model.step.packed import CUTS, PackedStep
from spectrie.model.step.scratch import HeldScratch
from spectrie.model.step.wanted import Wanted
from spectrie_kernels import StepArrays

__all__ = ["Head", "Layers", "StepGraphs"]

_TREE_ROWS = 64
_CUTS = (0, CUTS["top_k"] | CUTS["top_p"], sum(CUTS.values()))
"""Cuts of recorded draws: a step takes the first that has all of its own."""


@dataclass(frozen=True, slots=True)
class Layers:
    """The layers of up to `rows` rows.

    Attributes:
        rows: Rows that are computed.
        heights: Heights of attention's tiles: split form, prompts.
        room: The arrays that it reads.
        work: Launches it.
    """

    rows: int
    heights: tuple[int, int]
    room: StepRoom
    work: Recorded


@dataclass(frozen=True, slots=True)
class Head:
    """Logits, tokens and likeliest tokens of up to `sizes.samples` rows."""

    sizes: Sizes
    room: StepRoom
    work: Recorded


@dataclass(frozen=True, slots=True)
class _HeadKey:
    samples: int
    cuts: int | None
    """None takes the likeliest token."""
    with_tops: bool


class StepGraphs:
    """Work that is recorded once and launched in most steps.

    It reads and writes memory that stays where it is: the packed step, the arrays that one kernel copies
    out of it, the scratch, and the results. Nothing is allocated or compiled while it is launched.

    Attributes:
        words: int32, the packed step on the device.
        results: int32, as `Sizes` of the head has it.
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
    ) -> None:
        """Records nothing yet.

        Args:
            decoder: A whole model.
            operators: The decoder's.
            device: Theirs.
            max_rows: Rows of the largest step.
            words: The packed step on the device.
        """
        self._decoder = decoder
        self._operators = operators
        self._device = device
        self._buckets = buckets_up_to(max_rows)
        self._sample_buckets = buckets_up_to(min(self._buckets[-1], MAX_SAMPLES))
        self._scratch = HeldScratch(operators.device)
        self.words = words
        most = Sizes(self._sample_buckets[-1], self._sample_buckets[-1]).words
        self.results = torch.zeros(most, dtype=torch.int32, device=operators.device)
        self.overflows = Overflows()
        self._arrays: dict[StepRoom, StepArrays] = {}
        self._layers: dict[tuple[int, bool], Layers] = {}
        self._heads: dict[_HeadKey, Head] = {}

    @property
    def buckets(self) -> tuple[int, ...]:
        """Rows that recorded layers compute, ascending."""
        return self._buckets

    @property
    def bytes(self) -> int:
        """Memory of results between kernels."""
        return self._scratch.bytes

    @property
    def normed(self) -> torch.Tensor:
        """What the layers leave to the head: [rows of the largest bucket, hidden]."""
        return self._scratch.empty("normed", self._normed_shape, self._operators.dtype)

    def logits(self, samples: int) -> torch.Tensor:
        """Returns what the head launched last computed of its first rows: float32 [samples, vocabulary]."""
        shape = (samples, self._operators.shape.vocabulary)
        return self._scratch.empty(HEAD_RESULT, shape, torch.float32)

    @property
    def _normed_shape(self) -> tuple[int, int]:
        return (self._buckets[-1], self._decoder.hidden_size)

    def record(self, report: Callable[[str], None]) -> None:
        """Does each work once, on a step without rows, then records all of it.

        Args:
            report: Receives one line per stage.
        """
        self.words.zero_()
        # The largest first: what they leave in the scratch has room for all others.
        layers = [
            self._layers_work(rows, is_wide)
            for rows in reversed(self._buckets)
            for is_wide in ((True, False) if self._has_wide(rows) else (False,))
        ]
        heads = [
            self._head_work(_HeadKey(samples, cuts, with_tops))
            for samples in reversed(self._sample_buckets)
            for cuts in (None, *_CUTS)
            for with_tops in (True, False)
        ]
        total = len(layers) + len(heads)
        report(f"computing {len(layers)} sizes of a step once")
        for _, work in layers:
            self._device.launch(work)
        for key, _, _, work in heads:
            # A head's kernels are the same for every number of rows, but for the product's.
            if key.with_tops and (key.cuts is None or key.samples == self._sample_buckets[-1]):
                self._device.launch(work)
        self._device.wait()
        self._scratch.close()
        report(f"recording {total} graphs, {self.bytes >> 20} MiB between their kernels")
        for (rows, is_wide, heights, room), work in layers:
            recorded = self._device.record(work)
            self._layers[rows, is_wide] = Layers(rows, heights, room, recorded)
        for key, sizes, room, work in heads:
            self._heads[key] = Head(sizes, room, self._device.record(work))

    def layers(self, rows: int, widest: int) -> Layers | None:
        """Returns the recorded layers for so many rows, the widest request's known; None if none fit."""
        bucket = bucket_of(rows, self._buckets)
        if bucket is None or rows == 0:
            return None
        is_wide = self._has_wide(bucket) and widest > self._narrow_nodes
        return self._layers.get((bucket, is_wide))

    def head(self, packed: PackedStep, wanted: Wanted) -> Head | None:
        """Returns the recorded head of a step behind recorded layers; None if none fits."""
        bucket = bucket_of(packed.samples, self._sample_buckets)
        if bucket is None or wanted is Wanted.LOGITS or packed.tops not in (0, packed.samples):
            return None
        cuts = None
        if wanted is Wanted.DRAWN:
            cuts = next(cuts for cuts in _CUTS if cuts & packed.cuts == packed.cuts)
        head = self._heads.get(_HeadKey(bucket, cuts, packed.tops > 0))
        return head if head is not None and self.holds(head.room, packed, "heads") else None

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

    def _arrays_of(self, room: StepRoom) -> StepArrays:
        """Returns the arrays of a room, which all work with such a room shares."""
        if room not in self._arrays:
            self._arrays[room] = StepArrays.of(room.arrays, self._operators.device)
        return self._arrays[room]

    def _layers_work(
        self, rows: int, is_wide: bool
    ) -> tuple[tuple[int, bool, tuple[int, int], StepRoom], Callable[[], None]]:
        operators, shape = self._operators, self._operators.shape
        heights = operators.heights(min(rows, _TREE_ROWS) if is_wide else 1)
        room = StepRoom.of_rows(rows, shape)
        arrays, words = self._arrays_of(room), self.words
        decoder, scratch = self._decoder, self._scratch

        # It refers to what it uses and not to these graphs: what holds it would then never be freed at once.
        @torch.inference_mode()
        def work() -> None:
            spectrie_kernels.unpack(words, arrays)
            step = StepInput.fixed(arrays, shape, heights)
            operators.begin_step(step, scratch)
            decoder.layers()

        return (rows, is_wide, heights, room), work

    def _head_work(self, key: _HeadKey) -> tuple[_HeadKey, Sizes, StepRoom, Callable[[], None]]:
        operators, shape = self._operators, self._operators.shape
        room = StepRoom.of_samples(key.samples, shape, drawn=key.cuts is not None)
        arrays, words = self._arrays_of(room), self.words
        decoder, scratch = self._decoder, self._scratch
        normed_shape, results = self._normed_shape, self.results
        index = {one.section: number for number, one in enumerate(room.arrays)}
        sizes = Sizes(key.samples, key.samples if key.with_tops else 0)

        def section(which: PackedSection) -> torch.Tensor:
            return arrays.words_of(index[which])

        @torch.inference_mode()
        def work() -> None:
            spectrie_kernels.unpack(words, arrays)
            operators.scratch = scratch
            normed = scratch.empty("normed", normed_shape, operators.dtype)
            logits = decoder.head(normed, section(PackedSection.SAMPLE_ROWS))
            tokens, ids, probabilities = sizes.split(results)
            if key.cuts is None:
                operators.likeliest(logits, tokens)
            else:
                operators.draw(logits, draw_rows(section, shape, key.cuts), tokens)
            if key.with_tops:
                operators.top_k(logits, ids, probabilities)

        return key, sizes, room, work
