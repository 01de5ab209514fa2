"""Steps of a model on one GPU: packed, launched, and waited for once."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from spectrie._core import DeviceShape, PackedSection, PackingError
from spectrie.model.decoder.decoder import Decoder
from spectrie.model.decoder.sizing import pieces
from spectrie.model.launch.draft_set import DraftSet
from spectrie.model.launch.drafts.drafts import Drafts, Kept
from spectrie.model.launch.drafts.weights import DraftWeights
from spectrie.model.launch.graphs import Layers, StepGraphs
from spectrie.model.launch.launched import Launched
from spectrie.model.launch.results import Sizes
from spectrie.model.launch.ring import Pinned, Ring
from spectrie.model.launch.sent_logits import SentLogits
from spectrie.model.operators.gpu import GpuOperators
from spectrie.model.plan import PlanArrays, StepResult
from spectrie.model.step.device import Device, Span
from spectrie.model.step.input import StepInput, draw_rows
from spectrie.model.step.packed import (
    PackedStep,
    add_counts,
    count_words,
    pack_plan,
)
from spectrie.model.step.scratch import Scratch
from spectrie.model.step.wanted import Wanted
from spectrie_kernels import lift_rows, take_drawn

__all__ = ["Launched", "Launcher", "Pack"]

_FIRST_WORDS = 1 << 14
_DEVICE_WORDS = 1 << 21
"""Packed steps up to this size have their place on the device, 8 MiB."""

Pack = Callable[[int, int, int, int], PackedStep]
"""Writes a plan into pinned memory, given heights of attention's tiles (split form, prompts), address and
capacity in words; raises `PackingError` where that does not do."""


class Launcher:
    """The forward of a model on one GPU.

    A step is written into pinned memory, copied to the device at once and computed there; tokens and
    likeliest tokens come back in one copy, and the host waits for one event. Once `record` was called,
    most steps are one launch of recorded work; some have recorded layers alone. Others launch the same
    kernels one by one.
    """

    def __init__(
        self, decoder: Decoder, operators: GpuOperators, device: Device, *, max_rows: int
    ) -> None:
        """Takes a decoder of a whole model with its operators, their device, and rows of the largest
        step."""
        self._decoder = decoder
        self._operators = operators
        self._device = device
        self._max_rows = max_rows
        self._ring = Ring(device, _FIRST_WORDS)
        self._scratch = Scratch(operators.device)
        self._words = torch.zeros(_DEVICE_WORDS, dtype=torch.int32, device=operators.device)
        shape = operators.shape
        self._shape = DeviceShape(shape.group, shape.kv_heads, shape.windows, shape.vocabulary)
        self._graphs: StepGraphs | None = None
        self._drafts = DraftSet(decoder, device)

    @property
    def shape(self) -> DeviceShape:
        """What `Engine.pack` packs for."""
        return self._shape

    @property
    def recorded_rows(self) -> tuple[int, ...]:
        """Sizes of the steps whose layers are recorded, ascending."""
        return () if self._graphs is None else self._graphs.buckets

    def span(self) -> Span:
        """Returns a stretch of the device's work."""
        return self._device.span()

    @property
    def starts_early(self) -> bool:
        """Whether a step may take tokens that the step before it draws: nothing is compiled for it."""
        return self._graphs is not None

    def set_threads(self, threads: int) -> None:
        """See `Decoder.set_threads`."""
        self._decoder.set_threads(threads)

    @property
    def drafts(self) -> DraftSet:
        """The drafters beside the model."""
        return self._drafts

    def add_drafter(self, weights: DraftWeights) -> None:
        """Puts a drafter beside the model, before `record`."""
        added = Drafts(
            weights, self._decoder, self._operators, self._device, max_rows=self._max_rows
        )
        self._drafts.add(added)

    def remove_drafter(self, number: int) -> None:
        """Takes a drafter away, and forgets what was recorded. No step may be in flight."""
        self._device.wait()
        self._graphs = None
        self._drafts.remove(number)

    def record(self, report: Callable[[str], None]) -> None:
        """Records the work of most steps; no step may be in flight.

        Args:
            report: Receives one line per stage.
        """
        self._drafts.settle()
        graphs = StepGraphs(
            self._decoder,
            self._operators,
            self._device,
            max_rows=self._max_rows,
            words=self._words,
            drafts=self._drafts,
        )
        graphs.record(report)
        beside = self._drafts.record(report, self._words, graphs.results)
        # Compiles it: the first row is where it was.
        device, first = self._device, self._words[:1]
        device.launch(lambda: _lift(graphs.logits(1), first))
        device.wait()
        self._ring.reserve(self._words.numel(), graphs.results.numel(), beside)
        self._graphs = graphs

    def forward(self, plan: PlanArrays) -> StepResult:
        """Computes the logits of the plan's sample rows and the likeliest tokens of its top rows.

        Raises:
            ValueError: The plan is inconsistent.
        """
        return self.launch(plan, Wanted.LOGITS).wait()

    def launch(
        self,
        plan: PlanArrays,
        wanted: Wanted,
        pack: Pack | None = None,
        behind: Launched | None = None,
        logit_samples: NDArray[np.int32] | None = None,
    ) -> Launched:
        """Launches a step behind those launched before; at most one of them may not be waited for yet.

        Args:
            plan: The step.
            wanted: What to compute at its sample rows.
            pack: Packs the plan; None packs what a plan built by hand has.
            behind: The step launched last, where rows stand for tokens that it draws: -2 - i for that of
                its sample row i. A row becomes padding where nothing could be drawn.
            logit_samples: Indices of the sample rows that send logits where tokens are wanted,
                ascending; None stands for none.

        Raises:
            ValueError: The plan is inconsistent, or the step before it draws no tokens.
        """
        drawn = None if behind is None else behind.drawn
        if behind is not None and drawn is None:
            raise ValueError("the step before gives logits: its tokens are not on the device")
        operators, graphs, device = self._operators, self._graphs, self._device
        drafts = self._drafts
        beside = drafts.beside(plan)
        pinned = self._ring.take()
        widest = int(np.max(plan.request_row_count, initial=1))
        layers = graphs.layers(len(plan.row_token), widest) if graphs is not None else None
        heights = operators.heights(widest) if layers is None else layers.heights
        asked = 0 if logit_samples is None else len(logit_samples)
        packed = self._packed(plan, pinned, heights, pack, asked)
        if wanted is Wanted.DRAWN and not packed.is_drawn:
            wanted = Wanted.LOGITS
        if wanted is Wanted.LOGITS:
            sent = SentLogits.all_of(packed.samples)
        else:
            sent = SentLogits() if logit_samples is None else SentLogits.of(logit_samples)
        begin = add_counts(pinned.words.numpy(), packed, operators.shape)
        scattered = self._scattered(packed, sent, pinned, begin)
        num_words = begin + sum(map(len, scattered.values()))
        has_place = num_words <= self._words.numel()
        if graphs is not None and layers is not None:
            fits = graphs.holds(layers.room, packed, "layers")
            fits = fits and drafts.holds(beside, layers.rows)
            layers = layers if fits and has_place else None
        words = self._words[:num_words]
        if not has_place:
            words = torch.empty(num_words, dtype=torch.int32, device=operators.device)
        device.copy(words, pinned.words[:num_words])
        recorded = graphs if layers is not None else None
        if drawn is not None and (recorded is None or not recorded.has_drawn(drawn)):
            tokens = drawn
            device.launch(lambda: take_drawn(words, PackedSection.ROW_TOKEN, tokens))
        lifted = {first: words[span.start : span.stop] for first, span in scattered.items()}
        kept = drafts.send(beside, pinned, self._ring, packed.rows)
        step = _Step(words, packed, heights, pinned, wanted, sent, lifted, kept)
        if graphs is None or layers is None:
            sizes = step.sizes
            self._make_room(step, sizes)
            results = self._new_results(sizes)
            device.launch(lambda: self._compute(step, results))
        else:
            sizes, results = self._launch_recorded(step, graphs, layers)
        device.copy(pinned.results[: sizes.words], results)
        pinned.done.record()
        followed = None
        if wanted is not Wanted.LOGITS:
            followed = drafts.follow(kept, words, results)
        logits = sent.rows, operators.shape.vocabulary
        return Launched(pinned, packed, sizes, logits, wanted, results, followed)

    def _launch_recorded(
        self, step: _Step, graphs: StepGraphs, layers: Layers
    ) -> tuple[Sizes, torch.Tensor]:
        """Launches a step whose layers are recorded; returns where its results are."""
        device, packed = self._device, step.packed
        whole = graphs.whole(layers, packed, step.wanted)
        if whole is not None:
            sizes = Sizes(whole.samples, whole.samples if packed.tops else 0)
            self._make_room(step, sizes)
            whole.work.launch()
            if step.sent.runs:
                self._send(step, slice(0, packed.samples), graphs.logits(packed.samples))
            return sizes, graphs.results[: sizes.words]
        layers.work.launch()
        self._make_room(step, step.sizes)
        results = self._new_results(step.sizes)
        if packed.samples or packed.tops:
            given = self._input(step)
            device.launch(lambda: self._read(step, given, graphs.normed(packed.rows), results))
        return step.sizes, results

    def _input(self, step: _Step) -> StepInput:
        """Views of a packed step."""
        return StepInput.of(step.words, step.packed, self._operators.shape, step.heights)

    def _scattered(
        self, packed: PackedStep, sent: SentLogits, pinned: Pinned, begin: int
    ) -> dict[int, range]:
        """Writes which rows of logits are lifted to the front of their piece, where they are not neighbours,
        to pinned memory from the word `begin` on; returns the words of each piece by its first row."""
        found = {}
        for rows in pieces(packed.samples):
            numbers = sent.scattered(rows.start, rows.stop)
            if numbers is not None:
                found[rows.start] = range(begin, begin + len(numbers))
                pinned.words.numpy()[begin : begin + len(numbers)] = numbers
                begin += len(numbers)
        return found

    def _make_room(self, step: _Step, sizes: Sizes) -> None:
        """Makes room for results in pinned memory, which grows where it has too little."""
        pinned = step.pinned
        pinned.results = self._ring.grown(pinned.results, sizes.words)
        elements = step.sent.rows * self._operators.shape.vocabulary
        pinned.logits = self._ring.grown(pinned.logits, elements)

    def _new_results(self, sizes: Sizes) -> torch.Tensor:
        """Returns room on the device for the results of work that is not recorded."""
        return self._scratch.empty("results", (sizes.words,), torch.int32)

    def _packed(
        self,
        plan: PlanArrays,
        pinned: Pinned,
        heights: tuple[int, int],
        pack: Pack | None,
        num_behind: int,
    ) -> PackedStep:
        """Writes the plan to pinned memory, which grows as needed, with room for counts and so many words."""

        shape = self._operators.shape
        counts = count_words(shape) + num_behind

        def written() -> PackedStep:
            capacity = pinned.words.numel() - counts
            if pack is None:
                target: NDArray[Any] = pinned.words.numpy()
                return pack_plan(plan, shape, *heights, target[:capacity])
            return pack(*heights, pinned.words.data_ptr(), capacity)

        try:
            return written()
        except PackingError as error:
            pinned.words = self._ring.grown(pinned.words, error.needed_words + counts)
            return written()

    @torch.inference_mode()
    def _compute(self, step: _Step, results: torch.Tensor) -> None:
        """Launches one kernel after the other."""
        given = self._input(step)
        self._operators.begin_step(given, self._scratch)
        self._drafts.begin(step.kept, given, self._scratch)
        self._read(step, given, self._decoder.layers(), results)

    @torch.inference_mode()
    def _read(self, step: _Step, given: StepInput, x: torch.Tensor, results: torch.Tensor) -> None:
        """Launches head, tokens, likeliest tokens and the moves of accepted rows, given what the layers read
        and left."""
        operators, packed = self._operators, step.packed
        operators.scratch = self._scratch
        tokens, ids, probabilities = step.sizes.split(results)
        for rows in pieces(packed.samples):
            logits = self._decoder.head(x, step.section(PackedSection.SAMPLE_ROWS)[rows])
            self._take(step, rows, logits, tokens[rows])
            if packed.tops == packed.samples:
                operators.top_k(logits, ids[rows], probabilities[rows])
            self._send(step, rows, logits)
            # Before those of the next piece, which would have no room beside them.
            del logits
        # Else they are all sample rows, and rows of prompts.
        for rows in pieces(packed.tops if packed.tops > packed.samples else 0):
            logits = self._decoder.head(x, step.section(PackedSection.TOP_ROWS)[rows])
            operators.top_k(logits, ids[rows], probabilities[rows])
            del logits
        if step.wanted is not Wanted.LOGITS and packed.section(PackedSection.WALKS)[1]:
            operators.compact(given, tokens)
            self._drafts.compact(given, tokens)

    def _take(self, step: _Step, rows: slice, logits: torch.Tensor, tokens: torch.Tensor) -> None:
        """Launches what gives the tokens of some sample rows, if they are wanted."""
        operators = self._operators
        if step.wanted is Wanted.LIKELIEST:
            operators.likeliest(logits, tokens)
        elif step.wanted is Wanted.DRAWN:
            draws = draw_rows(step.section, operators.shape, step.packed.cuts)
            operators.draw(logits, draws.part(rows.start, rows.stop), tokens)

    def _send(self, step: _Step, rows: slice, logits: torch.Tensor) -> None:
        """Launches the copy of those logits of some sample rows that the host wants: one, behind a kernel that
        brings rows which are no neighbours to the front."""
        parts = list(step.sent.parts(rows.start, rows.stop))
        if not parts:
            return
        before, run = parts[0]
        lifted = step.lifted.get(rows.start)
        if lifted is not None:
            numbers = lifted
            self._device.launch(lambda: _lift(logits, numbers))
            run = slice(0, len(numbers))
        bits = logits[run].view(-1).view(torch.int32)
        begin = before * self._operators.shape.vocabulary
        self._device.copy(step.pinned.logits[begin : begin + bits.numel()], bits)


@torch.inference_mode()
def _lift(logits: torch.Tensor, numbers: torch.Tensor) -> None:
    lift_rows(logits, numbers)


@dataclass(frozen=True, slots=True)
class _Step:
    """A packed step on its way."""

    words: torch.Tensor
    packed: PackedStep
    heights: tuple[int, int]
    pinned: Pinned
    wanted: Wanted
    sent: SentLogits
    lifted: dict[int, torch.Tensor]
    """Which rows of logits are brought to the front of their piece, by its first row."""
    kept: list[Kept | None]

    @property
    def sizes(self) -> Sizes:
        """Of results without rows that stand for none."""
        return Sizes(self.packed.samples, self.packed.tops)

    def section(self, which: PackedSection) -> torch.Tensor:
        """A section's words on the device."""
        begin, length = self.packed.section(which)
        return self.words[begin : begin + length]
