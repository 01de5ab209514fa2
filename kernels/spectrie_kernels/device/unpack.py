"""Sections of a packed step copied to arrays at fixed addresses, as a Triton kernel: one launch."""

from __future__ import annotations

import torch
import triton
import triton.language as tl

from spectrie_kernels.step_arrays import StepArrays

__all__ = ["compiled_form", "unpack"]

_PROGRAMS = 16
"""Programs that share an array."""


@triton.jit
def _unpack_kernel(packed, table, words, counts, BLOCK: tl.constexpr):
    """Copies the section that each array's entry in `table` names, and writes what is behind it.

    packed: for each section its first word and its words, then the sections; table as in `StepArrays`.
    """
    array = tl.program_id(0)
    entry = table + array * 8
    section = tl.load(entry)
    target = words + tl.multiple_of(tl.load(entry + 1), 8)
    room = tl.load(entry + 2)
    fill = tl.load(entry + 3)
    repeats = tl.load(entry + 4)
    width = tl.load(entry + 5)
    keeps = tl.load(entry + 6)
    # Sections begin at multiples of 8 words.
    source = packed + tl.multiple_of(tl.load(packed + 2 * section), 8)
    length = tl.load(packed + 2 * section + 1)
    taken = tl.minimum(length, room)
    last = tl.load(source + tl.maximum(length, 1) - 1, mask=length > 0, other=0)
    fill = tl.where(repeats != 0, last, fill)
    end = tl.where(keeps != 0, taken, room)
    if tl.program_id(1) == 0:
        tl.store(counts + array, taken // width)
    for first in range(tl.program_id(1) * BLOCK, end, tl.num_programs(1) * BLOCK):
        word = first + tl.arange(0, BLOCK)
        if first + BLOCK <= taken:
            tl.store(target + word, tl.load(source + word))
        else:
            copied = tl.load(source + word, mask=word < taken, other=0)
            tl.store(target + word, tl.where(word < taken, copied, fill), mask=word < end)


def unpack(packed: torch.Tensor, arrays: StepArrays) -> None:
    """See `spectrie_kernels.unpack`."""
    constants, options = compiled_form()
    _unpack_kernel[(len(arrays.specs), _PROGRAMS)](
        packed, arrays.table, arrays.words, arrays.counts, **constants, **options
    )


def compiled_form() -> tuple[dict[str, int], dict[str, int]]:
    """Returns the constants and compiler's options."""
    return {"BLOCK": 1024}, {"num_warps": 4}
