"""The sections of a packed step, brought to where captured kernels read them."""

from __future__ import annotations

import torch

from spectrie_kernels import reference
from spectrie_kernels.backend import runs_triton
from spectrie_kernels.checks import check_tensor
from spectrie_kernels.step_arrays import StepArrays

__all__ = ["take_drawn", "unpack"]


def unpack(packed: torch.Tensor, arrays: StepArrays) -> None:
    """Copies sections of a packed step to their arrays, and fills what is behind them, in one launch.

    Afterwards `arrays.counts` holds how many entries each array got. What a section has above its
    array's capacity is left out: the caller, who knows the lengths, takes other arrays for such a
    step.

    Args:
        packed: int32, contiguous, on the device of the arrays: a table of two words for each section,
            its first word, a multiple of 8, and its words; then the sections.
        arrays: Where they go.

    Raises:
        ValueError: A shape, dtype or device does not fit; the message names it.
    """
    check_tensor("packed", packed, torch.int32, [None], arrays.words.device)
    if runs_triton(packed):
        from spectrie_kernels.device import unpack as triton_form

        triton_form.unpack(packed, arrays)
    else:
        reference.unpack(packed, arrays)


def take_drawn(packed: torch.Tensor, section: int, drawn: torch.Tensor) -> None:
    """Replaces the tokens of a packed step that stand for ones that the step before drew.

    A token below -1 stands for `drawn[-2 - token]`, and becomes -1 where that is negative: where nothing
    could be drawn. The others stay.

    Args:
        packed: As `unpack` takes it; changed in place.
        section: Number of the section of tokens.
        drawn: int32, contiguous, on the same device, with all tokens that are stood for.

    Raises:
        ValueError: A shape, dtype or device does not fit, or the section is negative; the message
            names it.
    """
    check_tensor("packed", packed, torch.int32, [None], packed.device)
    check_tensor("drawn", drawn, torch.int32, [None], packed.device)
    if section < 0:
        raise ValueError(f"section {section}: must not be negative")
    if runs_triton(packed):
        from spectrie_kernels.device import take_drawn as triton_form

        triton_form.take_drawn(packed, section, drawn)
    else:
        reference.take_drawn(packed, section, drawn)
