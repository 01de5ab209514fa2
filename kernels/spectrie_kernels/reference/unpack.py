"""What the first kernels of a step do with a packed one, in plain torch."""

from __future__ import annotations

import torch

from spectrie_kernels.step_arrays import StepArrays

__all__ = ["take_drawn", "unpack"]


def unpack(packed: torch.Tensor, arrays: StepArrays) -> None:
    """See `spectrie_kernels.unpack`."""
    for index, one in enumerate(arrays.specs):
        begin, length = packed[2 * one.section : 2 * one.section + 2].tolist()
        taken = min(length, one.words)
        words = arrays.words_of(index)
        words[:taken] = packed[begin : begin + taken]
        arrays.counts[index] = taken // one.width
        if one.keeps:
            continue
        last = packed[begin + length - 1] if length else 0
        words[taken:] = last if one.fill is None else one.fill


def take_drawn(packed: torch.Tensor, section: int, drawn: torch.Tensor) -> None:
    """See `spectrie_kernels.take_drawn`."""
    begin, length = packed[2 * section : 2 * section + 2].tolist()
    tokens = packed[begin : begin + length]
    is_drawn = tokens < -1
    tokens[is_drawn] = drawn[(-2 - tokens[is_drawn]).long()].clamp(min=-1)
