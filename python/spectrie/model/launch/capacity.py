"""How much room the arrays of recorded steps have."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from spectrie._core import PackedSection, PackedWork
from spectrie.model.launch.overflows import Overflow
from spectrie.model.step.packed import PackedStep, StepShape
from spectrie_kernels import KeyOrder, StepArray

__all__ = [
    "BUCKETS",
    "MAX_SAMPLES",
    "StepRoom",
    "bucket_of",
    "buckets_up_to",
    "sample_buckets",
]

BUCKETS: tuple[int, ...] = (1, 2, 4, 8, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512)
"""Rows that recorded steps compute: a step takes the first that holds it."""
MAX_SAMPLES = 256
"""Sample rows of recorded steps: their logits are in memory all at once.

What comes back to the host is that of the bucket: a token, and eight likeliest tokens with their
probabilities, are 68 bytes of each of its rows, so 68 to 121 bytes of a real one (9 rows take the bucket of
16), 80 on average over all numbers of rows.
"""

_TREE_ROWS = 64
# Lists, whose readers know their length; what they have room for is seldom used. It is for all requests of a
# step together: what is longer is computed without recorded work, and logged (`overflows.py`).
_ONE = int(np.float32(1).view(np.int32))
_PAGES = 1 << 16
_MOVES = 1 << 11
_BIASES = 1 << 14
_SEEN = 1 << 17
_MASKED = 1 << 14


def buckets_up_to(most: int) -> tuple[int, ...]:
    """Returns the buckets for steps of up to `most` rows: the last one holds as many, if any does."""
    below = sum(bucket < most for bucket in BUCKETS)
    return BUCKETS[: below + 1]


def sample_buckets(rows: int, is_wide: bool) -> tuple[int, ...]:
    """Returns numbers of sample rows of recorded steps of up to `rows` rows, ascending.

    Requests of few rows are decoded: all rows are sampled. Among more than 64 with wider requests there may be
    prompts, of which few are.
    """
    if rows <= _TREE_ROWS:
        return (rows,)
    if is_wide:
        return (_TREE_ROWS, min(rows, MAX_SAMPLES))
    return (rows,) if rows <= MAX_SAMPLES else ()


def bucket_of(count: int, buckets: Sequence[int]) -> int | None:
    """Returns the first bucket that holds `count` rows; None if none does."""
    return next((bucket for bucket in buckets if bucket >= count), None)


def _list(section: int, capacity: int, width: int = 1) -> StepArray:
    return StepArray(section, capacity, width, keeps=True)


@dataclass(frozen=True, slots=True)
class StepRoom:
    """Arrays to which sections of a packed step are copied, in one order.

    Attributes:
        arrays: The arrays.
    """

    arrays: tuple[StepArray, ...]

    @classmethod
    def of_rows(cls, rows: int, shape: StepShape) -> StepRoom:
        """Returns the arrays that the layers of `rows` rows read."""
        arrays = [
            StepArray(PackedSection.ROW_TOKEN, rows, fill=-1),
            StepArray(PackedSection.ROW_POSITION, rows),
            StepArray(PackedSection.ROW_SLOT, rows, fill=-1),
            _list(PackedSection.MOVES, _MOVES, width=2),
            _list(PackedSection.PAGE_IDS, _PAGES),
            _list(PackedSection.PATH_SLOTS, rows * _TREE_ROWS),
            StepArray(PackedSection.ROW_PARENT, rows, fill=-1),
            # A tree with drafts has two rows or more.
            _list(PackedSection.WALKS, max(1, rows // 2), width=4),
        ]
        for index, window in enumerate(shape.windows):
            first = len(PackedSection) + len(PackedWork) * index
            # A tile takes each split of its request twice at most, where the split changes its size.
            splits = 2 * (KeyOrder.of(shape.kv_heads, window).max_splits + 1)
            prompts = rows if rows > _TREE_ROWS else 1
            arrays += [
                _list(first + PackedWork.PART_ITEMS, rows * (splits + 1), width=8),
                _list(first + PackedWork.COMBINED, rows, width=4),
                _list(first + PackedWork.PROMPT_ITEMS, prompts, width=8),
            ]
        return cls(tuple(arrays))

    @classmethod
    def of_samples(cls, samples: int, shape: StepShape, *, drawn: bool) -> StepRoom:
        """Returns the arrays that the head of `samples` rows reads, and its draws if `drawn`."""
        arrays = [
            StepArray(PackedSection.SAMPLE_ROWS, samples, fill=-1),
            StepArray(PackedSection.TOP_ROWS, samples, fill=-1),
        ]
        if drawn:
            arrays += [
                StepArray(PackedSection.SEED, samples, width=2),
                *(
                    StepArray(section, samples)
                    for section in (
                        PackedSection.POSITION,
                        PackedSection.REQUEST,
                        PackedSection.TEMPERATURE,
                        PackedSection.TOP_K,
                        PackedSection.TOP_P,
                        PackedSection.MIN_P,
                        PackedSection.TYPICAL_P,
                        PackedSection.FREQUENCY,
                        PackedSection.PRESENCE,
                    )
                ),
                StepArray(PackedSection.REPETITION, samples, fill=_ONE),
                StepArray(PackedSection.BIAS_START, samples + 1, fill=None),
                _list(PackedSection.BIAS_TOKEN, _BIASES),
                _list(PackedSection.BIAS_VALUE, _BIASES),
                StepArray(PackedSection.SEEN_START, samples + 1, fill=None),
                _list(PackedSection.SEEN_TOKEN, _SEEN),
                _list(PackedSection.SEEN_COUNT, _SEEN),
                StepArray(PackedSection.PATH_START, samples + 1, fill=None),
                _list(PackedSection.PATH_TOKEN, samples * _TREE_ROWS),
                StepArray(PackedSection.MASKED_START, samples + 1, fill=None),
                _list(PackedSection.MASKED_TOKEN, _MASKED),
                StepArray(PackedSection.ALLOWED_ROW, samples, fill=-1),
                _list(PackedSection.ALLOWED, samples, width=-(-shape.vocabulary // 32)),
            ]
        return cls(tuple(arrays))

    def overflow(self, packed: PackedStep) -> Overflow | None:
        """Returns the first section that has no room in its array; None if all have."""
        for one in self.arrays:
            window, which = divmod(one.section - len(PackedSection), len(PackedWork))
            is_work = one.section >= len(PackedSection)
            span = packed.work(window, which) if is_work else packed.section(one.section)
            if span[1] > one.words:
                kinds: Iterable[Any] = PackedWork if is_work else PackedSection
                number = which if is_work else one.section
                name = next(kind.name for kind in kinds if int(kind) == number)
                return Overflow(name.lower().replace("_", " "), span[1], one.words)
        return None
