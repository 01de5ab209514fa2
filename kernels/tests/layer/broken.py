"""Kernels and parts of kernels with one fault each, which tests must find."""

from __future__ import annotations

import triton
import triton.language as tl

from spectrie_kernels.device.product import sum_parts


@triton.jit
def halves_first(values, HEADS: tl.constexpr, DIMS: tl.constexpr):
    """Sums of two, the far ones first."""
    for level in tl.static_range(10):
        if (DIMS >> level) > 1:
            values = tl.sum(tl.reshape(values, (HEADS, 2, DIMS >> (level + 1))), axis=1)
    return tl.reshape(values, (HEADS,))


@triton.jit
def load_unrounded(
    product,
    bias,
    parts,
    stride,
    at,
    feature,
    inside,
    rounded: tl.constexpr,
    SUMS: tl.constexpr,
    ASCENDING: tl.constexpr,
    HAS_BIAS: tl.constexpr,
):
    """Sums as they are."""
    total = sum_parts(product, parts, stride, at, inside)
    return total + tl.load(bias + feature, mask=inside, other=0.0).to(tl.float32)


@triton.jit
def never(source, destination, AT_ONCE: tl.constexpr):
    """No move needs another."""
    return False


@triton.jit
def gather_without_padding(x, rows, output, FEATURES: tl.constexpr, BLOCK: tl.constexpr):
    """Row 0 in place of none."""
    index = tl.program_id(0).to(tl.int64)
    feature = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    inside = feature < FEATURES
    row = tl.maximum(tl.load(rows + index), 0)
    taken = tl.load(x + row * FEATURES + feature, mask=inside, other=0.0)
    tl.store(output + index * FEATURES + feature, taken.to(output.dtype.element_ty), mask=inside)


@triton.jit
def unpack_without_fill(packed, table, words, counts, BLOCK: tl.constexpr):
    """What is behind a section stays as it was."""
    entry = table + tl.program_id(0) * 8
    section = tl.load(entry)
    source = packed + tl.load(packed + 2 * section)
    taken = tl.minimum(tl.load(packed + 2 * section + 1), tl.load(entry + 2))
    tl.store(counts + tl.program_id(0), taken // tl.load(entry + 5))
    for first in range(0, taken, BLOCK):
        word = first + tl.arange(0, BLOCK)
        copied = tl.load(source + word, mask=word < taken, other=0)
        tl.store(words + tl.load(entry + 1) + word, copied, mask=word < taken)


@triton.jit
def take_drawn_as_it_is(packed, drawn, SECTION: tl.constexpr, BLOCK: tl.constexpr):
    """What could not be drawn goes on as it is, and stands for another token."""
    tokens = packed + tl.load(packed + 2 * SECTION)
    length = tl.load(packed + 2 * SECTION + 1)
    for first in range(0, length, BLOCK):
        row = first + tl.arange(0, BLOCK)
        token = tl.load(tokens + row, mask=row < length, other=0)
        taken = tl.load(drawn + (-2 - token), mask=token < -1, other=0)
        tl.store(tokens + row, taken, mask=token < -1)


@triton.jit
def to_any_child(
    cache,
    drawn,
    tokens,
    parents,
    slots,
    count,
    inside,
    SLOT: tl.constexpr,
    BLOCK: tl.constexpr,
    MAX_ROWS: tl.constexpr,
):
    """Goes on to the first child, whatever was drawn."""
    rows = tl.arange(0, MAX_ROWS)
    is_row = rows < count
    parent = tl.load(parents + rows, mask=is_row, other=-2)
    slot = tl.load(slots + rows, mask=is_row, other=0)
    number = tl.arange(0, BLOCK)
    node = count * 0
    depth = count * 0
    while node < count:
        node = tl.min(tl.where(is_row & (parent == node), rows, MAX_ROWS), axis=0)
        depth += 1
        moves = (node < count) & (node != depth)
        taken_from = tl.sum(tl.where(rows == node, slot, 0), axis=0).to(tl.int64) * SLOT
        brought_to = tl.sum(tl.where(rows == depth, slot, 0), axis=0).to(tl.int64) * SLOT
        value = tl.load(cache + taken_from + number, mask=inside & moves)
        tl.store(cache + brought_to + number, value, mask=inside & moves)
