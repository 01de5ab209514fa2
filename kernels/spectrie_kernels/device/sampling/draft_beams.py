"""Rows of the likeliest tokens behind roots, as a Triton kernel: one program a root."""

from __future__ import annotations

import torch
import triton
import triton.language as tl

from spectrie_kernels.attention.roots import RootAnswers, RootPlaces, RootRows

__all__ = ["compiled_form", "draft_beams"]


@triton.jit
def _first_of_greatest(weight, ids):
    """The greatest weight, and of those that have it the lowest id."""
    greatest = tl.max(weight, axis=0)
    return greatest, tl.min(tl.where(weight == greatest, ids, 0x7FFFFFFF), axis=0)


@triton.jit
def _draft_beams_kernel(
    root_positions,
    root_places,
    root_pages,
    ids,
    weights,
    names,
    count,
    tokens,
    positions,
    slots,
    origins,
    places,
    pages,
    found,
    number,
    WIDTH: tl.constexpr,
    BLOCK: tl.constexpr,
    BEAMS: tl.constexpr,
    HAS_NAMES: tl.constexpr,
    FIRST_SLOT: tl.constexpr,
    FIRST_STATE: tl.constexpr,
    DUMP: tl.constexpr,
    MAX_CONTEXT: tl.constexpr,
    EMBEDDED: tl.constexpr,
):
    """Row r BEAMS + i: the token of the i-th greatest of weights[r], one position behind root r.

    ids and weights [roots, WIDTH]; found [rows, 4]. BLOCK is the power of two that holds WIDTH.
    """
    root = tl.program_id(0)
    roots = tl.load(count)
    if root == 0:
        tl.store(number, roots * BEAMS)
    there = root < roots
    state = tl.load(root_places + root)
    position = tl.load(root_positions + root) + 1
    page = tl.load(root_pages + root)
    is_root = there & (state != DUMP) & (position < MAX_CONTEXT)
    column = tl.arange(0, BLOCK)
    is_column = column < WIDTH
    named = tl.load(ids + WIDTH * root + column, mask=is_column, other=-1)
    weight = tl.load(weights + WIDTH * root + column, mask=is_column, other=float("-inf"))
    # A weight that is no number names no token.
    weight = tl.where((named >= 0) & (weight == weight), weight, float("-inf"))
    for beam in tl.static_range(BEAMS):
        greatest, chosen = _first_of_greatest(weight, named)
        is_beam = is_root & (greatest > float("-inf"))
        weight = tl.where(named == chosen, float("-inf"), weight)
        token = chosen
        if HAS_NAMES:
            token = tl.load(names + chosen, mask=is_beam, other=-1)
        row = root * BEAMS + beam
        tl.store(tokens + row, tl.where(is_beam & (token < EMBEDDED), token, -1))
        tl.store(positions + row, tl.where(is_beam, position, 0))
        tl.store(slots + row, tl.where(is_beam, FIRST_SLOT + row, -1))
        tl.store(origins + row, tl.where(is_beam, state, -1))
        tl.store(places + row, tl.where(is_beam, FIRST_STATE + row, DUMP))
        tl.store(pages + row, tl.where(is_beam, page, 0))
        tl.store(found + 4 * row, tl.where(is_beam, token, -1))
        tl.store(found + 4 * row + 1, tl.where(is_beam, position, -1))
        tl.store(found + 4 * row + 2, tl.where(is_beam, root, -1))
        tl.store(found + 4 * row + 3, 0)


def draft_beams(
    roots: RootRows,
    answers: RootAnswers,
    count: torch.Tensor,
    places: RootPlaces,
    beams: RootRows,
    number: torch.Tensor,
) -> None:
    """See `spectrie_kernels.draft_beams`."""
    num_roots, width = answers.ids.shape
    each = beams.tokens.shape[0] // num_roots
    constants, options = compiled_form(width, each, places, has_names=answers.names is not None)
    _draft_beams_kernel[(num_roots,)](
        roots.positions,
        roots.places,
        roots.pages,
        answers.ids,
        answers.weights,
        answers.ids if answers.names is None else answers.names,
        count,
        beams.tokens,
        beams.positions,
        beams.slots,
        beams.origins,
        beams.places,
        beams.pages,
        beams.found,
        number,
        **constants,
        **options,
    )


def compiled_form(
    width: int, beams: int, places: RootPlaces, *, has_names: bool
) -> tuple[dict[str, int], dict[str, int]]:
    """Returns the constants and compiler's options.

    Args:
        width: Tokens that a root has an answer of.
        beams: Those of them that become rows.
        places: Where things lie.
        has_names: Whether numbers have tokens of other numbers.
    """
    constants = {
        "WIDTH": width,
        "BLOCK": triton.next_power_of_2(width),
        "BEAMS": beams,
        "HAS_NAMES": has_names,
        "FIRST_SLOT": places.first_slot,
        "FIRST_STATE": places.first_state,
        "DUMP": places.dump,
        "MAX_CONTEXT": places.max_context,
        "EMBEDDED": places.embedded,
    }
    return constants, {"num_warps": 1}
