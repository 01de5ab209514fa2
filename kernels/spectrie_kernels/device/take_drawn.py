"""Tokens of a packed step that the step before drew, as a Triton kernel: one launch."""

from __future__ import annotations

import torch
import triton
import triton.language as tl

__all__ = ["compiled_form", "take_drawn"]


@triton.jit
def _take_drawn_kernel(packed, drawn, SECTION: tl.constexpr, BLOCK: tl.constexpr):
    """tokens[i] = max(drawn[-2 - tokens[i]], -1) where tokens[i] < -1, in place.

    packed: for each section its first word and its words, then the sections; drawn: int32 [any].
    """
    # Sections begin at multiples of 8 words.
    tokens = packed + tl.multiple_of(tl.load(packed + 2 * SECTION), 8)
    length = tl.load(packed + 2 * SECTION + 1)
    for first in range(0, length, BLOCK):
        row = first + tl.arange(0, BLOCK)
        token = tl.load(tokens + row, mask=row < length, other=0)
        is_drawn = token < -1
        taken = tl.load(drawn + (-2 - token), mask=is_drawn, other=0)
        tl.store(tokens + row, tl.maximum(taken, -1), mask=is_drawn)


def take_drawn(packed: torch.Tensor, section: int, drawn: torch.Tensor) -> None:
    """See `spectrie_kernels.take_drawn`."""
    constants, options = compiled_form(section)
    _take_drawn_kernel[(1,)](packed, drawn, **constants, **options)


def compiled_form(section: int) -> tuple[dict[str, int], dict[str, int]]:
    """Returns the constants and compiler's options."""
    return {"SECTION": section, "BLOCK": 512}, {"num_warps": 4}
