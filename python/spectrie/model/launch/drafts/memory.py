"""How much a drafter has room for on a device, and the memory that takes."""

from __future__ import annotations

from spectrie.model.config.model_config import ModelConfig
from spectrie.model.drafters.description import Drafter
from spectrie.model.launch.capacity import BUCKETS
from spectrie_kernels import KeyOrder

__all__ = ["MAX_DRAFT_ROWS", "MAX_TOGETHER", "SEATS", "fixed_bytes"]

MAX_DRAFT_ROWS = 512
"""Draft rows of a step, all levels together."""
SEATS = 1024
"""Rows of features for running requests."""
MAX_TOGETHER = 128
"""Rows of a level that are computed together at most."""


def fixed_bytes(drafter: Drafter, config: ModelConfig, itemsize: int, max_rows: int) -> int:
    """Returns the memory that a drafter takes beside its weights, and beside what it has for each page.

    Args:
        drafter: As it was read.
        config: Of the model.
        itemsize: Bytes of a number of its format.
        max_rows: Rows of the largest step.
    """
    hidden = config.hidden_size
    feature = drafter.taps * hidden * itemsize
    entries = MAX_DRAFT_ROWS * drafter.geometry.numbers_per_token * itemsize
    # What a step's rows continue, the inputs of the first layer and what they give, at most.
    work = max_rows * (feature + 8 * hidden * itemsize + 4 * hidden * 4)
    level = MAX_TOGETHER * (config.vocabulary_size + 8 * hidden) * 4
    geometry = drafter.geometry
    # What attention of a row leaves of each part of its keys, in levels and in steps beside several layers.
    parts = KeyOrder.of(geometry.kv_heads).max_parts + 1
    sums = parts * geometry.heads * (geometry.head_dim + 2) * 4
    attending = MAX_TOGETHER
    if drafter.taps and len(geometry.layers) > 1:
        attending += min(max_rows, BUCKETS[-1])
    return (SEATS + max_rows) * feature + entries + work + level + attending * sums
