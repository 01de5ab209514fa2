"""How much a drafter has room for on a device, and the memory that takes."""

from __future__ import annotations

from spectrie.model.config.model_config import ModelConfig
from spectrie.model.drafters.description import Drafter
from spectrie.model.drafters.dflash import DflashWeights
from spectrie.model.launch.capacity import BUCKETS, buckets_up_to
from spectrie.model.launch.drafts.blocks import Block, block_of
from spectrie_kernels import KeyOrder

__all__ = [
    "BEAMS",
    "MAX_DRAFT_ROWS",
    "MAX_TOGETHER",
    "SEATS",
    "ahead_rows",
    "beam_buckets",
    "beam_rows",
    "fixed_bytes",
    "scratch_rows",
    "together",
]

MAX_DRAFT_ROWS = 512
"""Draft rows of a step, all levels together."""
SEATS = 1024
"""Rows of features for running requests."""
MAX_TOGETHER = 128
"""Rows of a level that are computed together at most, where they stay single rows."""
BEAMS = 4
"""Rows of a second level that continue each root where it is computed behind the first, before it is asked.

Of a request the engine asks the few nodes of a second level that are worth their rows; a replay takes four of them at
most (`AskRule::rows`). With fewer beams than that, one of these would often be none, and then all of the level is
computed as it is asked. For few requests, four rows take a device hardly longer than two: both read the same weights.
EAGLE-2's tree at its default of eight nodes a level gains nothing.
"""
_MAX_BEAM_ROWS = 64
"""Rows of such a level at most: with more its rows cost a device more than its weights, and most of them are not
asked."""
_BLOCK_ROWS = 512
"""Rows of blocks that are computed together at most."""


def together(block: Block | None) -> int:
    """Returns how many rows of a level are computed together at most."""
    return MAX_TOGETHER if block is None else max(1, _BLOCK_ROWS // block.rows)


def ahead_rows(block: Block | None, max_rows: int) -> int:
    """Returns how many rows of a first level have places of their own, as they are computed behind a step; arguments
    as for `scratch_rows`."""
    return buckets_up_to(min(MAX_TOGETHER, max_rows))[-1] if block is None else 0


def beam_buckets(max_rows: int) -> tuple[int, ...]:
    """Returns the numbers of roots whose second levels are computed ahead, ascending; first levels have up to
    `max_rows` rows."""
    buckets = buckets_up_to(min(MAX_TOGETHER, max_rows))
    few = tuple(bucket for bucket in buckets if BEAMS * bucket <= _MAX_BEAM_ROWS)
    return few or buckets[:1]


def beam_rows(block: Block | None, max_rows: int) -> int:
    """Returns how many rows of second levels have places of their own; arguments as for `scratch_rows`."""
    return BEAMS * beam_buckets(max_rows)[-1] if block is None else 0


def scratch_rows(block: Block | None, max_rows: int) -> int:
    """Returns how many rows of a step's drafts have keys of their own at most.

    Args:
        block: What a row of a first level becomes; None where it stays one row.
        max_rows: Draft rows of a step.
    """
    if block is None:
        return max_rows + ahead_rows(block, max_rows) + beam_rows(block, max_rows)
    # Those of a block are read in its level alone.
    return min(together(block), max_rows) * block.rows


def fixed_bytes(drafter: Drafter, config: ModelConfig, itemsize: int, max_rows: int) -> int:
    """Returns the memory that a drafter takes beside its weights, and beside what it has for each page.

    Args:
        drafter: As it was read.
        config: Of the model.
        itemsize: Bytes of a number of its format.
        max_rows: Rows of the largest step.

    Raises:
        ModelError: Drafters of this form do not run on a GPU.
    """
    hidden, geometry, block = config.hidden_size, drafter.geometry, block_of(drafter)
    feature = drafter.taps * hidden * itemsize
    slots = scratch_rows(block, MAX_DRAFT_ROWS)
    entries = slots * geometry.numbers_per_token * itemsize
    # What a step's rows continue, the inputs of the first layer and what they give, at most.
    work = max_rows * (feature + 8 * hidden * itemsize + 4 * hidden * 4)
    # Recorded levels have as many rows as the first bucket that holds all that are computed together.
    rows = buckets_up_to(together(block))[-1]
    computed = rows if block is None else rows * block.rows
    # Those of second levels ahead have memory of their own.
    beams = beam_rows(block, MAX_DRAFT_ROWS) if drafter.taps else 0
    # Convolutions take rows in single precision.
    width = 8 if block is None else 16
    level = (rows + beams) * config.vocabulary_size * 4
    level += (computed + beams) * (feature + width * hidden * 4)
    states = 1 if block is None else block.states
    ahead = ahead_rows(block, MAX_DRAFT_ROWS) + beam_rows(block, MAX_DRAFT_ROWS)
    level += (MAX_DRAFT_ROWS * states + ahead) * hidden * 4
    # What attention of a row leaves of each part of its keys, in levels and in steps beside several layers.
    parts = KeyOrder.of(geometry.kv_heads).max_parts + 1
    sums = parts * geometry.heads * (geometry.head_dim + 2) * 4
    attending = computed + beams
    is_context = isinstance(drafter.weights, DflashWeights)
    if drafter.taps and len(geometry.layers) > 1 and not is_context:
        attending += min(max_rows, BUCKETS[-1])
    return (SEATS + max_rows) * feature + entries + work + level + attending * sums
