"""First levels that are computed behind a step, before the host knows what it drew."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace

import numpy as np
import torch
from numpy.typing import NDArray

import spectrie_kernels
from spectrie._core import PackedSection
from spectrie.model.drafters.plan import Answers, DraftPlan
from spectrie.model.launch import capacity
from spectrie.model.launch.drafts.levels.roots import StepWalks
from spectrie.model.launch.drafts.levels.trunk import Trunk
from spectrie.model.launch.drafts.naming.scored import Asked, Found
from spectrie.model.launch.drafts.results import LevelSizes
from spectrie.model.launch.drafts.words import MAX_SCORED, SCORED, Sections
from spectrie.model.step.device import Device, Recorded, Span
from spectrie.model.step.input import StepInput
from spectrie.model.step.packed import StepShape
from spectrie.model.step.scratch import Scratch
from spectrie_kernels import (
    ROOT_WORDS,
    AttentionArrays,
    KeyOrder,
    RootPlaces,
    RootRows,
    RootSections,
    StepArray,
    StepArrays,
    WorkArrays,
)

__all__ = ["Ahead", "Left"]

Int64 = NDArray[np.int64]

_SECTIONS = RootSections(PackedSection.ROW_TOKEN, PackedSection.ROW_PARENT, PackedSection.PAGE_IDS)
_FOUND_WORDS = 4


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


@dataclass(slots=True)
class _Head:
    """What the head took when it was computed last, and what it found; nothing before."""

    x: torch.Tensor | None = None
    found: Found = ()


@dataclass(slots=True)
class _Size:
    """Levels of up to `rows` rows.

    Attributes:
        sizes: Of their results, which stand behind what was found.
        computes: Launches a level, once it is recorded.
        scores: Launches what scores tokens of it, likewise.
        head: Of recorded levels.
    """

    rows: int
    sizes: LevelSizes
    computes: Recorded | None = None
    scores: Recorded | None = None
    head: _Head = field(default_factory=_Head)


@dataclass(frozen=True, slots=True)
class _Pending:
    """A level that was launched, for which walks; with a head of its own if it was not recorded."""

    walks: StepWalks
    size: _Size
    head: _Head | None


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
            places: Where things lie.
            section: Number of the walks' section beside a step.
            heights: Of attention's tiles.
            max_rows: Walks of a step at most.
        """
        self._trunk, self._device = trunk, device
        self._places, self._heights = places, heights
        on, shape = trunk.operators.device, trunk.operators.shape
        self._buckets = capacity.buckets_up_to(max_rows)
        rows = self._buckets[-1]
        self.max_rows = min(max_rows, rows)
        """Walks of a step at most."""
        self._walks = StepArrays.of([StepArray(section, rows, ROOT_WORDS, keeps=True)], on)
        self._rows = RootRows.empty(rows, on)
        self._work = {
            window: _work_arrays(rows, KeyOrder.of(shape.kv_heads, window), on)
            for window in shape.windows
        }
        slots = places.first_slot + np.arange(rows)
        self._path_slots = torch.from_numpy(slots.astype(np.int32)).to(on)
        self._no_moves = torch.zeros(0, 2, dtype=torch.int32, device=on)
        self._scored = StepArrays.of(
            [StepArray(number, MAX_SCORED, fill=-1) for number in range(3)], on
        )
        self._sizes = {
            bucket: _Size(bucket, trunk.naming.sizes(bucket, min(SCORED * bucket, MAX_SCORED)))
            for bucket in self._buckets
        }
        words = max(_FOUND_WORDS * one.rows + one.sizes.words for one in self._sizes.values())
        self._results = torch.zeros(words, dtype=torch.int32, device=on)
        self._score_words = torch.zeros(4 * MAX_SCORED, dtype=torch.int32, device=on)
        self._pinned, self._pinned_words = device.pinned(words), device.pinned(4 * MAX_SCORED)
        self._done = device.event()
        # Those of a step are read when the next one is over.
        self._spans = [device.span(), device.span()]
        self._fixed: Left | None = None
        self._pending: _Pending | None = None

    def record(self, left: Left, scratch: Scratch) -> int:
        """Records levels behind steps; none may be in flight. Returns how many.

        Args:
            left: Where most steps leave what levels read.
            scratch: Of recorded first levels, of the same sizes.
        """
        self._score_words.zero_()
        sizes = list(reversed(self._sizes.values()))
        for one in sizes:
            self._device.launch(self._computing(one, one.head, left, scratch))
            self._device.launch(self._scoring(one, one.head, scratch))
        self._device.wait()
        for one in sizes:
            one.computes = self._device.record(self._computing(one, one.head, left, scratch))
            one.scores = self._device.record(self._scoring(one, one.head, scratch))
        self._fixed = left
        return len(sizes)

    def launch(self, walks: StepWalks, left: Left) -> Span:
        """Launches a level behind the step launched last; returns its stretch of the device's work.

        Args:
            walks: Of the step, one or more and up to `max_rows`.
            left: What the step leaves.
        """
        device = self._device
        bucket = capacity.bucket_of(len(walks), self._buckets)
        assert bucket is not None
        size = self._sizes[bucket]
        self._spans.reverse()
        span = self._spans[0]
        span.begin()
        head = None
        if size.computes is not None and self._fixed is not None and left.is_at(self._fixed):
            size.computes.launch()
        else:
            head = _Head()
            device.launch(self._computing(size, head, left, Scratch(self._results.device)))
        # Scored tokens come last, and none are asked yet.
        count = _FOUND_WORDS * size.rows + size.sizes.words - size.sizes.scored
        device.copy(self._pinned[:count], self._results[:count])
        span.end()
        self._done.record()
        self._pending = _Pending(walks, size, head)
        return span

    def forget(self) -> None:
        """Gives up the answers of the level launched last."""
        self._pending = None

    def answers(self, plan: DraftPlan) -> tuple[Answers, Int64] | None:
        """Answers a first level by the one that was launched behind the last step, once; None where that is another.

        Returns:
            The answers, and the place of each row among draft slots and states.
        """
        pending, self._pending = self._pending, None
        if pending is None or len(plan.scored_token) > pending.size.sizes.scored:
            return None
        self._done.wait()
        count, size, naming = len(pending.walks), pending.size, self._trunk.naming
        begin = _FOUND_WORDS * size.rows
        found = self._pinned[:begin].view(-1, _FOUND_WORDS).numpy()[:count]
        walks = pending.walks.walks_of(plan, found)
        if walks is None:
            return None
        indptr, tokens = plan.scored_indptr, plan.scored_token
        # Scored tokens in the order of the walks: where each stands in the plan.
        owner = np.repeat(walks, np.diff(indptr))
        by_walk = np.argsort(owner, kind="stable")
        number = np.concatenate([[0], np.cumsum(np.bincount(owner, minlength=count))])
        own_indptr = number.astype(np.int32)
        scored = naming.scored(own_indptr, tokens[by_walk])
        if len(tokens):
            self._score(pending, [scored.at, scored.row, scored.token])
        results = self._pinned[begin : begin + size.sizes.words]
        given = naming.answers(results, size.sizes, count, scored, own_indptr)
        scores = np.empty_like(given.scored)
        scores[by_walk] = given.scored
        return (
            Answers(given.ids[walks], given.probabilities[walks], scores),
            self._places.first_state + walks,
        )

    def _score(self, pending: _Pending, arrays: list[NDArray[np.int32]]) -> None:
        """Scores tokens of the level's rows, and waits for that."""
        device, size, sections = self._device, pending.size, Sections(arrays)
        sections.write(self._pinned_words.numpy())
        device.copy(self._score_words[: sections.words], self._pinned_words[: sections.words])
        if pending.head is not None:
            device.launch(self._scoring(size, pending.head, Scratch(self._results.device)))
        elif size.scores is not None:
            size.scores.launch()
        end = _FOUND_WORDS * size.rows + size.sizes.words
        begin = end - size.sizes.scored
        behind = begin + len(arrays[0])
        device.copy(self._pinned[begin:behind], self._results[begin:behind])
        self._done.record()
        self._done.wait()

    # Work refers to what it uses and not to this object: what holds it would then never be freed at once.

    def _computing(
        self, size: _Size, head: _Head, left: Left, scratch: Scratch
    ) -> Callable[[], None]:
        """Returns what computes a level."""
        trunk, places, shape = self._trunk, self._places, self._trunk.operators.shape
        begin = _FOUND_WORDS * size.rows
        found = self._results[:begin].view(-1, _FOUND_WORDS)
        views = size.sizes.split(self._results[begin:])
        rows = replace(self._rows.first(size.rows), found=found)
        all_walks, walks = self._walks, self._walks[0][: size.rows]
        count = all_walks.count(0)
        work = {
            window: (KeyOrder.of(shape.kv_heads, window), _part(one, size.rows, window, shape))
            for window, one in self._work.items()
        }
        step = StepInput(
            tokens=rows.tokens,
            positions=rows.positions,
            slots=rows.slots,
            moves=self._no_moves,
            num_moves=count,
            layout=AttentionArrays.of(
                {window: one for window, (_, one) in work.items()},
                group=shape.group,
                kv_heads=shape.kv_heads,
                heights=self._heights,
                page_size=shape.page_size,
                # Where the packed step has them.
                page_ids=left.packed,
                row_position=rows.positions,
                path_slots=self._path_slots,
            ),
        )
        asked = self._asked(size)

        @torch.inference_mode()
        def compute() -> None:
            spectrie_kernels.unpack(left.beside, all_walks)
            spectrie_kernels.draft_roots(
                left.packed, _SECTIONS, walks, count, left.drawn, places, rows
            )
            for order, one in work.values():
                spectrie_kernels.root_work(rows, count, order, one)
            trunk.operators.begin_level(step, None, scratch)
            x = trunk.compute(step, rows.origins, rows.places, scratch, is_first=True)
            head.x, head.found = x, trunk.naming.answer(x, asked, trunk.operators, views)

        return compute

    def _scoring(self, size: _Size, head: _Head, scratch: Scratch) -> Callable[[], None]:
        """Returns what scores tokens of the level whose head that is."""
        trunk, words, arrays = self._trunk, self._score_words, self._scored
        views = size.sizes.split(self._results[_FOUND_WORDS * size.rows :])
        asked = self._asked(size)

        @torch.inference_mode()
        def work() -> None:
            assert head.x is not None
            spectrie_kernels.unpack(words, arrays)
            trunk.operators.scratch = scratch
            trunk.naming.score(head.x, head.found, asked, trunk.operators, views.scored)

        return work

    def _asked(self, size: _Size) -> Asked:
        at, row, token = (self._scored[which][: size.sizes.scored] for which in range(3))
        return Asked(self._rows.tokens[: size.rows], at, row, token)


def _work_arrays(rows: int, order: KeyOrder, device: torch.device) -> WorkArrays:
    """Returns room for attention's work of rows."""

    def zeros(*shape: int) -> torch.Tensor:
        return torch.zeros(*shape, dtype=torch.int32, device=device)

    items = rows * (order.most_splits + 1)
    return WorkArrays(zeros(items, 8), zeros(rows, 4), zeros(0, 8), zeros(3))


def _part(work: WorkArrays, rows: int, window: int | None, shape: StepShape) -> WorkArrays:
    """Returns the work of the first rows."""
    items = rows * (KeyOrder.of(shape.kv_heads, window).most_splits + 1)
    return replace(work, part_items=work.part_items[:items], combined=work.combined[:rows])
